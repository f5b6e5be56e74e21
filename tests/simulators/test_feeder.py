"""Streets next to published figures: statistics with known answers, errors that hold, and a table."""

import numpy as np
import pytest

from simulators.__main__ import main
from simulators.homes import feeder
from simulators.homes.feeder import _STATISTICS, NOT_SHOWN, correlation, estimate, lines, seasons, table
from simulators.homes.region import GERMANY, REGIONS

WEEK = 7 * 48
PEAK, FACTOR, DEVIATION, RAMP = _STATISTICS.values()


def test_statistics_by_hand() -> None:
    """Two homes of 1 kW and 3 kW at different times: alone 1 and 3 kW, together 1.5 kW each at most."""
    homes_w = np.zeros((2, WEEK))
    homes_w[0, 10], homes_w[1, 20] = 1000, 3000
    assert estimate(homes_w, 1, PEAK).value == 2
    assert estimate(homes_w, 2, PEAK).value == 1.5
    assert estimate(homes_w, 1, FACTOR).value == pytest.approx(1 / WEEK)
    assert estimate(homes_w, 2, FACTOR).value == pytest.approx(4000 / WEEK / 3000)
    flat = np.full((4, WEEK), 500.0)
    assert estimate(flat, 2, DEVIATION).value == 0
    assert estimate(flat, 2, FACTOR).value == 1
    saw = np.tile([0.0, 800.0], (3, WEEK // 2))
    assert estimate(saw, 1, RAMP).value == pytest.approx(0.8)
    assert estimate(saw, 1, DEVIATION).value == pytest.approx(1)


def test_what_a_home_delivers_is_no_import() -> None:
    """A load factor is import over peak, so that a home with panels has one from 0 to 1."""
    homes_w = np.tile([-5000.0, 1000.0], (2, WEEK // 2))
    assert estimate(homes_w, 1, FACTOR).value == pytest.approx(0.5)


def test_correlation_by_hand() -> None:
    """Equal homes have 1, opposite ones -1, and independent ones 0 within its stated error.

    40 homes of 2,000 half hours: the pairs' mean has a standard deviation of about 0.0008; 5 of them are
    exceeded by chance once in a million, and a common part of a tenth of the variance is seen.
    """
    wave = np.sin(np.arange(WEEK))
    assert correlation(np.tile(wave, (20, 1))).value == pytest.approx(1)
    assert correlation(np.concatenate([np.tile(s * wave, (20, 1)) for s in (1, -1)])).value == pytest.approx(
        -1 / 39
    )
    draw = np.random.default_rng(5)
    homes_w = draw.standard_normal((40, 2000))
    assert abs(correlation(homes_w).value) < 0.004
    common = homes_w * np.sqrt(0.9) + draw.standard_normal(2000) * np.sqrt(0.1)
    assert correlation(common).value == pytest.approx(0.1, abs=0.02)


def test_errors_hold() -> None:
    """Stated standard errors are those that repetitions show, for many streets and for one (bootstrap).

    200 repetitions know a standard deviation to 5%; the mean of stated errors is within 20% of it (4 standard
    errors: a false alarm has probability 6e-5), and an error that is off by a half is seen.
    """
    draw = np.random.default_rng(7)
    for size in (10, 100):
        estimates = []
        for _ in range(200):
            homes_w = draw.gamma(2.0, 200.0, 100)[:, None] * np.ones(14)
            estimates.append(estimate(homes_w, size, lambda street_w: street_w.mean(axis=1)))
        seen = np.std([one.value for one in estimates], ddof=1)
        assert np.mean([one.error for one in estimates]) == pytest.approx(seen, rel=0.2)


def test_seasons_by_hand() -> None:
    """A week in January with 3 kW and one in July with 1 kW: 1.5 and 0.5 of the mean."""
    homes_w = np.concatenate([np.full((20, WEEK), 3000.0), np.full((20, WEEK), 1000.0)], axis=1)
    winter, summer = seasons(homes_w, (0, 182))
    assert (winter.value, summer.value) == (1.5, 0.5)
    assert winter.error == summer.error == 0


def test_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row has a figure and its source, or says that none was found; sources of a region have rows."""
    monkeypatch.setattr(feeder, "_OWNERS", 4)
    rows = list(lines(GERMANY, 10, (0, 182)))
    text = table(iter(rows))
    assert text.count("\n") == len(rows) + 1
    assert NOT_SHOWN in text
    assert "Love et al. 2017" in text
    assert all(np.isfinite(row.today.value) for row in rows)
    assert sum(row.plain is not None for row in rows) == 2 * 4 + 4
    names = {name for figures in feeder.PUBLISHED.values() for name, _ in figures}
    assert names <= {*_STATISTICS, "winter", "summer"}
    assert feeder.PUBLISHED.keys() == REGIONS.keys()


@pytest.mark.parametrize("wrong", [[], ["--data", "x", "--region", "DE"]])
def test_one_question_at_a_time(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Traces or a region: one of them."""
    assert main(["compare", *wrong]) == 2
    assert "either --data or --region" in capsys.readouterr().err
