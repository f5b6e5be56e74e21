"""Attackers that link pseudonyms (simulators.adversary.linkage): they find what is there, and only that."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from meteragent import config
from simulators.__main__ import main
from simulators.adversary import linkage
from simulators.adversary.hidden import parsed
from simulators.adversary.scene import Floats

ALARM = 1e-6
HOMES, WEEKS, FEATURES = 300, 8, 6


def drawn(between_w: float, seed: int = 0) -> tuple[Floats, Floats]:
    """Return features of homes that differ by so much, before and after; weeks differ by 100 W."""
    rng = np.random.default_rng(seed)
    homes = rng.normal(0, between_w, (HOMES, 1, FEATURES))
    old, new = (homes + rng.normal(0, 100, (HOMES, WEEKS, FEATURES)) for _ in range(2))
    return 400 + old, 400 + new


def test_homes_that_differ_are_linked() -> None:
    """Homes that differ by ten times what weeks do are linked, all but a few, by habits and by matching."""
    said = linkage.attack(*drawn(1000))
    right = np.arange(HOMES)
    assert (said["habits"] == right).mean() > 0.97
    assert (said["matching"] == right).mean() > 0.99
    assert (said["level"] == right).mean() < 0.5


def test_homes_that_are_alike_are_linked_by_chance() -> None:
    """Where homes do not differ no attacker links more than chance: beyond 9 of 300 is rarer than 1e-6."""
    for said in linkage.attack(*drawn(0)).values():
        assert (said == np.arange(HOMES)).sum() <= stats.binom.isf(ALARM, HOMES, 1 / HOMES)


def test_ratios_are_of_likelihoods() -> None:
    """Over pairs of different homes the ratio of likelihoods has the mean 1, as the ratio of two laws has.

    The model is fitted to many homes, so that is true to a tenth; each ratio is that of the true law to 15%.
    """
    rng = np.random.default_rng(3)
    homes = rng.normal(0, 60, (2000, 1, 2))
    old, new = (homes + rng.normal(0, 100, (2000, WEEKS, 2)) for _ in range(2))
    ratios = linkage.log_ratios(old, new)
    others = ~np.eye(2000, dtype=bool)
    assert abs(np.exp(ratios[others]).mean() - 1) < 0.1
    b, w = 60**2, 100**2 / WEEKS
    r = b / (b + w)
    pairs = ((part.mean(axis=1) / (b + w) ** 0.5) for part in (old, new))
    x, y = pairs
    expected = (y[:, None] ** 2 - (y[:, None] - r * x) ** 2 / (1 - r**2) - np.log(1 - r**2)).sum(axis=2) / 2
    assert np.abs(ratios - expected).mean() < 0.15 * np.abs(expected).mean()


@pytest.mark.parametrize(
    ("preset", "shape"),
    [
        ("appliance", (3, 8, 48)),
        ("day", (3, 8, 7)),
        ("bill", (3, 2, 1)),
        ("typical-day", (3, 2, 4)),
    ],
)
def test_features_are_of_weeks_and_months(preset: str, shape: tuple[int, ...]) -> None:
    """Hours of working days and weekends, days of the week, months, bands: alike before and after.

    A home that uses 900 W on Mondays and 7 kW on Sundays at seven has the same features on both sides,
    though the change is on no Monday.
    """
    terms = config.terms(parsed(preset))
    watts = np.zeros((3, 2 * linkage.DAYS, 48))
    watts[:, 0::7] = 900
    watts[:, 6::7, 14:16] = 7000
    old, new = linkage.features(linkage.windows(watts, terms), terms)
    assert old.shape == new.shape == shape
    if preset in ("appliance", "day"):
        assert (old == new).all()
        assert (old == old[0, 0]).all()
    if preset == "appliance":
        assert old[0, 0, 0] == 180
        assert (old[0, 0, 24 + 7], old[0, 0, 24 + 8]) == (3500, 0)
    if preset == "day":
        assert old[0, 0].tolist() == [900, 0, 0, 0, 0, 0, 291.7]
    if preset == "typical-day":
        assert old[0, 0, 1] > old[0, 0, 0] > 0


def test_bands_of_a_tariff_are_the_energy_of_the_month() -> None:
    """Energies in Wh, in the order of the terms: the night of 31 kWh at 100 W is not those of the days."""
    terms = config.terms(linkage.stream_of("tariff"))
    watts = np.full((1, 2 * linkage.DAYS, 48), 100.0)
    watts[:, :, 14:46] = 300.0
    months = linkage.windows(watts, terms)
    assert months.shape == (1, 2 * linkage.MONTHS, 5)
    assert months.sum(axis=2).tolist() == [[30 * (8 * 100 + 16 * 300)] * 4]
    names = [band.name for band in terms.places]
    assert months[0, :, names.index("night")].tolist() == [30 * 8 * 100] * 4
    assert (
        months[0, 0, names.index("weekend")] == 8 * 12 * 300
    )  # a month that begins on a Monday has 8 such days


def habits(homes: int, seed: int, number: int) -> Floats:
    """Return half hours in W of homes with habits, in the place of simulated ones, which take a minute."""
    rng = np.random.default_rng([seed, number])
    usual = rng.gamma(2, 200, (homes, 1, 48))
    return usual * rng.gamma(4, 1 / 4, (homes, 2 * linkage.DAYS, 48))


def test_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It prints a row for each preset, and the same again; JSON has the counts; the control is of chance."""
    monkeypatch.setattr(linkage, "street", habits)
    out = tmp_path / "found.json"
    arguments = ["attack", "linkage", "--size", "12", "--seed", "4", "--out", str(out)]
    assert main(arguments) == 0
    told = capsys.readouterr().out
    rows = [line.split("`")[1] for line in told.splitlines() if line.startswith("| `")]
    assert rows == linkage.ATTACKED
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(out.read_text())
    for row in found["presets"]:
        assert row["trials"] == 36
        for attacker, right in row["control"].items():
            assert attacker in linkage.ATTACKERS
            assert right <= stats.binom.isf(ALARM, 36, 1 / 12)
    assert max(found["presets"][0]["raw"].values()) > 18
