"""What is allowed but probably not intended, as `check` warns of it (law 8)."""

from fractions import Fraction

import pytest

from meteragent import config
from meteragent.report import warn
from tests.report.test_check import KNOWN, STATED, TIMED, computed, found, joined, told
from tests.support.configurations import energy, written
from tests.support.guarantees import facts_of


def warned(stored_streams: tuple[str, ...], sections: dict[str, str]) -> list[str]:
    """Return the warnings of a configuration when the store knows these streams."""
    return [*computed(written(**sections), (), stored_streams).warnings]


WARNINGS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "it is unknown how long after a slot's end its last reading arrives": (
        {"source": f"kind = 'register'\nunit = 'kWh'\n{TIMED}\ndead_band = 0", "window": "lateness = '1min'"},
        (),
    ),
    "up to 4.99 kWh of each slot (49.9%) is lost, because the reading that completes a slot can arrive": (
        {"source": f"{energy('Wh')}\n{KNOWN}", "window": "lateness = '1s'"},
        (),
    ),
    "readings carry no timestamps": ({"source": f"profile = 'json'\n{STATED}"}, ()),
    "clock = 'event' is for replay and archives": ({"source": KNOWN, "window": "clock = 'event'"}, ()),
    (
        "each window has 13 slots, which requires more noise in each: a single slot of 2 h 10 min that"
        " hides the same energy has an error of 33.9 W"
    ): (
        {"source": KNOWN, "window": "length = '130min'\nstep = '10min'", "privacy": "hide = '50Wh'"},
        (),
    ),
    "values are rounded to multiples of 1 W, which is coarse compared with the noise": (
        {"source": KNOWN, "privacy": "radius = 1"},
        (),
    ),
    "the phases report at different times: a load that moves between them counts up to 2 times": (
        {"source": f"{KNOWN}\ntopic = 'm/{{phase}}'\nmeter = 'home'\nphases = ['a', 'b']"},
        (),
    ),
    "source.modulus is less than window.range allows in an hour": (
        {"source": f"kind = 'register'\nunit = 'kWh'\nmodulus = 19\n{KNOWN}", "window": "lateness = '1min'"},
        (),
    ),
    "how far the power may drift from the device's last report is unknown": (
        {"source": "profile = 'senml'\ntopic = 'home/power'\nmeter = 'home'\nevery = '0s'"},
        (),
    ),
    "a level of 4.5 lets an attacker's odds change by a factor of e^4.5 = 90": (
        {"source": KNOWN, "privacy": "level = 4.5"},
        (),
    ),
    "the noise is large even beside the largest readings: 95% of numbers are within ± 19,772 W, and": (
        {"source": KNOWN, "window": "length = '1min'"},
        (),
    ),
    "the store has no stream main; it has a, b": ({"source": KNOWN}, ("b", "a")),
}
PHASES = "topic = 'x/status/{phase}'\nmeter = 'home'\nphases = ['em1:0', 'em1:1', 'em1:2']"
QUIET: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "all is well": ({"source": KNOWN}, ()),
    "intervals are waited for": ({"source": f"{energy('Wh')}\n{KNOWN}"}, ()),
    "twelve slots": ({"source": KNOWN, "window": "length = '2h'\nstep = '10min'"}, ()),
    "a quantum of less than half the noise": ({"source": KNOWN, "privacy": "radius = 2"}, ()),
    "level 4": ({"source": KNOWN, "privacy": "level = 4"}, ()),
    "noise of half the range": ({"source": KNOWN, "window": "length = '2min'"}, ()),
    "the store knows it": ({"source": KNOWN}, ("b", "main")),
}


@pytest.mark.parametrize("what", WARNINGS)
def test_a_warning_is_given_where_it_should(what: str) -> None:
    """Each setting that is allowed but probably not intended has one warning, in the facts and in words."""
    sections, stored_streams = WARNINGS[what]
    (warning,) = warned(stored_streams, sections)
    assert warning.startswith(what)
    if not stored_streams:
        assert f" Warning: {warning} " in f"{joined(told((), sections))} "


@pytest.mark.parametrize("what", QUIET)
def test_no_warning_is_given_where_it_should_not(what: str) -> None:
    """Just beside each warning there is none."""
    sections, stored_streams = QUIET[what]
    assert warned(stored_streams, sections) == []
    assert "Warning" not in told((), sections)


def test_a_register_waits_for_the_reading_after_a_slot() -> None:
    """By default a slot loses nothing; a wrong reading at its end costs a period, unless lateness is two."""
    source = f"kind = 'register'\nunit = 'kWh'\n{TIMED}\ndead_band = 0.001\nevery = '1min'"
    glitch = (
        "a wrong reading of the register at a slot's end costs the energy of one more period (1 min), unless"
    )
    (warning,) = warned((), {"source": source})
    assert warning.startswith(glitch)
    assert warned((), {"source": source, "window": "lateness = '2min'"}) == []
    lost, warning = warned((), {"source": source, "window": "lateness = '0s'"})
    assert lost.startswith("up to 333 Wh of each slot (3.33%) is lost")
    assert warning.startswith(glitch)
    assert warned((), {"source": source.replace("1min", "0s")}) == []


