"""What `check` says before anything is released (law 8)."""

import functools
import json
import math
import re
from fractions import Fraction
from typing import Any

import pytest

from meteragent import config
from meteragent.report import event, facts, guarantee, terminal, warn
from meteragent.report.format import rate
from meteragent.report.guarantee import Guarantee
from meteragent.wire.descriptor import describe
from tests.support.configurations import energy, settled, streams, written
from tests.support.guarantees import facts_of, told_of

TIMED = "profile = 'json'\ntime = 't'"
STATED = "every = '0s'\ndead_band = 0"
"""Readings that follow the load: each change is sent at once, and none is too small."""
KNOWN = f"{TIMED}\n{STATED}"
FIT = "   fit for use: below 10% of a home of 330 W"
SECTIONS: dict[str, dict[str, str]] = {
    "television": {"privacy": "preset = 'television'"},
    "appliance": {},
    "street": {"privacy": "preset = 'street'"},
    "kW": {"source": "unit = 'kW'"},
    "Wh": {"source": energy("Wh")},
    "kWh": {"source": energy("kWh")},
    "six slots": {"window": "length = '1h'\nstep = '10min'"},
    "a day": {"window": "length = '1d'", "privacy": "hide = '0.3kWh'\nquantum = 0.1"},
    "thirty days": {"window": "length = '30d'", "privacy": "hide = '6kWh'\nquantum = 0.01"},
}


@functools.cache
def computed(text: str, events: tuple[event.Event, ...], channels: tuple[str, ...]) -> Guarantee:
    """The guarantee of a configuration's first stream, for tests that only look."""
    return guarantee.of(config.parse(text).stream[0], events, channels)


def found(**sections: str) -> dict[str, Any]:
    """The facts of a configuration."""
    return facts.of(computed(written(**sections), event.EVENTS, ()))


def warned(channels: tuple[str, ...], sections: dict[str, str]) -> list[str]:
    """The warnings of a configuration when the store knows these streams."""
    return [*computed(written(**sections), (), channels).warnings]


def told(events: tuple[event.Event, ...], sections: dict[str, str]) -> str:
    """A configuration in words."""
    text = written(**sections)
    return terminal.text([computed(text, events, ())], config.parse(text))


def line(text: str, start: str) -> str:
    """The rest of the one line that starts with these words."""
    (rest,) = re.findall(rf"^\s*{re.escape(start)}\s+(.*)$", text, re.MULTILINE)
    return str(rest)


# In words -----------------------------------------------------------------------------------------


def test_the_guarantee_in_words() -> None:
    """The promise is said in the words of DESIGN 2, with the exact epsilon and the level of a day."""
    text = told(event.EVENTS, {})
    assert text.startswith("Stream main: power in W, windows of 30min, one number each\n")
    for part in (
        "For any two courses of readings whose slot means differ by at most 220 W,",
        "changes the odds between them by a factor of at most e^1 = 2.72.",
        "Exactly: epsilon = 1/220 per W, on multiples of 1.",
        "Hidden, in what the readings say: whatever moves at most 110 Wh within any slot of 30min.",
        "Levels of windows add: 48 a day. What repeats is learnt.",
    ):
        assert part in text


def test_the_guarantee_of_energies_in_words() -> None:
    """For interval energy the same promise is about energies, in the source's unit, exactly."""
    sections = {"source": energy("kWh"), "window": "length = '1h'\nstep = '30min'"}
    text = told((), sections | {"privacy": "level = 0.1"})
    assert text.startswith("Stream main: interval_energy in kWh, windows of 1h, 2 numbers each\n")
    assert "whose slot energies differ by at most 0.11 kWh," in text
    assert "epsilon = 10/11 per kWh, on multiples of 0.0005." in text
    assert "Levels of windows add: 2.4 a day." in text


def test_the_errors_in_words() -> None:
    """A number, a day, a month, 100 and 1,000 homes: what each is wrong by, and which are fit for use."""
    text = told(event.EVENTS, {})
    assert line(text, "a number") == "311 W (95 % within 659 W)"
    assert line(text, "a day") == "1.08 kWh"
    assert line(text, "a month of 30 days") == "5.9 kWh" + FIT
    assert line(text, "the mean of 100 homes") == "31.1 W" + FIT
    assert line(text, "the mean of 1,000 homes") == "9.84 W" + FIT


