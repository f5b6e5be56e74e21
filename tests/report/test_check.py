"""What `check` says before anything is released (law 8)."""

import functools
import json
import math
import re
from fractions import Fraction
from typing import Any

import pytest

from meteragent import config
from meteragent.report import event, facts, guarantee, terminal
from meteragent.report.guarantee import Guarantee
from meteragent.wire.descriptor import describe_terms
from tests.support.configurations import energy, settled, streams, written
from tests.support.guarantees import facts_of, told_of

TIMED = "profile = 'json'\ntime = 't'"
STATED = "every = '0s'\ndead_band = 0"
"""Readings that follow the load: each change is sent at once, and none is too small."""
KNOWN = f"{TIMED}\n{STATED}"
USEFUL = " *"
"""The mark of what is useful, which a line below explains."""
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
def computed(text: str, events: tuple[event.Event, ...], stored_streams: tuple[str, ...]) -> Guarantee:
    """Return the guarantee of a configuration's first stream, for tests that only read it."""
    return guarantee.compute_guarantee(config.parse(text).stream[0], events, stored_streams)


def found(**sections: str) -> dict[str, Any]:
    """Return the facts of a configuration."""
    return facts.facts_of(computed(written(**sections), event.EVENTS, ()))


def told(events: tuple[event.Event, ...], sections: dict[str, str]) -> str:
    """Return a configuration in words."""
    text = written(**sections)
    return terminal.guarantees_text([computed(text, events, ())], config.parse(text))


def joined(text: str) -> str:
    """Return a text without its line breaks and indents."""
    return " ".join(text.split())


def line(text: str, start: str) -> str:
    """Return the rest of the one line that starts with these words."""
    (rest,) = re.findall(rf"^\s*{re.escape(start)}\s+(.*)$", text, re.MULTILINE)
    return str(rest)


# In words -----------------------------------------------------------------------------------------


def test_the_guarantee_in_words() -> None:
    """The promise is stated in the words of DESIGN 2, with the exact epsilon and the level of a day."""
    text = told(event.EVENTS, {})
    assert text.startswith("Stream main: power in W, windows of 30 min with one number each\n")
    for part in (
        "Hidden, as measured by the readings: anything that changes the energy used within",
        "within any slot of 30 min by at most 110 Wh. How often",
        "For any two series of readings whose slot means differ by at most 220 W,",
        "changes the odds between them by a factor of at most e^1 = 2.72.",
        "Exactly: epsilon = 1/220 per W, for values that are multiples of 1 W.",
        "Levels add up over windows: 48 a day. Anything that repeats is eventually learnt.",
    ):
        assert part in joined(text)


def test_the_guarantee_of_energies_in_words() -> None:
    """For interval energy the same promise is about energies, in the source's unit, exactly."""
    sections = {"source": energy("kWh"), "window": "length = '1h'\nstep = '30min'"}
    text = told((), sections | {"privacy": "level = 0.1"})
    head = "Stream main: energy of each interval in kWh, windows of 1 h with 2 numbers each\n"
    assert text.startswith(head)
    assert "whose slot energies differ by at most 0.11 kWh," in joined(text)
    assert "epsilon = 10/11 per kWh, for values that are multiples of 0.0005 kWh." in joined(text)
    assert "Levels add up over windows: 2.4 a day." in text


def test_the_errors_in_words() -> None:
    """The errors of a number, a day, a month, 100 and 1,000 homes, and which are useful."""
    text = told(event.EVENTS, {})
    assert line(text, "one number") == "311 W (95% within ± 659 W)"
    assert line(text, "one day") == "1.08 kWh"
    assert line(text, "a month of 30 days") == "5.9 kWh" + USEFUL
    assert line(text, "the mean of 100 homes") == "31.1 W" + USEFUL
    assert line(text, "the mean of 1,000 homes") == "9.84 W" + USEFUL
    assert line(text, "* useful:") == "an error below 10% of an average home's use (330 W)"


def test_the_events_in_words() -> None:
    """Each event has its energy and an attacker's success limit in per cent, once and daily."""
    text = told(event.EVENTS, {})
    assert "Attacker's success limit, in % (50 = guessing)" in text
    assert line(text, "which programme was on, 1 h").split() == ["38", "Wh", "55", "68", "75"]
    assert line(text, "a kettle").split() == ["110", "Wh", "70", "95", "100"]
    assert line(text, "a week away").split() == ["42,000", "Wh", "100", "-", "-"]
    assert all(line(text, example.name) for example in event.EVENTS)


