"""The parts of a configured stream: its source's broker, core settings and budget."""

from dataclasses import replace
from fractions import Fraction

from meteragent import config as settings
from meteragent.config.source import has_local_times, part_decoders
from meteragent.core.stream import Stream
from meteragent.domain.commit import Budget, Receiver
from meteragent.domain.terms import Clock
from meteragent.mqtt import Endpoint
from meteragent.privacy.composition import Odometer
from meteragent.store import Store, ledger


def source_broker(stream: settings.Stream) -> Endpoint:
    """Return the source's broker, with its password. Raises ConfigError as `config.read_endpoint` does."""
    broker = settings.read_endpoint("source", stream.source.url, stream.source)
    return replace(broker, keeps_order=stream.source.acknowledge == "in order")


def pseudonym_key(stream: settings.Stream) -> bytes | None:
    """Return the key of the stream's pseudonyms, if any. Raises ConfigError if its file cannot be read."""
    key_file = stream.sink.pseudonym_key_file
    return None if key_file is None else settings.read_secret("sink.pseudonym_key_file", key_file)


def sink_receiver(stream: settings.Stream) -> Receiver:
    """Return the sink of a stream as a receiver that has no end."""
    return Receiver(stream.name, stream.sink.topic)


def core_of(
    stream: settings.Stream,
    others_per_day: Fraction,
    key: bytes | None,
    secret: bytes,
    claim_key: bytes | None = None,
) -> Stream:
    """Return a stream's core settings with its sink alone. Descriptors have no mark without `claim_key`."""
    return Stream(
        name=stream.name,
        source=settings.topic_of(stream.source),
        receivers=(sink_receiver(stream),),
        decode=part_decoders(stream.source) or settings.build_decoder(stream.source),
        schedule=settings.schedule(stream, others_per_day),
        ahead_ms=stream.window.ahead,
        forget_ms=settings.forget_ms(stream.source, stream.window.forget),
        spread_ms=stream.sink.spread,
        max_meters=stream.source.max_meters,
        max_payload=stream.source.max_payload,
        secret=secret,
        pseudonym_key=key,
        claim_key=claim_key,
        total=stream.sink.total,
        price_topic=price_topic(stream),
        needs_zone=has_local_times(stream.source),
    )


def price_topic(stream: settings.Stream) -> str | None:
    """Return the topic of prices; None if the weights do not come from a topic."""
    return None if stream.window.weights is None else stream.window.weights.topic


def connection_name(stream: settings.Stream, side: str) -> str:
    """Return the name of a stream's connection in the log; `side` is "source" or "sink"."""
    return side if stream.name == "main" else f"{side} of stream {stream.name}"


def budget_of(stream: settings.Stream) -> Budget | None:
    """Return the budget of a stream; None if the stream has no budget."""
    limit, setting = settings.budget(stream), stream.privacy.budget
    return None if limit is None or setting is None else Budget(limit, setting.per)


def has_event_clock(config: settings.Config) -> bool:
    """Return whether at least one stream uses the event clock."""
    return any(stream.window.clock is Clock.EVENT for stream in config.stream)


def _charge_start_ms(config: settings.Config, store: Store) -> list[int]:
    """Return, for each meter of each stream, the earliest time for which it may be charged."""
    states = [state for stream in config.stream for state in store.snapshot(stream.name).states.values()]
    return [
        min(state.next_ms, state.integrated_until_ms) if state.windows else state.next_ms for state in states
    ]


def load_odometers(config: settings.Config, store: Store) -> dict[str, Odometer]:
    """Return an odometer, set to the charges in the store, for each stream with a budget.

    Charges are read from the earliest time at which a meter may still be charged. With an event clock, all
    charges are read, because a new stream's readings may start at any time in the past.
    """
    budgets = {stream.name: budget_of(stream) for stream in config.stream}
    odometers = {
        name: Odometer(budget.period_ms, budget.epsilon_per_w) for name, budget in budgets.items() if budget
    }
    if odometers:
        longest_ms = max(budget.period_ms for budget in budgets.values() if budget)
        from_ms = 0 if has_event_clock(config) else min([store.clock_ms, *_charge_start_ms(config, store)])
        for meter, day_ms, epsilon in ledger.recent_charges(store.connection, longest_ms, from_ms):
            for odometer in odometers.values():
                odometer.restore(meter, day_ms, epsilon)
    return odometers