def test_the_events_in_words() -> None:
    """Each event has its energy and in how many of 100 guesses anybody can be right, once and daily."""
    text = told(event.EVENTS, {})
    assert "right in at most so many of 100 guesses (50 is a coin)" in text
    assert line(text, "which programme, 1 h").split() == ["38", "Wh", "55", "68", "75"]
    assert line(text, "a kettle").split() == ["110", "Wh", "70", "95", "100"]
    assert line(text, "away a week").split() == ["42,000", "Wh", "100", "-", "-"]
    assert all(line(text, example.name) for example in event.EVENTS)


def test_an_event_of_one_s_own_is_in_the_table() -> None:
    """What `--event` asks about is one more line, by its power and duration."""
    text = told((*event.EVENTS, event.parse("60W 30min"), event.parse("2W 2d")), {})
    *moved, once, fortnight, month = line(text, "60 W for 30min").split()
    assert (moved, int(once)) == (["30", "Wh"], math.ceil(100 - 50 * math.exp(-60 / 440)))
    assert int(once) < int(fortnight) < int(month) < 100
    assert line(text, "2 W for 2d").split()[-2:] == ["-", "-"]


def test_without_events_there_is_no_table() -> None:
    """No events, no table."""
    assert "guesses" not in told((), {})


@pytest.mark.parametrize("what", SECTIONS)
def test_the_end_is_what_is_not_hidden(what: str) -> None:
    """The last line says what is not hidden, whatever the configuration."""
    last = told((), SECTIONS[what]).splitlines()[-1]
    assert last.startswith("Does NOT hide: an event that moves much more than ")
    for part in ("what repeats", "that the meter exists", "the exact bill"):
        assert part in last
    assert last.endswith(".")


def test_each_stream_has_its_own_text() -> None:
    """Several streams are told one after another, each with its own end."""
    one = "[[stream]]\nname = '{0}'\nsource = {{ topic = 'm/{{meter}}', kind = 'power', unit = 'W' }}\n"
    text = (one + "sink = {{ topic = '{0}/{{meter}}' }}\n").format
    settings = config.parse(text("first") + text("second"))
    shown = told_of(settings, ()).split("\n\nStream second: ")
    assert len(shown) == 2
    assert shown[0].startswith("Stream first: ")
    assert all("Does NOT hide: " in part.splitlines()[-1] for part in shown)


# As facts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", SECTIONS)
def test_facts_have_the_descriptor_s_names_and_texts(what: str) -> None:
    """All that the descriptor says is in the facts under the same names, exact numbers as text."""
    terms = settled(**SECTIONS[what])
    described = json.loads(describe(terms).message("m1", 0))
    known = found(**SECTIONS[what])
    kept = {key: described[key] for key in described if key not in ("meter", "valid_from")}
    assert known | kept == known
    assert (known["epsilon"], known["hides_wh"]) == (str(terms.epsilon), str(terms.hides_wh))


def test_json_is_the_facts() -> None:
    """The JSON holds one table of facts per stream, and nothing else."""
    known = found()
    text = facts.as_json([computed(written(), event.EVENTS, ())])
    assert json.loads(text) == {"streams": [known]}
    assert (known["stream"], known["epsilon"], known["level_per_day"]) == ("main", "1/220", "48")


