"""The intake: units that are stated under way, values that a gateway has kept, and names of no meter."""

from dataclasses import replace
from typing import Any

from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.counters import Counts
from meteragent.domain.identity import Shard, SourceTopic
from meteragent.domain.reading import Message, Reading
from meteragent.domain.units import HOUR_MS, MICRO
from meteragent.privacy import SeededBits
from tests.support.terms import terms_with
from tests.support.witness import TERMS
from tests.support.world import BASE_MS, MemoryDisk, message, stream

HOLD_MS = 60_000
HELD = terms_with(TERMS, hold_ms=HOLD_MS, every_ms=None, length_ms=HOUR_MS, step_ms=HOUR_MS)
SOURCE = SourceTopic.parse("meters/{meter}/power")
STATED = replace(SOURCE, unit=SourceTopic.parse("meters/{meter}/unit"), units={None: ("W",)})


def core(**changes: Any) -> Pipeline:
    """Return the core of a stream with changes."""
    return Pipeline(stream(HELD, **changes), MemoryDisk().snapshot(), Spending(), SeededBits(1), Counts())


def heard(pipeline: Pipeline, *messages: Message) -> Counts:
    """Feed messages together, and return the counts."""
    now_ms = max(item.received_ms for item in messages)
    pipeline.feed(messages, now_ms, now_ms)
    return pipeline._counts


def stated(unit: str, meter: str = "m1", *, retain: bool = False) -> Message:
    """Return a message that states a unit."""
    return Message(f"meters/{meter}/unit", unit.encode(), retain, BASE_MS, "unit")


def test_readings_of_a_meter_are_refused_while_its_unit_is_another() -> None:
    """A retained statement counts, an unknown one does not, and each meter is judged by itself."""
    pipeline = core(source=STATED)
    counts = heard(pipeline, stated("kW", retain=True), message(1, 100), message(1, 100, meter="m2"))
    assert (counts["other"], counts["refused_unit"], counts["accepted"] + counts["early"]) == (1, 1, 1)
    counts = heard(pipeline, stated("unavailable"), message(2, 100))
    assert counts["refused_unit"] == 2
    counts = heard(pipeline, stated("W"), message(3, 100))
    assert (counts["refused_unit"], counts["accepted"] + counts["early"]) == (2, 2)


def test_what_states_a_unit_is_acknowledged() -> None:
    """Its message is done with as soon as it is read."""
    assert core(source=STATED).feed([stated("W")], BASE_MS, BASE_MS).acknowledge == ["unit"]


def test_a_value_that_a_gateway_kept_too_long_ends_what_stands() -> None:
    """Older than `hold`, it is refused, and the power before stands no longer than the gateway heard it."""
    ages_ms = iter([0, HOLD_MS - 1, HOLD_MS])

    def decode(_: bytes) -> list[Reading]:
        return [Reading(None, 100 * MICRO, at_ms[0] - next(ages_ms))]

    pipeline, at_ms = core(decode=decode), [BASE_MS]
    for at_ms[0] in (BASE_MS, BASE_MS + 1000, BASE_MS + 2000):
        counts = heard(pipeline, Message("meters/m1/power", b"-", False, at_ms[0], None))
    assert (counts["refused_stale"], counts["accepted"] + counts["early"]) == (1, 2)
    pending = pipeline._timelines["m1"].pending
    assert pending[-1].since_ms == BASE_MS + 1000 - HOLD_MS + 1
    counts = heard(core(decode=lambda _: [Reading(None, MICRO, 0)]), message(0, 1))
    assert (counts["refused_stale"], counts["accepted"]) == (1, 0)


def test_what_names_no_meter_of_the_stream_is_refused() -> None:
    """Another topic, a name that no topic may hold, another shard, a large message, an empty one."""
    payload = b"1" * 1001
    counts = heard(core(), replace_topic("else"), replace_topic("meters/a b\n/power"))
    assert counts["refused_topic"] + counts["refused_name"] == 2
    counts = heard(core(), Message("meters/m/power", payload, False, BASE_MS, None))
    assert counts["refused_size"] == 1
    counts = heard(core(decode=lambda _: []), message(0, 1))
    assert counts["refused_missing"] == 1
    shards = [Shard.parse(f"{part}/2") for part in (0, 1)]
    both = [
        heard(core(source=SourceTopic.parse("meters/{meter}/power", shard=one)), message(0, 1))
        for one in shards
    ]
    assert sorted(counts["other_shard"] for counts in both) == [0, 1]


def replace_topic(topic: str) -> Message:
    """Return a reading on another topic."""
    return message(0, 1)._replace(topic=topic)
