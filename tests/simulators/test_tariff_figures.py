"""`python -m simulators tariff`: figures in print, and how often the cheapest of four tariffs is found."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from meteragent import config
from meteragent.consume import compare_tariffs
from meteragent.domain.grid import parse_time
from meteragent.privacy import LInfLaplace
from simulators.__main__ import main
from simulators.commands import tariff
from simulators.tariffs import example_tariffs, tariff_figures
from simulators.traces.trace import TraceError
from tests.support.configurations import written
from tests.support.tariffs import POWER, received

SMALL = ["tariff", "--homes", "3", "--draws", "20"]


def test_every_figure_has_the_digits_in_print() -> None:
    """The closed forms of THEORY 3.8 and 3.9, and ratios within 15%."""
    figures = list(tariff_figures.figures())
    assert [figure.name for figure in figures if not figure.agrees] == []
    assert len(figures) > 25
    ratios = {ratio.name: ratio for ratio in tariff_figures.ratios()}
    assert all(ratio.agrees for ratio in ratios.values())
    assert ratios["flat"].computed == pytest.approx(math.sqrt(1440))
    assert {ratio.printed for ratio in ratios.values()} == {22, 38, None}


def test_a_figure_that_is_off_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error ten per cent off has other digits, and the exit code is 1."""
    assert not tariff_figures.Figure("x", 1.1 * 0.0467, "0.047").agrees
    assert not tariff_figures.Ratio("x", 1.0, 0.032, 38).agrees
    monkeypatch.setattr(tariff_figures, "KETTLE_KWH", 0.121)
    assert main(SMALL) == tariff.DIFFERENT
    assert "NO" in capsys.readouterr().out


def test_it_prints_tables_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Figures, ratios, and a row for each release; real homes are NOT RUN without their traces."""
    assert main(SMALL) == 0
    text = capsys.readouterr().out
    assert "| one total at flat, hiding 110 Wh, EUR | 0.04667 | 0.047 | yes |" in text
    assert "| simulated | five bands | 1 | " in text
    assert "NOT RUN" in text
    assert main([*SMALL, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {result["released"] for result in facts["results"]} == {
        "half hours",
        "five bands",
        "five bands, one noise bound",
    }
    assert all(result["months"] == 60 for result in facts["results"])


def test_traces_that_are_not_there_are_told(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2."""
    assert main([*SMALL, "--data", str(tmp_path)]) == tariff.UNUSABLE
    assert "tariff: " in capsys.readouterr().err


def test_real_homes(data: Path) -> None:
    """Six months of two homes: what each used, and the cheapest tariff nearly always at 110 Wh."""
    try:
        months = list(tariff.real(data))
    except TraceError as error:
        pytest.fail(str(error))
    assert len(months) == 6
    daily_kwh = [float(month.energies_wh.sum()) / 30_000 for month in months]
    assert np.mean(daily_kwh[:3]) == pytest.approx(8.5, rel=0.1)
    assert np.mean(daily_kwh[3:]) == pytest.approx(6.9, rel=0.2)
    [result] = [
        result
        for result in tariff.results("real", months[0], 500, 1)
        if (result.released, result.hidden_wh) == ("five bands", 110)
    ]
    assert result.right > 0.9


def test_the_bands_are_those_of_a_configuration() -> None:
    """Half hours of each band in a week, counted as the product counts its hours."""
    window = "timezone = 'UTC'\nlength = '1w'\nrest = 'night'"
    text = written(privacy="preset = 'tariff'", window=window, source=POWER) + example_tariffs.CONFIGURATION
    terms = config.terms(config.parse(text).stream[0])
    hours = {band.name: band.duration_ms / 1_800_000 for band in terms.places}
    places = np.concatenate([example_tariffs.band_of_slots(weekday) for weekday in range(7)])
    counted = np.bincount(places, minlength=5)
    assert {name: counted[place] for place, name in enumerate(example_tariffs.BANDS)} == hours
    assert all(set(one.prices) == set(example_tariffs.BANDS) for one in example_tariffs.TARIFFS)


def test_the_sureness_is_that_of_the_receiver() -> None:
    """What the simulation computes for many months at once, `compare_tariffs` says of each."""
    known = config.schedule(
        config.parse(
            written(privacy="preset = 'tariff'", window="timezone = 'UTC'\nrest = 'night'", source=POWER)
            + example_tariffs.CONFIGURATION
        ).stream[0]
    )
    june_ms, generator = parse_time("2026-06-01T00:00:00Z"), np.random.default_rng(3)
    released = generator.integers(10_000, 90_000, (20, 5))
    costs = tariff.costs(released.astype(np.float64))
    found = tariff.surenesses(costs, costs.argmin(axis=1), LInfLaplace("1/1000", 1, 1))
    for row, sureness, cost in zip(released.tolist(), found.tolist(), costs, strict=True):
        month = dict(zip(example_tariffs.BANDS, row, strict=True))
        choice = compare_tariffs(received(known, [month], june_ms), example_tariffs.TARIFFS, june_ms)
        assert choice.costs[choice.cheapest].value == pytest.approx(cost.min())
        assert choice.sureness == pytest.approx(sureness, abs=2e-4)