@pytest.mark.parametrize(
    ("what", "number", "day_kwh", "month_kwh", "mean_of_1000"),
    [
        ("television", 56.57, 0.196, 1.073, 1.789),
        ("appliance", 311.1, 1.078, 5.903, 9.839),
        ("street", 848.5, 2.939, 16.10, 26.83),
        ("kW", 0.3111, 1.078, 5.903, 0.009839),
        ("Wh", 155.6, 1.078, 5.903, 4.919),
        ("kWh", 0.1556, 1.078, 5.903, 0.004919),
    ],
)
def test_errors(what: str, number: float, day_kwh: float, month_kwh: float, mean_of_1000: float) -> None:
    """The errors are those of DESIGN 5's table, of means in the unit and of totals in kWh."""
    errors = found(**SECTIONS[what])["errors"]
    assert errors["number"] == pytest.approx(number, rel=1e-3)
    assert errors["day_kwh"] == pytest.approx(day_kwh, rel=1e-3)
    assert errors["month_kwh"] == pytest.approx(month_kwh, rel=1e-3)
    assert errors["mean_of_100"] == pytest.approx(number / 10, rel=1e-3)
    assert errors["mean_of_1000"] == pytest.approx(mean_of_1000, rel=1e-3)
    half = number * -math.log(0.05) / math.sqrt(2)
    quantum = float(Fraction(found(**SECTIONS[what])["quantum"]))
    assert half * (1 - 1e-3) < errors["ci95"] < half * (1 + 1e-3) + quantum


def test_a_day_that_is_no_number_has_no_error() -> None:
    """With windows of 30 days a day's total does not exist; the month's is one number's error."""
    errors = found(**SECTIONS["thirty days"])["errors"]
    assert "day_kwh" not in errors
    assert errors["month_kwh"] == pytest.approx(6 * math.sqrt(2), rel=1e-3)
    assert "\n  a day " not in told((), SECTIONS["thirty days"])


@pytest.mark.parametrize(
    ("what", "fit"),
    [
        ("television", ["day_kwh", "month_kwh", "mean_of_100", "mean_of_1000"]),
        ("appliance", ["month_kwh", "mean_of_100", "mean_of_1000"]),
        ("kW", ["month_kwh", "mean_of_100", "mean_of_1000"]),
        ("Wh", ["month_kwh", "mean_of_100", "mean_of_1000"]),
        ("kWh", ["month_kwh", "mean_of_100", "mean_of_1000"]),
        ("street", ["month_kwh", "mean_of_1000"]),
        ("a day", ["number", "day_kwh", "month_kwh", "mean_of_100", "mean_of_1000"]),
    ],
)
def test_what_is_fit_for_use(what: str, fit: list[str]) -> None:
    """Exactly the errors below a tenth of 330 W, or of its energy, are marked; in any unit the same."""
    assert found(**SECTIONS[what])["fit_for"] == fit


def test_how_often_anybody_is_right() -> None:
    """For a kettle it is (1 + TV)/2, TV = 1 - e^(-1/2), rounded up; it grows with days and with the level."""
    rows = {row["event"]: row["right_of_100"] for row in found()["hidden"]}
    assert rows["a kettle"]["1"] == math.ceil(100 - 50 * math.exp(-0.5)) == 70
    assert all(50 < row["1"] <= row.get("14", 100) <= row.get("30", 100) <= 100 for row in rows.values())
    assert [list(rows[name]) for name in ("a kettle", "away a day")] == [["1", "14", "30"], ["1"]]
    private = {row["event"]: row["right_of_100"] for row in found(privacy="level = 0.1")["hidden"]}
    assert all(private[name]["1"] <= rows[name]["1"] for name in rows)
    assert private["a kettle"]["1"] == math.ceil(100 - 50 * math.exp(-0.05)) == 53


@pytest.mark.parametrize("unit", ["kW", "Wh", "kWh"])
def test_what_is_hidden_does_not_depend_on_the_unit(unit: str) -> None:
    """The same promise in another unit, or for energies, hides the same events as well."""
    assert found(**SECTIONS[unit])["hidden"] == found()["hidden"]


# Warnings -----------------------------------------------------------------------------------------

