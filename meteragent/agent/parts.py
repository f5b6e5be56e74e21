"""What a configured stream is made of: its links, its terms for the core, its budget, its client names."""

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from meteragent import config as settings
from meteragent.agent.sink import Beside
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
"""Agents that hear Home Assistant start answer within this, each at its own time."""


class Links(NamedTuple):
    """What a stream needs from outside its configuration file: two brokers and a key."""

    source: Endpoint
    sink: Endpoint
    pseudonym_key: bytes | None

    @classmethod
    def of(cls, stream: settings.Stream) -> "Links":
        """Read the files a stream names; raises ConfigError with the key of one that cannot be."""
        key_file = stream.sink.pseudonym_key_file
        key = None if key_file is None else settings.read_secret("sink.pseudonym_key_file", key_file)
        source = settings.endpoint("source", stream.source.url, stream.source)
        sink = settings.endpoint("sink", settings.sink_url(stream), stream.sink)
        return cls(source, sink, key)


def core(
    stream: settings.Stream, others: Fraction, links: Links, secret: bytes, claim_key: bytes | None = None
) -> Stream:
    """What the core needs to know of a configured stream; without `claim_key` it marks no descriptor."""
    return Stream(
        name=stream.name,
        source=settings.topic_of(stream.source),
        sink_topic=stream.sink.topic,
        decode=settings.decoder(stream.source),
        schedule=settings.schedule(stream, others),
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
    )


def source(
    stream: settings.Stream, topic_filter: str, now_ms: Callable[[], int | None], counts: Counts
) -> Source:
    """Return the incoming side of a stream; who writes `source.inflight` knows the broker's own limit."""
    inflight, max_payload = stream.source.inflight, stream.source.max_payload
    capped = "inflight" not in stream.source.model_fields_set
    return Source(topic_filter, inflight, max_payload, now_ms, counts, capped=capped)


def beside(stream: settings.Stream, secret: bytes) -> Beside:
    """What leaves on the sink beside records."""
    status, prefix = stream.sink.status, stream.sink.home_assistant
    if status is None or prefix is None:
        return Beside(status)
    delay_ms = 1000 + identity.delay_ms(secret, stream.name, "home assistant", HOME_ASSISTANT_MS)
    return Beside(status, Discovery(prefix, status, stream.sink.total), delay_ms / 1000)


def budget(stream: settings.Stream) -> Budget | None:
    """Return the budget of a stream, if it has one."""
    limit, written = settings.budget(stream), stream.privacy.budget
    return None if limit is None or written is None else Budget(limit, written.per)


def has_event_clock(config: settings.Config) -> bool:
    """Return whether any stream runs by the event clock."""
    return any(stream.window.clock is Clock.EVENT for stream in config.stream)


def next_ms(config: settings.Config, store: Store) -> list[int]:
    """Where the next window of each meter of each stream starts."""
    states = (store.snapshot(stream.name).states.values() for stream in config.stream)
    return [state.next_ms for some in states for state in some]


def odometers(config: settings.Config, store: Store) -> dict[str, Odometer]:
    """An odometer for each stream with a budget, at what the store says was spent.

    By the event clock a new stream may begin anywhere in the past; and a meter that it has seen and has
    opened nothing of keeps its place there, also by the wall clock.
    """
    budgets = {stream.name: budget(stream) for stream in config.stream}
    odometers = {
        name: Odometer(budget.period_ms, budget.epsilon_per_w) for name, budget in budgets.items() if budget
    }
    if odometers:
        longest_ms = max(budget.period_ms for budget in budgets.values() if budget)
        from_ms = 0 if has_event_clock(config) else min([store.clock_ms, *next_ms(config, store)])
        for meter, day_ms, epsilon in ledger.recent(store.connection, longest_ms, from_ms):
            for odometer in odometers.values():
                odometer.restore(meter, day_ms, epsilon)
    return odometers


def keeps_session(stream: settings.Stream) -> bool:
    """Whether the source's broker is to keep what comes while we are away.

    Not a register's without times of its own: it would be taken for what the register shows now, and all that
    was used meanwhile for the use of the moment, which no radius hides. Nothing is lost by that: the next
    reading holds it all.
    """
    return stream.source.kind is not Kind.REGISTER or settings.has_times(stream.source)


def client_ids(store: Store, name: str) -> tuple[str, str]:
    """The names under which a stream's two brokers know us, the same at every start.

    Every receiver's is another, and a stream's own name stays here: who compares notes with another
    receiver finds nothing in common.
    """
    own = store.client_id
    if name == "main":
        return f"meteragent-{own}-source", f"meteragent-{own}-sink"
    return f"meteragent-{own}-source-{name}", f"meteragent-{pseudonym(store.secret, f'sink/{name}')}-sink"
