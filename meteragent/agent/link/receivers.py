"""The receivers that share a stream: their admission and revocation, and their grants.

The agent compares the configuration with the store (`apply_admissions`) at its start, at each
`next_admission_ms`, and after an action (`act`): it stops sending, compares, and continues with new
connections. So a receiver is revoked only while nothing is sent, and no copy of its messages remains in
memory.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

from meteragent import config as settings
from meteragent.agent.environment import Context
from meteragent.config.model import Broker
from meteragent.domain.errors import StoreError
from meteragent.domain.grid import iso_time
from meteragent.domain.identity import RESUME, VERBS
from meteragent.domain.terms import Clock
from meteragent.mqtt import Endpoint
from meteragent.store import Store, grants
from meteragent.store.grants import Action, WantedGrant

LEAD_MS = 60_000
"""How long before its configured start a receiver is admitted, so that its first window can open on time."""
NOTICE_MS = 30_000
"""The shortest time from a receiver's admission to its first window, under the wall clock. In this time, the
agent finds out whether another agent releases on the receiver's topics: connecting and waiting for an answer
take at most 10 s each."""
TRANSIT_MS = 60_000
"""How long the last records may take to be delivered; records that remain after this time are deleted."""

_log = logging.getLogger("meteragent")


def revocation_ms(stream: settings.Stream, receiver: settings.Receiver) -> int | None:
    """Return when a receiver is revoked, which is after its last record is due; None if it has no end."""
    if receiver.end is None:
        return None
    last_ms = receiver.end + settings.terms(stream).lateness_ms + stream.sink.spread
    return last_ms + stream.window.catch_up + TRANSIT_MS


def _absence_reason(stream: settings.Stream, receiver: settings.Receiver, now_ms: int) -> str | None:
    """Return why a receiver has no grant at `now_ms`; None if it has one."""
    revoked_ms = revocation_ms(stream, receiver)
    if receiver.state:
        return receiver.state
    if revoked_ms is not None and now_ms >= revoked_ms:
        return "ended"
    if receiver.start is not None and now_ms < receiver.start - LEAD_MS:
        return "not started"
    return None


def _all_receivers(config: settings.Config) -> Iterator[tuple[settings.Stream, settings.Receiver]]:
    return ((stream, receiver) for stream in config.stream for receiver in stream.receivers)


def must_run(stream: settings.Stream, now_ms: int) -> bool:
    """Return whether a stream must run: it has its own sink, or a receiver gets it now or later."""
    reasons = (_absence_reason(stream, receiver, now_ms) for receiver in stream.receivers)
    return not stream.receivers or any(reason in (None, "not started") for reason in reasons)


def next_admission_ms(config: settings.Config, now_ms: int) -> int | None:
    """Return when a receiver that is not paused is next admitted or revoked after `now_ms`; None if never."""
    pairs = [(stream, receiver) for stream, receiver in _all_receivers(config) if not receiver.state]
    times_ms = [receiver.start - LEAD_MS for _, receiver in pairs if receiver.start is not None]
    times_ms += [end_ms for pair in pairs if (end_ms := revocation_ms(*pair)) is not None]
    return min((time_ms for time_ms in times_ms if time_ms > now_ms), default=None)


def apply_admissions(config: settings.Config, store: Store, now_ms: int) -> None:
    """Revoke and admit receivers as configured for `now_ms`, and write the receipts of revoked receivers.

    The log states the first window of each new or postponed grant. Raises StoreError if the store cannot be
    used or a receipt cannot be written; a later call writes the receipt.
    """
    reasons, admissible = dict[tuple[str, str], str](), list[WantedGrant]()
    for stream, receiver in _all_receivers(config):
        reason = _absence_reason(stream, receiver, now_ms)
        reasons[stream.name, receiver.name] = reason or "moved to another broker or topic"
        if reason is None:
            admissible.append(_grant_request(stream, receiver, now_ms))
    if not (admissible or grants.active_grants(store.connection) or grants.due_receipts(store.connection)):
        return
    streams = {stream.name: stream for stream in config.stream}
    for grant in grants.replace_grants(store, admissible, reasons, now_ms):
        _log_first_window(streams[grant.stream], grant)
    for entry in grants.due_receipts(store.connection):
        from meteragent.agent.link import receipt  # noqa: PLC0415  few agents ever revoke a receiver

        path = receipt.write_receipt(store, entry)
        grants.note_receipt(store, entry.grant)
        _log.info("receiver %s: %s, the receipt is %s", entry.grant.name, entry.reason, path)


def _grant_request(stream: settings.Stream, receiver: settings.Receiver, now_ms: int) -> WantedGrant:
    link = link_text(stream, receiver)
    first_ms = receiver.start or 0
    if stream.window.clock is Clock.WALL:
        first_ms = max(first_ms, now_ms + NOTICE_MS)
    return WantedGrant(stream.name, receiver.name, receiver.topic, link, first_ms, receiver.end)


def _log_first_window(stream: settings.Stream, grant: grants.Grant) -> None:
    """Log a grant's first window, with a warning if it is not the first window after the configured start."""
    schedule = settings.schedule(stream)
    first_ms = schedule.first_start_ms(grant.since_ms)
    _log.info("receiver %s gets the windows that begin at %s or later", grant.name, iso_time(first_ms))
    start_ms = next(item.start for item in stream.receivers if item.name == grant.name)
    if start_ms is not None and schedule.first_start_ms(start_ms) < first_ms:
        text = "receiver %s: its start, %s, has passed or is too near, so it gets no window before %s"
        _log.warning(text, grant.name, iso_time(start_ms), iso_time(first_ms))


async def act(context: Context, verb: str, name: str, origin: str, known_id: int | None = None) -> str | None:
    """Pause, resume or end a receiver; return the code of the refusal (`refused.…`) if it is refused.

    `origin` is "page" or "command". Raises StoreError if the store cannot be written.
    """
    action = Action(0, name, verb, origin, context.clock.newest_ms)
    if (refusal := refusal_of(context.config, action)) is None:
        try:
            refusal = await context.thread.call(grants.add_action, context.store, action, known_id)
        finally:  # the action may be on disk, even if nobody waits for it any longer
            if refusal is None:
                _log.info("receiver %s: %s, by the %s", name, verb, origin)
                context.has_acted.set()
    return refusal


def refusal_of(config: settings.Config, action: Action) -> str | None:
    """Return why a configuration refuses an action: no such receiver, or the file itself pauses it."""
    receiver = next((item for item in config.receiver if item.name == action.receiver), None)
    if receiver is None or action.verb not in VERBS:
        return "unknown"
    return "in_file" if action.verb == RESUME and receiver.paused else None


def link_text(stream: settings.Stream, receiver: settings.Receiver) -> str:
    """Return the settings of a receiver's broker as JSON; secret files are only named, not read."""
    receiver_stream = settings.sent_to(stream, receiver)
    broker = settings.sink_broker(receiver_stream)
    facts = {name: getattr(broker, name) for name in Broker.model_fields}
    return json.dumps(facts | {"url": settings.sink_url(receiver_stream)}, default=str, sort_keys=True)


def link_endpoint(link: str, section: str) -> Endpoint:
    """Return the broker of a link. Raises StoreError or ConfigError, naming `section`, for a wrong link."""
    try:
        facts = json.loads(link)
        url = facts.pop("url")
        paths = {name: Path(value) for name, value in facts.items() if name.endswith("_file") and value}
        broker = Broker.model_validate(facts | paths)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise StoreError(f"{section}: its broker's settings in the store cannot be read") from None
    return settings.read_endpoint(section, url, broker)
