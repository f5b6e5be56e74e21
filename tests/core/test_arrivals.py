"""What arrives of each meter and phase is judged by itself, and named by number only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.arrivals import (
    BAD_AT_ONCE_MIN,
    BAD_MIN,
    BAD_PART,
    CODES,
    DAILY_EVENT_LIMITS,
    RECENT_COUNT,
    RECENT_COUNT_MIN,
    UNREADABLE_MIN,
    Arrivals,
    Limits,
)
from meteragent.domain.counters import REFUSALS, Counts
from meteragent.domain.problem import Problem
from meteragent.domain.units import DAY_MS, HOUR_MS, MINUTE_MS

LIMITS = Limits(first_ms=MINUTE_MS, meter_ms=HOUR_MS, phase_ms=MINUTE_MS)
STEP_MS = 10_000
PHASES = ("a", "b", "c")
OF_THE_PROFILE = sorted(
    set(REFUSALS) - {"refused_ahead", "refused_zone", "refused_meters", "refused_unavailable"}
)


def made(*phases: str) -> Arrivals:
    """An intake whose clock begins now."""
    arrivals = Arrivals("main", phases, 100, Counts())
    arrivals.advance_clock(0, is_connected=True)
    return arrivals


class Intake:
    """An intake whose clock goes on after each step of outcomes."""

    def __init__(self, *phases: str) -> None:
        self.arrivals = made(*phases)
        self._wall_ms = 0

    def wait(self, step_ms: int = STEP_MS, *, connected: bool = True) -> "Intake":
        """Let time pass."""
        self._wall_ms += step_ms
        self.arrivals.advance_clock(self._wall_ms, is_connected=connected)
        return self

    def hear(self, meter: str, *outcomes: str, phase: str | None = None) -> "Intake":
        """Note outcomes of a meter, "clamped" for a reading that was accepted and clamped."""
        for outcome in outcomes:
            history = self.arrivals.history_of(meter, phase)
            history.note_outcome("accepted" if outcome == "clamped" else outcome, self.arrivals.now_ms)
            if outcome == "clamped":
                history.note_clamped(self.arrivals.now_ms)
        return self

    def steps(self, meter: str, *steps: tuple[str, ...], step_ms: int = STEP_MS) -> "Intake":
        """Hear steps of a meter's outcomes, with time after each."""
        for outcomes in steps:
            self.hear(meter, *outcomes).wait(step_ms)
        return self

    @property
    def found(self) -> list[Problem]:
        """What is wrong."""
        return list(self.arrivals.problems(LIMITS))

    @property
    def codes(self) -> list[str]:
        """The codes of what is wrong."""
        return [found.code for found in self.found]


def told(*steps: tuple[str, ...], step_ms: int = STEP_MS) -> list[str]:
    """Return the codes after steps of one meter's outcomes."""
    return Intake().steps("m", *steps, step_ms=step_ms).codes


# One meter --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OF_THE_PROFILE)
def test_each_reason_of_the_payload_is_one_of_the_profile(name: str) -> None:
    """After `SOON_MS`, three messages that cannot be read are enough; without messages, nothing is."""
    assert told((name,) * BAD_MIN, *[()] * 6) == ["wrong_profile"]
    assert told((name,) * (BAD_MIN - 1), *[()] * 5) == []
    [found] = Intake().steps("m", (name,) * BAD_MIN, *[()] * 6).found
    assert found.fields == {"meters": 1, "of": 1, "reasons": name}
    assert found.text.startswith("stream main: no message contains a reading: ")


@pytest.mark.parametrize("name", [*REFUSALS, "late"])
def test_nothing_accepted_since_the_start_is_told_at_once(name: str) -> None:
    """The fifth refused message is enough; the first reading that counts ends it."""
    assert told((name,) * (BAD_AT_ONCE_MIN - 1)) == []
    assert told((name,) * BAD_AT_ONCE_MIN, step_ms=1) == ["none_accepted"]
    for counts in ("accepted", "early"):
        assert told((name,) * 9, (counts,) * RECENT_COUNT, (name,) * BAD_AT_ONCE_MIN, step_ms=1) == []


