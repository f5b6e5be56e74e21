"""Readings without times of their own: of those that arrive in one millisecond the newest counts."""

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects
from meteragent.decode import wrap_single
from meteragent.domain.grid import parse_time
from meteragent.domain.identity import SourceTopic
from meteragent.domain.reading import Message, Reading
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import MICRO, Kind
from tests.core.test_pipeline import SLOT, core, feed, records
from tests.support import bare_numbers
from tests.support.terms import terms_with
from tests.support.world import BASE_MS

pytestmark = pytest.mark.usefixtures("half_quantum")
POWER = terms_with(SLOT, length_ms=20, step_ms=20, hold_ms=50)
ENERGY = terms_with(POWER, kind=Kind.INTERVAL_ENERGY, unit="Wh", hold_ms=0, interval_ms=10)
REGISTER = terms_with(ENERGY, kind=Kind.REGISTER)


def stamped(terms: Terms = POWER, **how: Any) -> Pipeline:
    """A core whose payloads are numbers."""
    return core(terms, decode=wrap_single(bare_numbers.decode), **how)


def came(received_ms: int, value: int, token: object = None, topic: str = "meters/m1/power") -> Message:
    """A number as it arrives."""
    return Message(topic, str(value).encode(), False, BASE_MS + received_ms, token)


def values(effects: Effects) -> list[float]:
    """What leaves."""
    return [value for _, value in records(effects)]


def test_of_a_backlog_the_newest_stands() -> None:
    """What waited arrives at once: power stands at the newest, the others are acknowledged and counted."""
    pipeline = stamped()
    feed(pipeline, came(1, 1000, "stood"), now_ms=20)
    backlog = [came(30, value, value) for value in (1000, 2000, 1500, 800, 100)]
    assert feed(pipeline, *backlog).acknowledge == [1000, 2000, 1500, 800, "stood"]
    assert values(feed(pipeline, now_ms=60)) == [550, 100]
    assert pipeline._counts["replaced"] == 4
    assert pipeline._counts["accepted"] == 2
    assert pipeline._counts["duplicate"] == 0


def test_the_newest_stands_however_the_backlog_is_cut_into_batches() -> None:
    """A reading that the core has taken in gives way to the next one of its millisecond, and is free."""
    pipeline = stamped()
    feed(pipeline, came(1, 1000, "stood"), now_ms=20)
    assert feed(pipeline, came(30, 2000, 2000)).acknowledge == ["stood"]
    assert feed(pipeline, came(30, 800, 800)).acknowledge == [2000]
    assert feed(pipeline, came(30, 100, 100)).acknowledge == [800]
    assert values(feed(pipeline, now_ms=60)) == [550, 100]


def test_meters_do_not_replace_each_other() -> None:
    """Each meter has its own newest reading."""
    pipeline = stamped()
    feed(pipeline, came(0, 1), came(0, 2, topic="meters/m2/power"), now_ms=0)
    effects = feed(pipeline, now_ms=20)
    assert sorted(values(effects)) == [1, 2]
    assert pipeline._counts["replaced"] == 0


def test_of_interval_energies_the_newest_ends_at_its_arrival() -> None:
    """One interval has just ended, and it is the newest's; when the others were is not known."""
    for lateness_ms in (0, 5):
        pipeline = stamped(replace(ENERGY, lateness_ms=lateness_ms))
        feed(pipeline, came(0, 0), now_ms=20)
        feed(pipeline, *(came(35, value) for value in (8, 4, 2)))
        assert values(feed(pipeline, now_ms=50)) == [2]


@pytest.mark.parametrize("lateness_ms", [0, 5])
def test_a_register_stands_at_the_newest(lateness_ms: int) -> None:
    """What a backlog's registers tell counts up to the arrival, and nothing of it is lost."""
    pipeline = stamped(replace(REGISTER, lateness_ms=lateness_ms))
    feed(pipeline, came(0, 0), now_ms=0)
    feed(pipeline, *(came(10, value) for value in (3, 7, 20)))
    feed(pipeline, came(18, 20))
    assert values(feed(pipeline, now_ms=30)) == [20]


def test_a_register_that_counted_already_does_not_give_way() -> None:
    """What was used between it and a newer one of its millisecond is in the next reading: no loss."""
    pipeline = stamped(REGISTER)
    feed(pipeline, came(0, 0), now_ms=0)
    feed(pipeline, came(10, 3))
    assert feed(pipeline, came(10, 7, "newer")).acknowledge == ["newer"]
    assert pipeline._counts["duplicate"] == 1
    feed(pipeline, came(18, 20))
    assert values(feed(pipeline, now_ms=30)) == [20]