WARNINGS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "what ends a slot arrives after": ({"source": f"{energy('Wh')}\n{KNOWN}"}, ()),
    "readings have no time of their own": ({"source": f"profile = 'json'\n{STATED}"}, ()),
    "clock = 'event' is for replay and archives": ({"source": KNOWN, "window": "clock = 'event'"}, ()),
    "13 slots share one radius of noise; one slot of 130min that hides the same costs 72.1 W": (
        {"source": KNOWN, "window": "length = '130min'\nstep = '10min'"},
        (),
    ),
    "the quantum of 1 W is coarser than the noise": ({"source": KNOWN, "privacy": "radius = 1"}, ()),
    "the phases are told at different times: load that moves between them counts up to 2 times": (
        {"source": f"{KNOWN}\ntopic = 'm/{{phase}}'\nmeter = 'home'\nphases = ['a', 'b']"},
        (),
    ),
    "the modulus is less than window.range allows in an hour": (
        {"source": f"kind = 'register'\nunit = 'kWh'\nmodulus = 19\n{KNOWN}", "window": "lateness = '1min'"},
        (),
    ),
    "how far the power may go from what the device said last": (
        {"source": "profile = 'senml'\ntopic = 'home/power'\nmeter = 'home'\nevery = '0s'"},
        (),
    ),
    "level 4.5 lets the odds change by a factor of 90": ({"source": KNOWN, "privacy": "level = 4.5"}, ()),
    "the store knows a, b, not main": ({"source": KNOWN}, ("b", "a")),
}
PHASES = "topic = 'x/status/{phase}'\nmeter = 'home'\nphases = ['em1:0', 'em1:1', 'em1:2']"
QUIET: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "all is well": ({"source": KNOWN}, ()),
    "intervals are waited for": ({"source": f"{energy('Wh')}\n{KNOWN}", "window": "lateness = '1s'"}, ()),
    "twelve slots": ({"source": KNOWN, "window": "length = '2h'\nstep = '10min'"}, ()),
    "a quantum of less than half the noise": ({"source": KNOWN, "privacy": "radius = 2"}, ()),
    "level 4": ({"source": KNOWN, "privacy": "level = 4"}, ()),
    "the store knows it": ({"source": KNOWN}, ("b", "main")),
}


@pytest.mark.parametrize("what", WARNINGS)
def test_a_warning_is_given_where_it_should(what: str) -> None:
    """Each thing that is allowed and probably not meant is one warning, in the facts and in words."""
    sections, channels = WARNINGS[what]
    (warning,) = warned(channels, sections)
    assert warning.startswith(what)
    if not channels:
        assert f"\nWarning: {warning}\n" in told((), sections)


@pytest.mark.parametrize("what", QUIET)
def test_no_warning_is_given_where_it_should_not(what: str) -> None:
    """Just beside each warning there is none."""
    sections, channels = QUIET[what]
    assert warned(channels, sections) == []
    assert "Warning" not in told((), sections)


def test_a_register_waits_for_the_reading_after_a_slot() -> None:
    """A slot of a register needs the first reading after its end: without lateness there is a warning."""
    source = f"kind = 'register'\nunit = 'kWh'\n{KNOWN}"
    (warning,) = warned((), {"source": source})
    assert warning.startswith("what ends a slot arrives after")
    assert warned((), {"source": source, "window": "lateness = '1min'"}) == []


@pytest.mark.parametrize(
    ("band", "level"), [("10", Fraction(12, 11)), ("0.3", Fraction(221, 220)), ("110", Fraction(2))]
)
def test_a_dead_band_widens_the_promise_for_curves(band: str, level: Fraction) -> None:
    """Curves within the radius give slot means within radius + 2 * (dead band), rounded up to the lattice."""
    sections = {"source": f"{TIMED}\ndead_band = {band}"}
    known = found(**sections)
    assert (known["dead_band"], known["level_of_curves"]) == (band, str(level))
    words = " ".join(told((), sections).split())
    assert f"{band} W from what it said last: for what the home really used, the factor is e^" in words
    assert f"{rate(level)} = {math.exp(level):.3g}." in words
    assert "dead_band" not in found()
    assert found(source=f"profile = 'shelly-gen2-em1'\n{PHASES}")["dead_band"] == "30"  # 10 W of each
    scaled = found(source=f"profile = 'shelly-gen2-em1'\n{PHASES}\nscale = 40")
    assert scaled["dead_band"] == "1200"


def test_registers_without_a_time_are_warned_of() -> None:
    """A register that waited says when it is read what was used long before: that is not 1-Lipschitz."""
    window = {"window": "lateness = '1min'"}
    (warning,) = warned((), {"source": f"kind = 'register'\nunit = 'kWh'\n{STATED}", **window})
    assert warning.startswith("a register without times of its own: what comes late counts as used later")
    (warning,) = warned((), {"source": f"{energy('Wh')}\n{STATED}", **window})
    assert warning.endswith("counts from its arrival")


