"""The parts of a configured stream: its links, its settings for the core, its budget, its client ids."""

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from meteragent import config as settings
from meteragent.agent.sink import Presence
from meteragent.agent.source import Source
from meteragent.core.stream import Stream
from meteragent.domain import identity
from meteragent.domain.budget import Budget
from meteragent.domain.counters import Counts
from meteragent.domain.identity import pseudonym
from meteragent.domain.terms import Clock
from meteragent.domain.units import Kind
from meteragent.mqtt import Endpoint
from meteragent.privacy.composition import Odometer
from meteragent.store import Store, ledger
from meteragent.wire.home_assistant import Discovery

HOME_ASSISTANT_MS = 2000
"""The time within which agents answer a start of Home Assistant, each after a different delay."""


class Links(NamedTuple):
    """The parts of a stream that are read from other files: two brokers and a key."""

    source: Endpoint
    sink: Endpoint
    pseudonym_key: bytes | None

    @classmethod
    def of(cls, stream: settings.Stream) -> "Links":
        """Read and return the links that a stream names; raises ConfigError with an unreadable file's key."""
        key_file = stream.sink.pseudonym_key_file
        key = None if key_file is None else settings.read_secret("sink.pseudonym_key_file", key_file)
        source = settings.endpoint("source", stream.source.url, stream.source)
        sink = settings.endpoint("sink", settings.sink_url(stream), settings.sink_broker(stream))
        return cls(source, sink, key)


def core(
    stream: settings.Stream,
    others_per_day: Fraction,
    links: Links,
    secret: bytes,
    claim_key: bytes | None = None,
) -> Stream:
    """Return a stream's settings for the core; without `claim_key`, descriptors have no mark."""
    return Stream(
        name=stream.name,
        source=settings.topic_of(stream.source),
        sink_topic=stream.sink.topic,
        decode=settings.decoder(stream.source),
        schedule=settings.schedule(stream, others_per_day),
        ahead_ms=stream.window.ahead,
        forget_ms=settings.forget_ms(stream.source, stream.window.forget),
        spread_ms=stream.sink.spread,
        max_meters=stream.source.max_meters,
        max_payload=stream.source.max_payload,
        secret=secret,
        pseudonym_key=links.pseudonym_key,
        claim_key=claim_key,
        total=stream.sink.total,
        format=stream.sink.format,
        price_topic=price_topic(stream),
        local_times=settings.has_local_times(stream.source),
    )


def source(
    stream: settings.Stream, topic_filter: str, now_ms: Callable[[], int | None], counts: Counts
) -> Source:
    """Return the incoming side of a stream.

    The bound of MQTT 3.1.1 does not apply if `source.inflight` is set, because the operator then knows the
    broker's limit.
    """
    inflight, max_payload = stream.source.inflight, stream.source.max_payload
    is_capped = "inflight" not in stream.source.model_fields_set
    prices = price_topic(stream)
    filters = (topic_filter,) if prices is None else (topic_filter, prices)
    return Source(filters, inflight, max_payload, now_ms, counts, is_capped=is_capped)


def price_topic(stream: settings.Stream) -> str | None:
    """Return the topic of the prices; None if weights do not come from a topic."""
    return None if stream.window.weights is None else stream.window.weights.topic


def presence(stream: settings.Stream, secret: bytes) -> Presence:
    """Return the status and the devices that the sink sends in addition to records."""
    status, prefix = stream.sink.status, stream.sink.home_assistant
    if status is None or prefix is None:
        return Presence(status)
    delay_ms = 1000 + identity.delay_ms(secret, stream.name, "home assistant", HOME_ASSISTANT_MS)
    return Presence(status, Discovery(prefix, status, stream.sink.total), delay_ms / 1000)


def role(stream: settings.Stream, side: str) -> str:
    """Return the name of a stream's connection in the log; `side` is "source" or "sink"."""
    return side if stream.name == "main" else f"{side} of stream {stream.name}"


def login_hint(side: str, stream: settings.Stream) -> str:
    """Return the hint that is logged if a broker refuses the user name and password of a source or sink."""
    broker = stream.source if side == "source" else settings.sink_broker(stream)
    if broker.username is None:
        return f"set {side}.username and {side}.password_file"
    if side == "sink" and stream.sink.username is None:
        return "check source.username and source.password_file, or set sink.username and sink.password_file"
    return f"check {side}.username and {side}.password_file"


def budget(stream: settings.Stream) -> Budget | None:
    """Return the budget of a stream; None if it has none."""
    limit, setting = settings.budget(stream), stream.privacy.budget
    return None if limit is None or setting is None else Budget(limit, setting.per)


def has_event_clock(config: settings.Config) -> bool:
    """Return whether any stream uses the event clock."""
    return any(stream.window.clock is Clock.EVENT for stream in config.stream)


def _charge_start_ms(config: settings.Config, store: Store) -> list[int]:
    """Return the earliest times at which meters may be charged: for a new window, or for an open peak."""
    states = [state for stream in config.stream for state in store.snapshot(stream.name).states.values()]
    return [
        min(state.next_ms, state.integrated_until_ms) if state.windows else state.next_ms for state in states
    ]


def odometers(config: settings.Config, store: Store) -> dict[str, Odometer]:
    """Return an odometer for each stream with a budget, set to the charges in the store.

    Charges are read from the earliest time at which any window may still open. Under the event clock a new
    stream may begin at any time in the past, and so may each meter for which it has opened no window, even
    after the stream has changed to the wall clock.
    """
    budgets = {stream.name: budget(stream) for stream in config.stream}
    odometers = {
        name: Odometer(budget.period_ms, budget.epsilon_per_w) for name, budget in budgets.items() if budget
    }
    if odometers:
        longest_ms = max(budget.period_ms for budget in budgets.values() if budget)
        from_ms = 0 if has_event_clock(config) else min([store.clock_ms, *_charge_start_ms(config, store)])
        for meter, day_ms, epsilon in ledger.recent(store.connection, longest_ms, from_ms):
            for odometer in odometers.values():
                odometer.restore(meter, day_ms, epsilon)
    return odometers


def keeps_session(stream: settings.Stream) -> bool:
    """Return whether the source's broker should keep the messages that arrive while the agent is stopped.

    It should not for a register without timestamps: an old reading would count as the current one, and all
    use since the old reading would count as the use of a single moment, which no radius hides. No energy is
    lost, because the next reading includes it.
    """
    return stream.source.kind is not Kind.REGISTER or settings.has_times(stream.source)


def client_ids(store: Store, name: str) -> tuple[str, str]:
    """Return the client ids for a stream's two brokers, which are the same at every start.

    Each sink has a different client id without the stream's name, so receivers cannot link streams.
    """
    client_id = store.client_id
    if name == "main":
        return f"meteragent-{client_id}-source", f"meteragent-{client_id}-sink"
    return (
        f"meteragent-{client_id}-source-{name}",
        f"meteragent-{pseudonym(store.secret, f'sink/{name}')}-sink",
    )