@pytest.mark.parametrize(
    ("band", "level", "odds"),
    [
        ("10", Fraction(12, 11), "e^1.1 = 3"),
        ("0.3", Fraction(221, 220), "e^1.01 = 2.75"),
        ("110", Fraction(2), "e^2 = 7.39"),
    ],
)
def test_a_dead_band_widens_the_promise_for_curves(band: str, level: Fraction, odds: str) -> None:
    """Curves within the radius give slot means within radius + 2 * (dead band), rounded up to the lattice."""
    sections = {"source": f"{TIMED}\ndead_band = {band}"}
    known = found(**sections)
    assert (known["dead_band"], known["level_of_curves"]) == (band, str(level))
    words = " ".join(told((), sections).split())
    assert f"by up to {band} W. For two actual loads whose slot means differ by at most" in words
    assert f"{odds}." in words
    assert "dead_band" not in found()
    assert found(source=f"profile = 'shelly-gen2-em1'\n{PHASES}")["dead_band"] == "30"  # 10 W of each
    scaled = found(source=f"profile = 'shelly-gen2-em1'\n{PHASES}\nscale = 40")
    assert scaled["dead_band"] == "1200"


def test_the_promise_for_curves_states_its_radius() -> None:
    """The radius is that of a slot or, in l1, of all slots of a window."""
    source = f"{TIMED}\ndead_band = 1"
    words = " ".join(told((), {"source": source}).split())
    assert "whose slot means differ by at most 220 W, the factor is at most e^1.01 = 2.75." in words
    window = "length = '1mo'\ntimezone = 'UTC'\nbands = ['00-12', '12-24']"
    privacy = "space = 'profile'\nmetric = 'l1'\nhide = '1.5kWh'"
    words = " ".join(told((), {"source": source, "window": window, "privacy": privacy}).split())
    assert "whose slot means differ by at most 5 W in all, the factor is at most e^1.8 = 6.05." in words


def test_a_level_just_above_the_usual_is_not_printed_as_equal_to_it() -> None:
    """Three figures suffice, unless they hide the difference that the warning is about."""
    warnings = warned((), {"source": f"{TIMED}\ndead_band = 0.5\nevery = '0s'"})
    assert any("at level 1.005 instead of 1." in warning for warning in warnings)


def test_registers_without_a_time_are_warned_of() -> None:
    """A register's reading that waited counts energy as used later: that is not 1-Lipschitz."""
    window = {"window": "lateness = '15min'"}
    (warning,) = warned((), {"source": f"kind = 'register'\nunit = 'kWh'\n{STATED}", **window})
    assert warning.startswith("the register's readings carry no timestamps: energy that is reported late")
    (warning,) = warned((), {"source": f"{energy('Wh')}\n{STATED}", **window})
    assert warning.endswith(
        "readings that waited in the broker arrive together, and most of them are not used"
    )


def test_the_zone_of_local_times_is_stated() -> None:
    """`check` says in which zone a P1 meter's times are read, or, with `arrival`, that they are not."""
    for timezone, said in {
        None: "the meter's times are interpreted in Central European Time",
        "Europe/Helsinki": "the meter's times are interpreted in Europe/Helsinki",
        "arrival": "readings carry no timestamps",
    }.items():
        zone = "" if timezone is None else f"timezone = '{timezone}'"
        source = f"profile = 'dsmr-p1'\ntopic = 'p1'\nmeter = 'home'\n{zone}"
        (warning,) = (text for text in warned((), {"source": source}) if " times" in text)
        assert warning.startswith(said)
        assert ("source.timezone" in warning) == (timezone != "arrival")


def test_an_archive_has_times_of_its_own() -> None:
    """With an [archive], a column holds the times, so there is no warning; for messages there still is."""
    for source in ("kind = 'power'", energy("Wh")):
        stream = config.parse(written(source=f"{source}\n{STATED}")).stream[0]
        (warning,) = warn.stream_warnings(stream, config.terms(stream))
        assert warning.startswith("readings carry no timestamps")
        assert facts_of(stream, (), is_archived=True)["warnings"] == []


def test_coarse_counts_are_warned_of() -> None:
    """A count may end on either side of a slot's end: two of them widen the promise for what was used."""
    source = f"kind = 'register'\nunit = 'kWh'\n{TIMED}\nevery = '10s'\nscale = "
    (warning,) = warned((), {"source": f"{source}'0.01'", "window": "lateness = '1min'"})
    assert warning == (
        "if the meter counts in steps of 0.01 kWh, a change of the load by 110 Wh has the level 1.18:"
        " set source.dead_band to the step"
    )
    fine = f"{source}'0.001'\ndead_band = 0"
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
    text = joined(told((), sections))
    assert "The meter counts in steps of 10 Wh. For two actual loads whose slot energies differ" in text
    assert (
        "within any slot of 30 min, from the last reading before it to the first after it, by at most" in text
    )


def test_an_event_clock_does_not_wait_for_intervals() -> None:
    """With the event clock the interval that ends a slot is the time, so no lateness is asked for."""
    (warning,) = warned((), {"source": f"{energy('Wh')}\n{KNOWN}", "window": "clock = 'event'"})
    assert warning.startswith("clock = 'event'")


def test_a_level_beyond_all_bounds_is_told() -> None:
    """A level that hides nothing has a warning, with a factor that can be written."""
    text = told((), {"source": TIMED, "privacy": "level = 100000\nradius = 10"})
    assert (
        "Warning: a level of 100,000 lets an attacker's odds change by a factor of e^100,000 (hides"
        in joined(text)
    )