def test_it_starts_with_what_is_hidden_in_words() -> None:
    """Below 90% an event is hidden; above 99.9%, and only there, it says that nothing is hidden."""
    text = joined(told(event.EVENTS, {}))
    assert (
        "Hidden (once): which programme was on, 1 h"
        " (55%); a kettle (70%); a TV evening (70%)."
        " Hardly hidden (once): a washing machine (93%); the oven, 45 min (> 99%); 8 h away (98%)."
        " Hides nothing (once): a day away; a week away."
        " Hidden (daily, 30 days): which programme was on, 1 h (75%)."
    ) in text
    exposures = {row.event.name: row for row in computed(written(), event.EVENTS, ()).exposures}
    assert exposures["a TV evening"].success_percent[30] == 100
    assert exposures["a TV evening"].revealed_days == set()
    assert exposures["8 h away"].revealed_days == {14, 30}
    assert "a TV evening (> 99%)." in text
    assert "Hides nothing (daily, 30 days): a washing machine; the oven, 45 min; 8 h away." in text


def test_an_event_of_one_s_own_is_in_the_table() -> None:
    """`--event` adds a line, with its power and duration."""
    text = told((*event.EVENTS, event.parse_event("60W 30min"), event.parse_event("2W 2d")), {})
    *moved, once, fortnight, month = line(text, "60 W for 30 min").split()
    assert (moved, int(once)) == (["30", "Wh"], math.ceil(100 - 50 * math.exp(-60 / 440)))
    assert int(once) < int(fortnight) < int(month) < 100
    assert line(text, "2 W for 2 days").split()[-2:] == ["-", "-"]


def test_without_events_there_is_no_table() -> None:
    """No events, no table."""
    assert "guessing" not in told((), {})


@pytest.mark.parametrize("what", SECTIONS)
def test_what_is_not_hidden_follows_what_is(what: str) -> None:
    """What is not hidden is listed, whatever the configuration, before costs; formulas are last."""
    before, _, rest = told((), SECTIONS[what]).partition("\n\nDoes NOT hide:\n")
    assert before.partition("\n\n")[2].startswith("What is hidden, and what is not\n  Hidden")
    listed, costs, *after, formal = rest.split("\n\n")
    assert costs.startswith("What it costs")
    assert formal.startswith("Formally\n  For any two ")
    assert "epsilon" not in before + listed + costs
    items = [item.replace("\n    ", " ") for item in listed.removeprefix("  - ").split("\n  - ")]
    starts = (
        "an event of much more than ",
        "anything that repeats",
        "that the meter exists",
        "the exact bill",
    )
    assert all(item.startswith(start) for item, start in zip(items, starts, strict=True))
    assert all(text.startswith("Warning: ") for text in after)
    assert len(after) <= 1


@pytest.mark.parametrize("what", SECTIONS)
def test_lines_are_of_at_most_100_characters(what: str) -> None:
    """The output of `check` fits a terminal of 100 columns."""
    text = told(event.EVENTS, SECTIONS[what])
    assert [shown for shown in text.splitlines() if len(shown) > 100] == []


@pytest.mark.parametrize(
    ("sections", "text"),
    [
        ({}, "As a rule, a stream's first number is sent 30 min to 1 h after a meter's first reading."),
        (
            {"window": "length = '1h'\nstep = '10min'\nlateness = '1min'", "sink": "spread = '10s'"},
            (
                "As a rule, a stream's first number is sent 11 min to 1 h 11 min 10 s"
                " after a meter's first reading."
            ),
        ),
        (
            {"window": "clock = 'event'"},
            "A number is sent once a reading's timestamp is past the end of its slot by window.lateness.",
        ),
    ],
)
def test_it_says_what_to_do_next(sections: dict[str, str], text: str) -> None:
    """The next command, and when the first number leaves: after the first slot of the first whole window."""
    source = written(**sections)
    known, settings = [computed(source, (), ())], config.parse(source)
    step = terminal.next_step(known, settings, "home.toml")
    assert step == f"Next: meteragent run home.toml\n  {text}"
    steps = terminal.next_step(known, settings, "home.toml", program="m", is_new=True)
    rehearsal, _, run = steps.splitlines()[:3]
    assert (rehearsal, run) == ("Next: m run home.toml --rehearse", "Then: m run home.toml")
    assert steps.endswith(f"\n  {text}")