def test_the_newest_of_each_phase_is_in_the_sum() -> None:
    """Phases replace their own readings, in one batch or in several; what was replaced is free."""
    phased = SourceTopic.parse("meters/{meter}/{phase}", phases=("a", "b"))
    pipeline = stamped(source=phased)
    a, b = "meters/m1/a", "meters/m1/b"
    feed(pipeline, came(0, 10, "a0", a), came(0, 20, "b0", b), now_ms=20)
    effects = feed(pipeline, came(30, 300, "a1", a), came(30, 100, "a2", a), came(30, 5, "b1", b))
    assert "a1" in effects.acknowledge
    assert "a2" not in effects.acknowledge
    effects = feed(pipeline, came(30, 50, "a3", a))
    assert effects.acknowledge == ["a2"]
    assert values(feed(pipeline, now_ms=60)) == [43, 55]  # (10 * 30 + 10 * 55) / 20 = 42.5


def test_the_last_value_of_a_message_is_its_newest() -> None:
    """Of several values without times in a message the last counts; the message is acknowledged once."""
    pipeline = core(POWER, decode=lambda text: [Reading(t, v * MICRO) for t, v in json.loads(text)])
    pack = Message("meters/m1/power", b"[[null, 7], [null, 9]]", False, BASE_MS, "pack")
    assert feed(pipeline, pack, now_ms=0).acknowledge == []
    effects = feed(pipeline, pack._replace(received_ms=BASE_MS + 20, token="next"))
    assert effects.acknowledge == ["pack"]
    assert values(effects) == [9]


def test_ages_give_way_as_arrivals_do() -> None:
    """A time that far before the arrival does not count as the reading's time."""
    pipeline = core(POWER, decode=lambda text: [Reading(t, v * MICRO) for t, v in json.loads(text)])
    feed(pipeline, Message("meters/m1/power", b"[[null, 7]]", False, BASE_MS, 0), now_ms=20)
    packs = [f"[[-5, {older}], [null, {newer}]]".encode() for older, newer in ((100, 200), (300, 400))]
    feed(pipeline, *(Message("meters/m1/power", text, False, BASE_MS + 30, 0) for text in packs))
    assert values(feed(pipeline, now_ms=60)) == [277, 400]  # (5 * 7 + 5 * 300 + 10 * 400) / 20 = 276.75


def test_a_time_of_its_own_is_said_once() -> None:
    """Where readings say their times, the first of a time counts, as ever: another is a correction."""
    pipeline = core(POWER, decode=lambda text: [Reading(BASE_MS + 3, int(text) * MICRO)])
    feed(pipeline, came(5, 7, "first"), came(5, 9, "other"), now_ms=5)
    assert values(feed(pipeline, now_ms=40)) == [7]
    assert pipeline._counts["duplicate"] == 1
    assert pipeline._counts["replaced"] == 0


class Came(NamedTuple):
    """A reading so long after the one before it, and whether the core takes its turn then."""

    after_ms: int
    value: int
    turn: bool


arrivals = st.lists(
    st.builds(Came, st.sampled_from([0, 0, 0, 1, 2, 7, 60]), st.integers(0, 1000), st.booleans()),
    min_size=1,
    max_size=40,
)


@given(arrivals, st.sampled_from([0, 3]), st.sampled_from(list(Clock)))
def test_power_at_any_moment_is_the_newest_that_has_arrived(
    program: list[Came], lateness_ms: int, clock: Clock
) -> None:
    """However readings fall into milliseconds and batches, the last that has arrived stands, for `hold`.

    Every reading is accepted or replaced, and acknowledged once, but for the one that stands.
    """
    terms = replace(POWER, lateness_ms=lateness_ms, clock=clock)
    pipeline = stamped(terms)
    now_ms, batch, free, sent = 0, list[Message](), list[object](), list[tuple[int, int]]()
    out: dict[str, float] = {}
    for number_, (after_ms, value, turn) in enumerate(program):
        now_ms += after_ms
        sent.append((now_ms, value))
        batch.append(came(now_ms, value, number_))
        if turn or number_ == len(program) - 1:
            effects = feed(pipeline, *batch, now_ms=now_ms)
            free, batch = free + effects.acknowledge, []
            out |= dict(records(effects))
    counts = pipeline._counts
    assert len(free) == len(set(free))
    assert len(sent) - 1 not in free
    assert lateness_ms or len(free) == len(sent) - 1
    assert counts["accepted"] + counts["replaced"] == len(sent)
    assert counts["duplicate"] == counts["late"] == 0
    for start, left in out.items():
        assert left == _mean(sent, parse_time(start) - BASE_MS)


def _mean(sent: list[tuple[int, int]], start_ms: int) -> float:
    """The mean power in a slot, millisecond by millisecond."""
    total = 0
    for ms in range(start_ms, start_ms + POWER.step_ms):
        heard = [(at_ms, value) for at_ms, value in sent if at_ms <= ms]
        if heard and ms < heard[-1][0] + POWER.readings.hold_ms:
            total += heard[-1][1]
    quanta = (Fraction(total * MICRO, POWER.step_ms * POWER.quantum_u) + Fraction(1, 2)).__floor__()
    return float(Fraction(quanta * POWER.quantum_u, MICRO))