def test_an_archive_has_times_of_its_own() -> None:
    """With an [archive] a column says when a reading was: nothing is warned of; of messages it still is."""
    for source in ("kind = 'power'", energy("Wh")):
        stream = config.parse(written(source=f"{source}\n{STATED}", window="lateness = '1min'")).stream[0]
        (warning,) = warn.of_stream(stream)
        assert warning.startswith("readings have no time of their own")
        assert facts_of(stream, (), archived=True)["warnings"] == []


def test_coarse_counts_are_warned_of() -> None:
    """A count may end on either side of a slot's end: two of them widen the promise for what was used."""
    source = f"kind = 'register'\nunit = 'kWh'\n{TIMED}\nscale = "
    (warning,) = warned((), {"source": f"{source}'0.01'", "window": "lateness = '1min'"})
    assert warning == (
        "if the meter counts in steps of 0.01 kWh, slots of shapes within the radius may differ by two more:"
        " level 13/11; set source.dead_band to the step"
    )
    fine = f"{source}'0.001'\n{STATED}"
    assert warned((), {"source": fine, "window": "lateness = '1min'"}) == []
    assert warned((), {"source": f"{KNOWN}\nscale = 1000"}) == []


def test_the_step_of_a_count_widens_the_promise_too() -> None:
    """A meter that counts in steps of 10 Wh: shapes within 110 Wh may differ by two steps more."""
    sections = {
        "source": f"kind = 'register'\nunit = 'Wh'\ndead_band = 10\n{TIMED}",
        "window": "lateness = '1min'",
    }
    known = found(**sections)
    assert (known["dead_band"], known["level_of_curves"]) == ("10", "13/11")
    assert "The meter counts in steps of 10 Wh: for what the home really used" in told((), sections)
    assert "within any slot of 30min and the readings around it." in " ".join(told((), sections).split())


def test_an_event_clock_does_not_wait_for_intervals() -> None:
    """With the event clock the interval that ends a slot is the time, so no lateness is asked for."""
    (warning,) = warned((), {"source": f"{energy('Wh')}\n{KNOWN}", "window": "clock = 'event'"})
    assert warning.startswith("clock = 'event'")


def test_a_level_beyond_all_bounds_is_told() -> None:
    """A level that hides nothing is told as such, with a factor that can be written."""
    text = told((), {"source": TIMED, "privacy": "level = 100000\nradius = 10"})
    assert "Warning: level 100000 lets the odds change by a factor of 9.89e+42" in text


def test_habits_are_warned_of() -> None:
    """What is hidden once and known after a month is named as a habit, and nothing else is."""
    known = found()
    (text,) = [warning for warning in known["warnings"] if warning.startswith("a habit")]
    for row in known["hidden"]:
        right = row["right_of_100"]
        assert (row["event"] in text) == (right["1"] < 95 <= right.get("30", 0))
    strict = found(privacy="level = 0.001")
    assert not [warning for warning in strict["warnings"] if warning.startswith("a habit")]


def test_streams_on_one_meter_add_and_each_descriptor_says_so() -> None:
    """Two shapes on one meter: check and both descriptors show the sum of what they charge on a day."""
    street = "'b/{meter}'\n[stream.privacy]\npreset = 'street'"
    settings = config.parse(streams(("one", "m/{meter}", "'a/{meter}'"), ("two", "m/{meter}", street)))
    one, two = settings.stream
    others = [config.others_per_day(settings, stream) for stream in (one, two)]
    assert others == [Fraction(48, 600), Fraction(48, 220)]
    both = [guarantee.of(stream, (), (), other) for stream, other in zip((one, two), others, strict=True)]
    for promised in both:
        known = facts.of(promised)
        assert known["meter_epsilon_per_day"] == str(Fraction(48, 220) + Fraction(48, 600))
        assert known["meter_epsilon_unit"] == "1/W"
    text = terminal.text(both, settings)
    assert "a meter that all streams here read is charged epsilon 0.298 per W a day" in text
    assert describe(config.terms(one, others[0])).id == both[0].descriptor.id
    assert "meter_epsilon_per_day" not in facts_of(one, ())
