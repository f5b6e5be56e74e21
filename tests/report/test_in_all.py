"""What `check` says of a change in all, over many slots: the bound for a day and a month, and its limits."""

import json
from fractions import Fraction
from typing import Any

import pytest

from meteragent import config
from meteragent.privacy.in_all import success_in_all
from meteragent.report import guarantee, terminal, wording
from meteragent.report.format import round_up
from meteragent.report.guarantee import IN_ALL_SHARE, Guarantee
from tests.support.configurations import energy, written

LOCAL = "timezone = 'Europe/Amsterdam'"
REGISTER = "kind = 'register'\nunit = 'Wh'\ndead_band = {}"


def promised(**sections: str) -> Guarantee:
    """Return the guarantee of a configuration, without events."""
    return guarantee.compute_guarantee(config.parse(written(**sections)).stream[0], ())


def stated(known: Guarantee) -> dict[str, Any]:
    """Return the facts of a change in all, as in the JSON."""
    document = json.loads(terminal.guarantees_json([known], config.parse(written())))
    found: dict[str, Any] = document["streams"][0]["loads"]["in_all"]
    return found


@pytest.mark.parametrize(
    ("source", "start"),
    [
        (
            "every = '0s'\ndead_band = 0",
            "In total: anything that adds or removes 110 Wh, over however many slots and days, ",
        ),
        (
            "unit = 'W'",
            "In total, as measured by the readings: anything that adds or removes 110 Wh, over however many ",
        ),
        (
            energy("kWh"),
            "In total, as measured by the readings: anything that adds or removes 110 Wh, over however many ",
        ),
    ],
)
def test_it_is_in_all_where_readings_follow(source: str, start: str) -> None:
    """If readings lose nothing, or nothing is known of them: one sentence, with kappa rounded up."""
    known = promised(source=source)
    text = wording.in_all_sentences(known)
    assert known.is_in_all
    assert text.startswith(start)
    assert text.endswith("changes the odds by a factor of at most e^1.003 = 2.73.")
    assert text.count(". ") == 0
    found = stated(known)
    assert found == {
        "without_limits": True,
        "step_wh": "0",
        "periods": [
            {"days": 1, "slots": 48, "level": 1.003, "right_of_100": 70},
            {"days": 30, "slots": 1440, "level": 1.003, "right_of_100": 70},
        ],
    }


@pytest.mark.parametrize(
    ("step", "day", "month", "chances"),
    [
        (1, "e^1.44 = 4.22", "e^14.13 (hides nothing)", "70% over 1 day and 71% over 30 days"),
        (10, "e^5.376 = 216", "e^132.3 (hides nothing)", "72% over 1 day and 97% over 30 days"),
    ],
)
def test_a_register_says_how_far_it_holds(step: int, day: str, month: str, chances: str) -> None:
    """In steps of 1 and 10 Wh: the bound of a day and of a month, why, and an attacker's limits."""
    known = promised(source=REGISTER.format(step))
    text = wording.in_all_sentences(known)
    assert not known.is_in_all
    assert text.startswith("In total: anything that adds or removes 110 Wh, over however many slots, changes")
    assert f"at most {day} over 1 day and {month} over 30 days." in text
    assert f"each later slot may differ by {step} Wh." in text
    assert f"within one slot, however short and strong, an attacker's success limit is {chances};" in text
    assert text.endswith("Nor does the table include the effect on later slots.")
    assert not stated(known)["without_limits"]
    assert stated(known)["step_wh"] == str(step)


def test_the_limit_is_a_share_of_what_is_hidden() -> None:
    """Steps that add exactly 1% in a month still need no limits; a little more does."""
    share = IN_ALL_SHARE * 110 / 1440
    decimal = float(share // Fraction(1, 10**9) * Fraction(1, 10**9))
    below, above = (promised(source=REGISTER.format(f"{step:.9f}")) for step in (decimal, decimal + 1e-8))
    assert below.is_in_all
    assert not above.is_in_all
    assert below.in_all[-1].level <= (1 + IN_ALL_SHARE) * Fraction("1.0023")


def test_power_says_its_dead_band_and_its_period() -> None:
    """Reports on change may differ for ever; sampled power counts more each time a load is switched on."""
    text = wording.in_all_sentences(promised(source="every = '10s'\ndead_band = 10"))
    assert "each later slot may differ by 20 W. Power is read every 10 s," in text
    assert "up to 55.6 Wh more." in text
    sampled = promised(source="every = '10s'\ndead_band = 0")
    assert "at most e^1.509 = 4.52. Power is read" in wording.in_all_sentences(sampled)
    assert "effect on later slots" not in wording.in_all_sentences(sampled)
    assert len({period.level for period in sampled.in_all}) == 1


def test_an_archive_rounds_each_number() -> None:
    """`sanitise` rounds half up: half a Wh more for each slot, as the text says."""
    known = guarantee.compute_guarantee(config.parse(written()).stream[0], (), is_archived=True)
    assert not known.is_in_all
    assert known.in_all[0].level == Fraction(110 + 24, 110)
    text = wording.in_all_sentences(known)
    assert text.startswith("In total, as measured by the readings: anything")
    assert "rounded to a multiple of 1 W before noise is added" in text
    assert "an attacker's success limit is 70% over 30 days;" in text


def test_a_limit_that_grows_states_its_days() -> None:
    """A month of bands has one limit only: it is that of 30 days, and twelve months have a larger one."""
    bands = f"{LOCAL}\nlength = '1mo'\nbands = ['22-06', '06-22']"
    privacy = "space = 'profile'\nmetric = 'l1'\nhide = '1.5kWh'"
    known = promised(source=REGISTER.format(100), window=bands, privacy=privacy)
    assert len(known.in_all) == 1
    assert " over 30 days. Such a change can shift the count" in wording.in_all_sentences(known)


@pytest.mark.parametrize(
    ("sections", "periods"),
    [
        ({"window": LOCAL, "privacy": "preset = 'day'"}, [(1, 1), (30, 30)]),
        ({"window": LOCAL, "privacy": "preset = 'bill'"}, [(30, 1)]),
        ({"window": LOCAL, "privacy": "preset = 'typical-day'"}, [(30, 4)]),
        ({"window": "length = '1h'\nstep = '10min'"}, [(1, 144), (30, 4320)]),
        ({"window": "length = '60d'", "privacy": "hide = '6kWh'\nquantum = 0.01"}, [(60, 1)]),
    ],
)
def test_periods_are_whole_windows(sections: dict[str, str], periods: list[tuple[int, int]]) -> None:
    """A day and a month where windows are no longer, or else one window; all their slots count."""
    assert [(period.days, period.slots) for period in promised(**sections).in_all] == periods


def test_a_smaller_limit_of_all_that_moves_is_used() -> None:
    """With one slot per window the smaller success limit is used; with several slots it is not."""
    known = promised(source="every = '0s'\ndead_band = 0", privacy="radius = 100\nquantum = 50")
    (day, _) = known.in_all
    assert day.success_percent == 70 < 100 * success_in_all(known.terms.mechanism, 100) < 74
    (day, _) = promised(source=REGISTER.format(10)).in_all
    assert day.success_percent < 94


@pytest.mark.parametrize(
    ("level", "figures"),
    [("0", "0"), ("1.0023", "1.003"), ("1.003", "1.003"), ("14.1231", "14.13"), ("0.0100001", "0.01001")],
)
def test_levels_are_rounded_up(level: str, figures: str) -> None:
    """Four figures, never below the level."""
    assert round_up(Fraction(level)) == Fraction(figures)