def test_what_is_no_refusal_is_as_good_as_silence() -> None:
    """Retained messages of each connection, and those of other agents, are not heard."""
    assert told(("retained", "other_shard") * 100) == []
    assert told(("retained", "other_shard") * 100, *[()] * 7) == ["no_message"]


def test_messages_of_other_quantities_are_told_when_a_reading_was_due() -> None:
    """A device also sends what is no reading; after the time of its first reading, that is a problem."""
    assert told(*[("other",)] * 6) == []
    assert told(*[("other",)] * 7) == ["none_accepted"]
    assert told(("accepted",), *[("other",)] * 90) == []


@pytest.mark.parametrize("name", ["late", "duplicate", "refused_ahead"])
def test_what_was_understood_acquits_the_profile(name: str) -> None:
    """If any message was read as a reading, the profile is not wrong, whatever became of the reading."""
    assert "wrong_profile" not in told(*[("refused_missing",) * 3 + (name,)] * 9)


def test_clocks_and_zones_are_named() -> None:
    """All readings ahead, all late, or a whole number of hours off; of a mixture, none counts."""
    assert told(*[("refused_ahead",)] * 7) == ["clock_behind"]
    assert told(("accepted",), *[("late",)] * 7) == ["all_late"]
    assert told(("refused_zone",), *[()] * 7) == ["wrong_zone"]
    assert told(("accepted",), *[("late", "refused_ahead")] * 7) == ["none_counts"]


def test_what_usually_comes_between_is_no_sign() -> None:
    """With ten odd messages between readings, only more than twenty are a sign; `UNREADABLE_MIN` always."""
    usual = [("refused_missing",) * 10, ("accepted",)]
    assert told(*usual, *[("refused_missing",) * 2] * 10) == []
    assert told(*usual, *[("refused_missing",) * 3] * 7) == ["wrong_profile"]
    flood = [("refused_missing",) * 10_000, ("accepted",)]
    assert told(*flood, ("refused_missing",) * UNREADABLE_MIN, *[()] * 6) == ["wrong_profile"]


