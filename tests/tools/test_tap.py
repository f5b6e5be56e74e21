"""`meteragent tap`: raw beside released, in a terminal and nowhere else."""

import logging
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.cli import main, outlet
from meteragent.cli.exit_codes import EXIT_CONFIG
from meteragent.cli.tap import LogLines
from meteragent.core.factory import make_timeline
from meteragent.core.pending import Pending
from meteragent.domain.counters import COUNTERS
from meteragent.domain.grid import EpochGrid
from meteragent.domain.identity import pseudonym
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from meteragent.domain.units import MICRO, Kind
from meteragent.store.grants import Action
from meteragent.tools.tap import StreamView, Trace, View
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.support.configurations import TWO_STREAMS, energy, settled, written
from tests.support.terms import terms_with
from tests.support.windows import window_of

MINUTE = 60_000
QUARTER = 15 * MINUTE
SLOT = 30 * MINUTE
START = 1_795_176_000_000
"""2026-11-20T12:00:00Z: the start of a slot."""
DAYS = "length = '1d'\ntimezone = 'UTC'"
NOT_ROUNDED = "quantum = 0.000001\nradius = 1"

POWER = settled(source="hold = '2min'", window="gap = 40\nlength = '30min'", privacy=NOT_ROUNDED)
ENERGY = settled(source=energy("Wh"), window="gap = 3\nlength = '30min'", privacy=NOT_ROUNDED)
REGISTER = settled(
    source="kind = 'register'\nunit = 'Wh'\nmodulus = 1000",
    window="gap = 3\nlength = '30min'",
    privacy=NOT_ROUNDED,
)


def peak(source: str) -> Terms:
    """Return terms of the peak of five parts of six minutes; a configuration allows only whole days."""
    terms = settled(source=source, window=f"gap = 40\n{DAYS}", privacy=f"space = 'peak'\n{NOT_ROUNDED}")
    return terms_with(terms, length_ms=SLOT, step_ms=6 * MINUTE)


PEAK = peak("hold = '2min'")
PEAK_OF_ENERGY = peak(energy("Wh"))
PEAK_OF_REGISTER = peak("kind = 'register'\nunit = 'Wh'\nmodulus = 1000")


def trace_of(terms: Terms, *phases: str) -> Trace:
    """Return the trace of a meter whose slots are half hours under these terms."""
    return Trace(phases, Schedule(terms, EpochGrid(SLOT)))


def agent_s(terms: Terms, readings: list[tuple[int, int]]) -> Fraction:
    """What the agent's accumulators make of a slot without any noise."""
    timeline = make_timeline(terms, START)
    window = window_of(terms)(START, terms, terms.id, (), "label", noise_bound=0)
    window.open_slot(0, START, 0)
    timeline.windows, timeline.next_ms = [window], START + SLOT
    for time_ms, value_u in readings:
        timeline.accept_reading(Pending(time_ms, value_u, None))
    timeline.integrate_until(START + SLOT)
    return Fraction(window.close_slot(0) * terms.quantum_u, MICRO)


@pytest.mark.parametrize(
    "terms",
    [POWER, ENERGY, REGISTER, PEAK, PEAK_OF_ENERGY, PEAK_OF_REGISTER],
    ids=["power", "interval energy", "register", "peak", "peak of energies", "peak of a register"],
)
@given(data=st.data())
def test_raw_is_what_the_agent_has(terms: Terms, data: st.DataObject) -> None:
    """Without its noise the agent would send what tap shows: hold, gap, clamp, interpolation, peak."""
    times = sorted(data.draw(st.sets(st.integers(1, 40), max_size=12)))
    values = data.draw(st.lists(st.integers(0, 990), min_size=len(times) + 1, max_size=len(times) + 1))
    first = 15 if terms.readings.kind is Kind.INTERVAL_ENERGY else 0
    readings = [
        (START + at * MINUTE, value * MICRO) for at, value in zip([first, *times], values, strict=True)
    ]
    readings = [one for at, one in enumerate(readings) if at == 0 or one[0] > readings[0][0]]
    trace = trace_of(terms)
    for time_ms, value_u in readings:
        assert trace.add(None, Pending(time_ms, value_u, None), time_ms)
    trace.end_at(START + SLOT)
    used = trace.use_between(START, START + SLOT, "", terms)
    assert used is not None
    assert not used.is_partial
    assert used.value == pytest.approx(float(agent_s(terms, readings)), rel=1e-9, abs=2 / MICRO)


