"""One value with all facts of a stream: what repeats, what starts off the grid, and what holds for loads."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from meteragent import config
from meteragent.domain import loads
from meteragent.privacy.in_all import success_in_all
from meteragent.privacy.inference import success_bound
from meteragent.report import guarantee, wording
from meteragent.report.event import parse_event
from meteragent.report.guarantee import Guarantee, success_limit, whole_percent
from tests.support.configurations import energy, written

LOCAL = "timezone = 'Europe/Amsterdam'"


def promised(**sections: str) -> Guarantee:
    """Return the guarantee of a configuration, without events."""
    return guarantee.compute_guarantee(config.parse(written(**sections)).stream[0], ())


def test_an_event_off_the_grid_is_covered() -> None:
    """100 W for 30 minutes, in multiples of 50 W, is rounded up twice off the grid: a quantum covers it.

    With a dither nothing is rounded up, and what moves in all is a smaller bound.
    """
    terms = config.terms(config.parse(written(privacy="radius = 100\nquantum = 50")).stream[0])
    splits = [(Fraction(100),), (Fraction(60), Fraction(40)), (Fraction(90), Fraction(10))]
    percent = whole_percent(success_limit(parse_event("100W 30min"), terms, 1))
    on_grid, *off_grid = (math.ceil(100 * success_bound(terms.mechanism, split)) for split in splits)
    assert on_grid < min(off_grid) <= max(off_grid)
    assert percent == math.ceil(100 * success_in_all(terms.mechanism, 100))
    assert percent < math.ceil(100 * success_bound(terms.mechanism, (Fraction(150),)))
    rounded = replace(terms, rounding="half-up")
    assert max(off_grid) <= whole_percent(success_limit(parse_event("100W 30min"), rounded, 1))
    assert whole_percent(success_limit(parse_event("100W 30min"), rounded, 1)) == math.ceil(
        100 * success_bound(terms.mechanism, (Fraction(150),))
    )


@pytest.mark.parametrize(
    ("sections", "text"),
    [
        ({"window": "length = '12h'", "privacy": "radius = 100"}, "Levels add up over windows: 2 a day."),
        ({"window": "length = '1d'", "privacy": "radius = 100"}, "Levels add up over windows: 1 a day."),
        (
            {"window": "length = '2d'", "privacy": "radius = 100"},
            "windows: 1 in each of the windows of 2 days.",
        ),
        ({"window": LOCAL, "privacy": "preset = 'day'"}, "Levels add up over windows: 1 a day."),
        (
            {"window": LOCAL, "privacy": "preset = 'bill'"},
            "in each of the local months in Europe/Amsterdam.",
        ),
    ],
)
def test_levels_add_by_the_day_or_by_the_window(sections: dict[str, str], text: str) -> None:
    """Windows of at most a day are stated per day, longer ones each; the sum of a day is exact."""
    known = promised(**sections)
    assert text in wording.windows_sentence(known)
    assert known.level_in(30) == 30 * known.level_in(1) == Fraction(30 * 86_400_000, known.terms.length_ms)


@pytest.mark.parametrize(
    ("source", "follows"),
    [
        ("every = '0s'\ndead_band = 0", True),
        ("every = '10s'\ndead_band = 0", False),
        ("every = '0s'\ndead_band = 1", False),
        ("every = '0s'", False),
        ("dead_band = 0", False),
        ("kind = 'register'\nunit = 'Wh'\ndead_band = 10", False),
    ],
)
def test_the_promise_is_about_loads_only_where_readings_follow_them(source: str, follows: bool) -> None:
    """If every change is sent at once, the promise is about load shapes, otherwise about readings."""
    known = promised(source=source)
    assert known.follows_loads is follows
    courses = "load shapes" if follows else "series of readings"
    assert wording.odds_sentence(known).startswith(f"For any two {courses} whose ")
    assert (", as measured by the readings:" in wording.hidden_sentence(known)) is not follows


def test_each_interval_adds_a_step_of_its_own() -> None:
    """Six intervals in steps of 10 Wh, each rounded: shapes within 110 Wh may differ by 60 Wh more."""
    source = "kind = 'interval_energy'\nunit = 'Wh'\ninterval = '5min'\ndead_band = 10"
    known = promised(source=source, window="lateness = '1min'")
    assert loads.level_of_curves(known.terms) == known.level_of_curves == Fraction(170, 110)
    one = promised(source=f"{energy('Wh')}\ndead_band = 10", window="lateness = '1min'")
    assert one.level_of_curves == Fraction(130, 110)


def test_a_step_that_stays_moved_costs_its_own_level() -> None:
    """A register in steps of 11 Wh: each later slot may cost a tenth of the level of 110 Wh."""
    known = promised(source="kind = 'register'\nunit = 'Wh'\ndead_band = 11", window="lateness = '1min'")
    assert known.level_of_step == Fraction(1, 10)
    assert wording.loads_sentence(known).endswith("each later slot may add 0.1 to the level.")


def test_a_slot_of_two_intervals_may_keep_two_steps() -> None:
    """Each interval is counted separately, so each may stay a step off."""
    source = f"{energy('Wh')}\ndead_band = 10"
    known = promised(source=source, window="lateness = '1min'")
    assert known.level_of_step == Fraction(2 * 10, 110)