def test_each_stream_has_its_own_text() -> None:
    """Streams are described one after another, each with its own ending."""
    one = "[[stream]]\nname = '{0}'\nsource = {{ topic = 'm/{{meter}}', kind = 'power', unit = 'W' }}\n"
    text = (one + "sink = {{ topic = '{0}/{{meter}}' }}\n").format
    settings = config.parse(text("first") + text("second"))
    shown = told_of(settings, ()).split("\n\nStream second: ")
    assert len(shown) == 2
    assert shown[0].startswith("Stream first: ")
    assert all(part.count("Does NOT hide:") == 1 for part in shown)


# As facts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", SECTIONS)
def test_facts_have_the_descriptor_s_names_and_texts(what: str) -> None:
    """The facts have all fields of the descriptor under the same names, with exact numbers as text."""
    terms = settled(**SECTIONS[what])
    described = json.loads(describe_terms(terms).encode_message("m1", 0))
    known = found(**SECTIONS[what])
    kept = {key: described[key] for key in described if key not in ("meter", "valid_from")}
    assert known | kept == known
    assert (known["epsilon"], known["hides_wh"]) == (str(terms.epsilon), str(terms.hides_wh))


def test_json_is_the_facts() -> None:
    """The JSON holds one table of facts per stream, and nothing else."""
    known = found()
    text = terminal.guarantees_json([computed(written(), event.EVENTS, ())], config.parse(written()))
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
    """With windows of 30 days there is no total of a day; the month's error is that of one number."""
    errors = found(**SECTIONS["thirty days"])["errors"]
    assert "day_kwh" not in errors
    assert errors["month_kwh"] == pytest.approx(6 * math.sqrt(2), rel=1e-3)
    assert "\n  one day " not in told((), SECTIONS["thirty days"])


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
    """Exactly the errors below a tenth of 330 W, or of its energy, are marked, in any unit."""
    assert found(**SECTIONS[what])["fit_for"] == fit


def test_how_often_anybody_is_right() -> None:
    """For a kettle it is (1 + TV)/2, TV = 1 - e^(-1/2), rounded up; it grows with days and with the level."""
    rows = {row["event"]: row["right_of_100"] for row in found()["hidden"]}
    assert rows["a kettle"]["1"] == math.ceil(100 - 50 * math.exp(-0.5)) == 70
    assert all(50 < row["1"] <= row.get("14", 100) <= row.get("30", 100) <= 100 for row in rows.values())
    assert [list(rows[name]) for name in ("a kettle", "a day away")] == [["1", "14", "30"], ["1"]]
    private = {row["event"]: row["right_of_100"] for row in found(privacy="level = 0.1")["hidden"]}
    assert all(private[name]["1"] <= rows[name]["1"] for name in rows)
    assert private["a kettle"]["1"] == math.ceil(100 - 50 * math.exp(-0.05)) == 53


@pytest.mark.parametrize("unit", ["kW", "Wh", "kWh"])
def test_what_is_hidden_does_not_depend_on_the_unit(unit: str) -> None:
    """The same promise in another unit, or for energies, hides the same events as well."""
    assert found(**SECTIONS[unit])["hidden"] == found()["hidden"]


def test_streams_on_one_meter_add_and_each_descriptor_says_so() -> None:
    """Two shapes on one meter: `check` and both descriptors show the sum of their daily charges."""
    street = "'b/{meter}'\n[stream.privacy]\npreset = 'street'"
    settings = config.parse(streams(("one", "m/{meter}", "'a/{meter}'"), ("two", "m/{meter}", street)))
    one, two = settings.stream
    others = [config.other_charges_per_day(settings, stream) for stream in (one, two)]
    assert others == [Fraction(48, 600), Fraction(48, 220)]
    both = [
        guarantee.compute_guarantee(stream, (), (), other)
        for stream, other in zip((one, two), others, strict=True)
    ]
    for promised in both:
        known = facts.facts_of(promised)
        assert known["meter_epsilon_per_day"] == str(Fraction(48, 220) + Fraction(48, 600))
        assert known["meter_epsilon_unit"] == "1/W"
    text = terminal.guarantees_text(both, settings)
    assert "a meter that all streams here read is charged epsilon 0.298 per W a day" in joined(text)
    assert describe_terms(config.terms(one, others[0])).id == both[0].descriptor.id
    assert "meter_epsilon_per_day" not in facts_of(one, ())