def test_a_part_of_the_messages_refused_is_told() -> None:
    """One decimal comma in four messages is a finding, whatever its place; fewer are not."""
    good = ("accepted",) * (BAD_PART - 1)
    assert told(*[(*good, "refused_comma")] * (RECENT_COUNT_MIN // BAD_PART)) == ["some_refused"]
    assert told(*[(*good, "accepted", "refused_comma")] * RECENT_COUNT) == []
    assert told(*[(*good, "refused_missing")] * RECENT_COUNT) == []
    assert told(*[(*good, "refused_comma")] * RECENT_COUNT, ("accepted",) * RECENT_COUNT) == []
    [found] = Intake().steps("m", *[(*good, "refused_comma")] * RECENT_COUNT).found
    assert found.fields["reasons"] == "refused_comma"


def test_readings_that_are_all_clamped_are_told() -> None:
    """Five since the start, at once; after one within the range, three in a minute; one within ends it."""
    assert told(("clamped",) * (BAD_AT_ONCE_MIN - 1), step_ms=1) == []
    assert told(("clamped",) * BAD_AT_ONCE_MIN, step_ms=1) == ["all_clamped"]
    assert told(("accepted",), ("clamped",) * 9, step_ms=1) == []
    assert told(("accepted",), ("clamped",), *[()] * 6, ("clamped",)) == []
    assert told(("accepted",), *[("clamped",)] * 7) == ["all_clamped"]
    assert told(("accepted",), *[("clamped",)] * 7, ("accepted",)) == []
    assert told(("accepted",), *[("clamped",)] * 7, ("accepted",), ("clamped",) * 2) == ["some_clamped"]


def test_silence_is_told_after_its_limit() -> None:
    """First a minute without any message, then an hour without a reading; a day's step is one minute."""
    assert told(*[()] * 6) == []
    assert told(*[()] * 7) == ["no_message"]
    assert told(("accepted",), *[()] * 59, step_ms=MINUTE_MS) == []
    assert told(("accepted",), *[()] * 60, step_ms=MINUTE_MS) == ["no_readings"]
    assert told(("accepted",), *[("duplicate",), ()] * 31, step_ms=MINUTE_MS) == ["none_counts"]
    assert told(("accepted",), (), step_ms=DAY_MS) == []


@pytest.mark.parametrize("outcome", ["duplicate", "refused_unavailable"])
def test_messages_of_which_none_counts_any_more_are_told(outcome: str) -> None:
    """A time that stands still, or a program that no longer knows the value: three messages in a minute.

    A sender that repeats each reading is no fault, nor is a silence that such messages interrupt.
    """
    assert told(("accepted",), *[(outcome,)] * 8) == ["none_counts"]
    assert told(("accepted",), *[(outcome,)] * 8, ("accepted",)) == []
    assert told(("accepted",), *[(outcome,)] * 2, *[()] * 6) == []
    assert told(("accepted",), (outcome,) * 5, ("accepted",), (outcome,) * 10, *[()] * 8) == []
    assert told(("accepted",), *[()] * 60, (outcome,) * 9) == []


@pytest.mark.parametrize(("off_ms", "code"), [(-90_000, "all_late"), (90_000, "clock_behind")])
def test_times_that_count_may_be_wrong(off_ms: int, code: str) -> None:
    """They are further from their arrival than they may be, for a minute; one that is not ends it."""
    intake = Intake()
    for step in range(8):
        assert intake.codes == ([code] if step >= 6 else [])
        intake.arrivals.count_outcome(intake.arrivals.history_of("m"), "accepted", off_ms)
        intake.wait()
    assert intake.found[0].fields["off_ms"] == 90_000
    assert intake.hear("m", "accepted").codes == []


def test_readings_that_are_often_clamped_are_told() -> None:
    """A quarter of the last 32, for a minute: the use of a home that feeds in, or a load beyond the range."""
    mixed = [("clamped",), ("accepted",), ("accepted",)]
    assert told(*mixed * 7) == []
    assert told(*mixed * 12) == ["some_clamped"]
    assert told(*mixed * 12, *[("accepted",)] * 20) == []
    assert told(*[("clamped",), *[("accepted",)] * 4] * 30) == []


def test_time_without_a_connection_is_no_silence() -> None:
    """A day without a connection is not a day without readings."""
    intake = Intake().hear("m", "accepted")
    for _ in range(1500):
        intake.wait(MINUTE_MS, connected=False)
    assert intake.codes == []


def test_an_old_silence_does_not_hasten_a_cause() -> None:
    """What counts is how long messages have been refused, not how long nothing came before."""
    assert told(("accepted",), *[()] * 60, ("refused_missing",) * 9) == []
    assert told(("accepted",), *[()] * 60, ("clamped",) * 9) == []


def test_a_cause_is_told_instead_of_the_silence() -> None:
    """If the profile is wrong, it need not be said that no reading was accepted."""
    assert told(*[("refused_json",)] * 90, step_ms=MINUTE_MS) == ["wrong_profile"]


def test_without_limits_there_is_no_silence() -> None:
    """Under the event clock, a stream and its meters may be silent for ever."""
    intake = Intake().steps("m", ("accepted",), *[()] * 500, step_ms=MINUTE_MS)
    assert not list(intake.arrivals.problems(Limits(None, None, None)))
    assert Intake().arrivals.is_waiting(Limits(None, None, None))


@pytest.mark.parametrize(("name", "often"), DAILY_EVENT_LIMITS.items())
def test_events_that_repeat_are_told_for_a_day(name: str, often: int) -> None:
    """A jump at once, resets from the third within a day on."""
    intake = Intake()
    for count in range(1, often + 1):
        intake.hear("m", "accepted").arrivals.note_event("m", name)
        assert intake.codes == ([name] if count == often else [])
    for _ in range(DAY_MS // MINUTE_MS - 1):
        intake.hear("m", "accepted").wait(MINUTE_MS)
    assert intake.codes == [name]
    assert intake.hear("m", "accepted").wait(MINUTE_MS).codes == []


# Several meters ---------------------------------------------------------------------------------

FAULTS: dict[str, tuple[str, ...]] = {
    "wrong_zone": ("refused_zone",),
    "clock_behind": ("refused_ahead",),
    "all_late": ("late",),
    "wrong_profile": ("refused_json",),
    "some_refused": ("accepted", "refused_comma"),
    "all_clamped": ("clamped",),
}


@pytest.mark.parametrize("code", FAULTS)
def test_a_good_meter_hides_no_other(code: str) -> None:
    """Of three meters, two have the fault: they are told by their number."""
    intake = Intake()
    for _ in range(20):
        intake.hear("good", "accepted").hear("bad", *FAULTS[code]).hear("worse", *FAULTS[code]).wait()
    [found] = intake.found
    assert (found.code, found.fields["meters"], found.fields["of"]) == (code, 2, 3)
    assert found.text.startswith("stream main: 2 of 3 meters: ")
    assert {row.meter: row.code for row in intake.arrivals.arrival_rows(LIMITS)} == {
        "good": None,
        "bad": code,
        "worse": code,
    }


def told_meters(intake: Intake) -> list[tuple[str, object, object]]:
    """Return the codes of what is wrong, with the number of meters."""
    return [(one.code, one.fields["meters"], one.fields["of"]) for one in intake.found]


def test_a_meter_that_falls_silent_is_told() -> None:
    """Others go on for an hour; its state was in the store, or it was heard."""
    intake = Intake().hear("heard", "accepted")
    intake.arrivals.expect_meter("stored")
    for _ in range(61):
        intake.hear("good", "accepted").wait(MINUTE_MS)
    assert told_meters(intake) == [("no_readings", 2, 3)]
    intake.arrivals.forget_meter("stored")
    assert told_meters(intake) == [("no_readings", 1, 2)]


def test_a_topic_without_readings_is_no_meter_of_a_stream_that_has_others() -> None:
    """A wildcard also matches a sensor of temperature; alone, it is a wrong profile."""
    intake = Intake().steps("sensor", *[("refused_missing",)] * 9)
    assert intake.codes == ["wrong_profile"]
    intake.steps("plug", *[("accepted",)] * 9)
    assert intake.codes == []
    assert [row.meter for row in intake.arrivals.arrival_rows(LIMITS)] == ["plug", "sensor"]


def test_messages_without_a_meter_are_told_only_alone() -> None:
    """A topic that names no meter is a fault of the stream if nothing else comes."""
    intake = Intake()
    for _ in range(BAD_AT_ONCE_MIN):
        intake.arrivals.count_outcome(None, "refused_topic")
    assert intake.codes == ["none_accepted"]
    assert intake.hear("m", "accepted").codes == []


def test_meters_beyond_the_limit_are_none() -> None:
    """A flood of names takes no memory."""
    arrivals = Arrivals("main", (), 2, Counts())
    assert len({id(arrivals.history_of(str(number))) for number in range(9)}) == 3
    assert len(list(arrivals.arrival_rows(LIMITS))) == 2


@given(st.permutations(range(6)), st.lists(st.sampled_from(sorted(FAULTS)), min_size=6, max_size=6))
def test_a_judgement_depends_on_no_other_meter(order: list[int], codes: list[str]) -> None:
    """Whatever comes of others, and in which order, each meter is judged as if it were alone."""
    together = Intake()
    for _ in range(20):
        for number in order:
            together.hear(str(number), *FAULTS[codes[number]])
        together.wait()
    judged = {row.meter: row.code for row in together.arrivals.arrival_rows(LIMITS)}
    assert judged == {str(number): code for number, code in enumerate(codes)}
    assert sum(int(found.fields["meters"]) for found in together.found) == 6
    assert set(together.codes) <= set(CODES)


# Phases -----------------------------------------------------------------------------------------


def phased(steps: int, *phases: str, sums: bool, intake: Intake | None = None) -> Intake:
    """An intake of a meter of three phases, of which some are heard."""
    intake = Intake(*PHASES) if intake is None else intake
    for _ in range(steps):
        for phase in phases:
            intake.hear("m", "accepted", phase=phase)
        if sums:
            intake.hear("m", "accepted")
        intake.wait()
    return intake


def test_a_phase_that_never_comes_is_told() -> None:
    """After a minute, with their number; the row of the phase has the code."""
    assert phased(6, "a", "b", sums=False).codes == []
    intake = phased(7, "a", "b", sums=False)
    assert [(one.code, one.fields["phases"]) for one in intake.found] == [("phase_silent", 3)]
    assert {row.phase: row.code for row in intake.arrivals.arrival_rows(LIMITS)} == {
        "a": None,
        "b": None,
        "c": "phase_silent",
    }
    assert phased(1, *PHASES, sums=True, intake=intake).codes == []


def test_a_phase_that_falls_silent_is_told() -> None:
    """A phase that dies stops the sum."""
    intake = phased(3, *PHASES, sums=True)
    assert phased(5, "a", "b", sums=False, intake=intake).codes == []
    assert phased(2, "a", "b", sums=False, intake=intake).codes == ["phase_silent"]


def test_a_silent_phase_that_stands_is_no_fault() -> None:
    """As long as there are sums, a phase may report on change; one that was never heard is a fault."""
    intake = phased(30, "a", "b", sums=True)
    assert intake.codes == []
    on_change = Limits(MINUTE_MS, HOUR_MS, None)
    never = phased(9, "a", "b", sums=False)
    assert [one.code for one in never.arrivals.problems(on_change)] == ["phase_silent"]


def test_a_register_that_stands_is_never_silent_while_others_go_on() -> None:
    """The tariff that is not used for a month is no fault; that all are silent is."""
    on_change = Limits(MINUTE_MS, HOUR_MS, None)
    intake = phased(1, *PHASES, sums=True)
    intake = phased(400, "a", "b", sums=True, intake=intake)
    assert not list(intake.arrivals.problems(on_change))
    assert {row.code for row in intake.arrivals.arrival_rows(on_change)} == {None}
    intake = phased(400, sums=False, intake=intake)
    assert [one.code for one in intake.arrivals.problems(on_change)] == ["no_readings"]


def test_a_power_that_stands_is_silent_after_its_hold() -> None:
    """While others go on: then there is no sum any more, and the row of the phase has the code."""
    on_change = Limits(MINUTE_MS, HOUR_MS, None, 3 * MINUTE_MS)
    intake = phased(18, "a", "b", sums=True, intake=phased(1, *PHASES, sums=True))
    assert not list(intake.arrivals.problems(on_change))
    intake = phased(8, "a", "b", sums=False, intake=intake)
    assert [one.code for one in intake.arrivals.problems(on_change)] == ["phase_silent"]
    assert [row.code for row in intake.arrivals.arrival_rows(on_change)] == [None, None, "phase_silent"]


def test_a_phase_that_is_silent_like_all_others_is_not_named() -> None:
    """The meter is silent, not a phase of it: that is another problem, which comes later."""
    intake = phased(3, *PHASES, sums=True)
    assert phased(30, sums=False, intake=intake).codes == []


def test_the_sum_of_phases_is_what_is_clamped() -> None:
    """Each phase is within the range; their sum is not."""
    intake = Intake(*PHASES)
    for _ in range(9):
        for phase in PHASES:
            intake.hear("m", "accepted", phase=phase)
        intake.hear("m", "clamped").wait()
    assert intake.codes == ["all_clamped"]


# Waiting ----------------------------------------------------------------------------------------


def test_waiting_ends_with_a_message_or_its_limit() -> None:
    """Neither well nor a problem: until anything is heard, or it is a finding that nothing was."""
    intake = Intake()
    assert intake.arrivals.is_waiting(LIMITS)
    assert not intake.wait(MINUTE_MS).wait(1).arrivals.is_waiting(LIMITS)
    assert not Intake().hear("m", "refused_json").arrivals.is_waiting(LIMITS)
    assert Intake().hear("m", "retained").arrivals.is_waiting(LIMITS)