def test_phases_are_summed_once_all_stand() -> None:
    """Of phases the sum counts, from when all of them have spoken, while none is older than `hold`."""
    trace = trace_of(POWER, "a", "b")
    added = [
        trace.add(phase, Pending(START + minute * MINUTE, value * MICRO, None), START + minute * MINUTE)
        for minute, phase, value in ((0, "a", 100), (1, "b", 20), (2, "a", 50))
    ]
    assert added == [False, True, True]
    trace.end_at(START + SLOT)
    used = trace.use_between(START, START + SLOT, "", POWER)
    assert used is not None
    assert used.is_partial
    assert used.value == pytest.approx((120 + 70 + 27 * 40) / 29)


def test_registers_of_phases_are_summed_at_one_time() -> None:
    """Each phase's register is interpolated at the newest time that all have told, as the agent does."""
    trace = trace_of(REGISTER, "a", "b")
    for second, phase, value in ((0, "a", 0), (5, "b", 100), (10, "a", 20), (15, "b", 140)):
        trace.add(phase, Pending(START + 1000 * second, value * MICRO // 100, None), START + 1000 * second)
    assert trace.since_ms == START + 5000
    used = trace.use_between(START, START + SLOT, "", REGISTER)
    assert used is not None
    assert used.value == pytest.approx(0.3)


def test_a_late_reading_does_not_count() -> None:
    """What the agent refuses is not in the number that is measured."""
    trace = trace_of(POWER)
    for minute, value in ((0, 100), (2, 300), (1, 9000)):
        trace.add(None, Pending(START + minute * MINUTE, value * MICRO, None), START + minute * MINUTE)
    trace.end_at(START + 4 * MINUTE)
    used = trace.use_between(START, START + SLOT, "", POWER)
    assert used is not None
    assert used.value == pytest.approx(200)


# What is shown


class Terminal:
    """A view on a terminal that remembers."""

    def __init__(self, text: str, key: bytes | None = None, meter: str | None = None, **verbs: str) -> None:
        self.now_ms = START
        actions = {name: Action(1, name, verb, "command", START) for name, verb in verbs.items()}
        self.config = config.with_actions(config.parse(text), actions)
        self.streams = [StreamView(self.config, one, key, meter) for one in self.config.stream]
        self.written: list[str] = []
        self.view = View(self.streams, self.written.append, lambda: self.now_ms)

    def raw(self, topic: str, payload: bytes, at_ms: int, *, retain: bool = False, stream: int = 0) -> None:
        """A reading arrives."""
        self.now_ms = at_ms
        self.view.show_source_message(self.streams[stream], topic, payload, retain)

    def record(self, topic: str, label: str, quanta: int, start_ms: int = START, stream: int = 0) -> None:
        """The record of a slot arrives."""
        descriptor = describe_terms(config.terms(self.config.stream[stream]))
        payload = RecordFormat.of(descriptor).encode(label, start_ms, 0, quanta)
        self.view.show_sink_message(self.streams[stream], topic, payload, retain=False)

    @property
    def lines(self) -> list[str]:
        """Complete lines, as they stand."""
        return [text.strip() for text in self.written if text.endswith("\n")]

    @property
    def status(self) -> str:
        """The line that is rewritten."""
        return next(text for text in reversed(self.written) if not text.endswith("\n")).strip()


def test_it_says_which_receiver_is_shown() -> None:
    """Receivers of one preset get the same numbers: tap listens to the first that gets any."""
    text = """
source = {topic = "m/{meter}", kind = "power", unit = "W", every = "10s"}
receiver = [
    {name = "utility", topic = "u/{meter}", paused = true},
    {name = "app", topic = "a/{meter}"},
    {name = "club", topic = "c/{meter}"},
]
"""
    shown = Terminal(text)
    shown.view.begin()
    assert shown.lines[0] == "Stream main-appliance: records are shown as app gets them."
    assert shown.lines[1] == "utility: paused, so it gets nothing now."
    assert shown.streams[0].filters == (("m/+",), ["a/+"])
    shown = Terminal(text, app="end")
    shown.view.begin()
    assert shown.lines[0] == "Stream main-appliance: records are shown as club gets them."
    assert shown.lines[2] == "app: ended for good, so it gets nothing more."
    assert shown.streams[0].filters == (("m/+",), ["c/+"])
    shown = Terminal(text, app="end", club="pause")
    shown.view.begin()
    assert [line.partition(":")[0] for line in shown.lines[:3]] == ["utility", "app", "club"]


def test_a_slot_is_compared() -> None:
    """A slot's line has its start, the raw mean, the released value, its sd, the 95% band and error / sd."""
    shown = Terminal(written())
    shown.view.begin()
    for minute in range(-1, 31):
        shown.raw("meters/m1/power", b"%d" % (100 + 10 * (minute >= 15)), START + minute * MINUTE)
    shown.record("private/m1/power", "m1", 416)
    assert shown.lines[-2] == "-- stream main, in W"
    assert shown.lines[-1].split() == [
        "m1",
        "11-20",
        "12:00:00",
        "105",
        "416",
        "311",
        "-244",
        "1076",
        "+1.00",
    ]
    assert shown.status == "m1: 110 W; slot 12:30:00-13:00:00"
    assert {len(text.strip("\r\n")) for text in shown.written} == {79}


def test_the_open_slot_is_told_as_readings_come() -> None:
    """With each reading: the value, the slot, the mean so far and since when."""
    shown = Terminal(written())
    shown.raw("meters/m1/power", b"100", START + 10 * MINUTE)
    shown.raw("meters/m1/power", b"300", START + 20 * MINUTE)
    shown.raw("meters/m1/power", b"7", START + 25 * MINUTE)
    assert shown.status == "m1: 7.00 W; slot 12:00:00-12:30:00: mean 167 since 12:10:00"


def test_a_slot_that_began_before_is_partial() -> None:
    """What was not heard from a slot's start is marked, and not compared."""
    shown = Terminal(written())
    shown.raw("meters/m1/power", b"100", START + 20 * MINUTE)
    shown.record("private/m1/power", "m1", 50)
    assert shown.lines[-1].split()[3] == "100*"
    assert shown.lines[-1].endswith(" -")


def test_what_has_no_raw_side_is_shown_alone() -> None:
    """A record of a meter that was not heard has no raw value; under other terms it has no band."""
    shown = Terminal(written())
    shown.record("private/m9/power", "m9", 50)
    assert shown.lines[-1].split()[3:5] == ["-", "50.0"]
    other = describe_terms(settled(privacy="radius = 5"))
    shown.view.show_sink_message(
        shown.streams[0], "private/m9/power", RecordFormat.of(other).encode("m9", START, 0, 5), retain=False
    )
    assert shown.lines[-1].split()[-3:] == ["?", "?", "-"]


def test_pseudonyms_are_matched() -> None:
    """A record that leaves under a pseudonym is shown beside its meter, under the meter's name."""
    text = written(sink="pseudonym_key_file = 'key'")
    shown, label = Terminal(text, key=b"key"), pseudonym(b"key", "m1")
    shown.raw("meters/m1/power", b"100", START)
    shown.record(f"private/{label}/power", label, 50)
    assert shown.lines[-1].startswith("m1 ")
    filters = ("meters/+/power",), [f"private/{label}/power"]
    assert Terminal(text, b"key", "m1").streams[0].filters == filters


def test_one_meter_can_be_asked_for() -> None:
    """With --meter nothing of another one is shown or kept."""
    shown = Terminal(written(), meter="m1")
    shown.raw("meters/m2/power", b"100", START)
    assert not shown.written
    shown.raw("meters/m1/power", b"100", START)
    assert shown.status.startswith("m1: ")


def test_bands_are_compared_over_their_hours() -> None:
    """A band of a mean day is compared with the mean of its hours in the window."""
    shown = Terminal(
        written(
            window="length = '1d'\ntimezone = 'UTC'\nbands = ['00-12', '12-24']",
            privacy="space = 'profile'\nradius = 100",
            source="hold = '24h'",
        )
    )
    day_ms = START - 12 * 60 * MINUTE
    shown.raw("meters/m1/power", b"100", day_ms)
    shown.raw("meters/m1/power", b"300", START)
    shown.record("private/m1/power", "m1", 90, day_ms)
    assert shown.lines[-1].split()[:3] == ["m1", "00:00/12:00", "100"]


def test_a_peak_is_compared_with_the_largest_mean() -> None:
    """The row has the largest mean of a part, for a register in W, too; the open part does not count."""
    source = "kind = 'register'\nunit = 'Wh'\nevery = '5min'\ndead_band = 0.001"
    shown = Terminal(written(source=source, window=DAYS, privacy="space = 'peak'\nradius = 100"))
    day_ms, register = START - 12 * 60 * MINUTE, 1000
    for quarter, energy_wh in enumerate((0, 25, 100, 50)):
        register += energy_wh
        shown.raw("meters/m1/power", b"%d" % register, day_ms + quarter * QUARTER)
    shown.raw("meters/m1/power", b"%d" % (register + 900), day_ms + 3 * QUARTER + 5 * MINUTE)
    assert shown.status.endswith("slot from 11-20 00:00: largest mean 400 since 11-20 00:00")
    shown.raw("meters/m1/power", b"%d" % (register + 900), day_ms + 4 * QUARTER)
    shown.record("private/m1/power", "m1", 1200, day_ms)
    assert shown.lines[-2] == "-- stream main, in W"
    row = shown.lines[-1].split()
    assert row[3:5] == ["3600", "1200"]
    sd = float(describe_terms(config.terms(shown.config.stream[0])).facts["sd"])
    assert row[5] == f"{sd:.0f}"
    assert float(row[-1]) == pytest.approx((1200 - 3600) / sd, abs=0.01)


def test_a_peak_without_a_whole_part_has_no_measured_value() -> None:
    """Before the tap has a part from its start to its end, a peak has nothing to be compared with."""
    shown = Terminal(written(window=DAYS, privacy="space = 'peak'\nradius = 100"))
    shown.raw("meters/m1/power", b"100", START + 12 * 60 * MINUTE - QUARTER + 1)
    assert shown.status == "m1: 100 W; slot from 11-20 00:00"
    shown.record("private/m1/power", "m1", 90, START - 12 * 60 * MINUTE)
    assert shown.lines[-1].split()[3:5] == ["-", "90.0"]


def test_several_streams_are_told_apart() -> None:
    """Where streams take turns a line says which; the line of the open slot names its stream."""
    shown = Terminal(TWO_STREAMS)
    shown.raw("meters/m1/second", b"5", START, stream=1)
    assert shown.status.startswith("second, m1: 5.00 W")
    for stream in (0, 0, 1, 0):
        shown.record("private/x/m1", "m1", 5, stream=stream)
    assert [line[:16] for line in shown.lines if line.startswith("--")] == [
        "-- stream first,",
        "-- stream second",
        "-- stream first,",
    ]


@pytest.mark.parametrize(
    ("topic", "payload", "retain", "reason"),
    [
        ("meters/m1/power", b"100", True, "retained"),
        ("meters/m1/power", b"x", False, "refused_type"),
        ("meters/m1/power", b"1" * 70_000, False, "refused_size"),
        ("meters/m1/other", b"100", False, "refused_topic"),
    ],
)
def test_what_is_no_reading_is_shown_with_its_reason(
    topic: str, payload: bytes, retain: bool, reason: str
) -> None:
    """Retained, refused, too large, on another topic: as for the agent, no reading; no value is shown."""
    shown = Terminal(written())
    shown.raw(topic, payload, START, retain=retain)
    shown.view.show_sink_message(shown.streams[0], "private/m1/power", payload, retain=False)
    [line] = shown.lines
    assert line == f"not a reading: {topic}: {COUNTERS[reason]} ({reason})"


def test_a_reason_is_repeated_ever_more_rarely() -> None:
    """A device that sends other messages, too, must not hide the slots; another reason is shown at once."""
    shown = Terminal(written())
    for _ in range(150):
        shown.raw("meters/m1/power", b"x", START)
    shown.raw("meters/m1/power", b"", START)
    assert [line.rpartition("(")[2] for line in shown.lines] == [
        "refused_type)",
        "10 messages so far)",
        "100 messages so far)",
        "refused_empty)",
    ]


def test_another_meter_s_refusal_is_not_shown() -> None:
    """Where one meter is asked for, the messages of others are left out, whatever they hold."""
    shown = Terminal(written(), meter="m2")
    shown.raw("meters/m1/power", b"x", START)
    assert shown.lines == []


def test_a_topic_cannot_write_to_the_terminal() -> None:
    """A topic is from the broker, and the command writes through an outlet."""
    shown = Terminal(written())
    shown.raw("meters/\x1b[2J/power", b"x", START)
    assert outlet.escape_invisible(shown.lines[0]).startswith("not a reading: meters/\\x1b[2J/power: ")


# The command


def test_a_lost_connection_is_told() -> None:
    """What the connections warn of is a line among the others."""
    shown = Terminal(written())
    log, told = logging.getLogger("meteragent"), LogLines(shown.view)
    log.addHandler(told)
    try:
        logging.getLogger("meteragent.mqtt.reconnect").warning("%s: lost", "broker")
    finally:
        log.removeHandler(told)
    assert shown.lines == ["broker: lost"]


def test_it_refuses_what_is_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Into a pipe or a file nothing is written, and it ends with 1."""
    path = tmp_path / "meteragent.toml"
    path.write_text(written())
    assert main(["tap", str(path)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "raw readings, which must not end up in a file" in said.err


def test_its_configuration_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration that is refused ends it with 78."""
    path = tmp_path / "meteragent.toml"
    path.write_text(written(source="unit = 'X'"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["tap", str(path)]) == EXIT_CONFIG


def test_parts_are_summed_with_their_signs() -> None:
    """Each topic has its own profile; what is subtracted counts with a minus, as the agent counts it."""
    text = written(
        source="topic = 'net/power'\nmeter = 'house'\nhold = '30min'", window="range = [-20000, 20000]"
    )
    parts = "[[source.part]]\ntopic = 'pv/json'\nprofile = 'json'\n"
    shown = Terminal(text + parts + "[[source.part]]\ntopic = 'car/power'\nsign = '-'")
    assert shown.streams[0].filters[0] == ("net/power", "pv/json", "car/power")
    for topic, payload in (("net/power", b"-700"), ("pv/json", b'{"power": 1000}'), ("car/power", b"50")):
        shown.raw(topic, payload, START)
    shown.record("private/house/power", "house", 260)
    assert float(shown.lines[-1].split()[3].rstrip("*")) == 250
