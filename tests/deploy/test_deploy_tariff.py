"""The example of tariffs: it runs as it is, and its tariffs are those of the simulation."""

from pathlib import Path

import pytest

from meteragent import config
from meteragent.cli import main
from meteragent.config.tariff import band_names
from simulators.tariffs import example_tariffs
from tests.support.not_run import ROOT

TARIFF = ROOT / "deploy" / "tariff.toml"


def test_the_example_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` states the error of each tariff and of each pair, and refuses nothing."""
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(TARIFF)]) == 0
    text = capsys.readouterr().out
    assert "95% within ± 3 kWh" in text
    for tariff in example_tariffs.TARIFFS:
        assert f"\n  tariff {tariff.name} " in text
    assert text.count("distinguishable if they differ by at least") == 6


def test_its_tariffs_are_those_that_are_simulated() -> None:
    """Where the simulation divides the weekend, both of its parts have the price of the example's band."""
    settings = config.load(TARIFF)
    known = {tariff.name: tariff for tariff in config.tariffs_of(settings, settings.stream[0])}
    assert list(known) == [tariff.name for tariff in example_tariffs.TARIFFS]
    for tariff in example_tariffs.TARIFFS:
        example = known[tariff.name]
        assert (example.fee, example.currency) == (tariff.fee, tariff.currency)
        assert {**example.prices, "evening": example.prices["weekend"]} == tariff.prices


def test_a_week_and_other_kinds_of_readings_fit_the_example() -> None:
    """What its comments offer is accepted: weeks, and a device that states power."""
    text = TARIFF.read_text()
    week = config.parse(text.replace('#length = "1w"', 'length = "1w"'))
    assert config.ordinary_month(week.stream[0]).windows == 4
    power = text.replace('kind = "register"', 'kind = "power"').replace('unit = "kWh"', 'unit = "W"')
    assert "unknown" not in band_names(config.parse(power).stream[0])
