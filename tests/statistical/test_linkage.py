"""The tables of linked pseudonyms in SECURITY.md and the attackers' README, worked out again."""

import re
from pathlib import Path

import pytest
from scipy import stats

from simulators.adversary import linkage

ROOT = Path(__file__).parents[2]
ALARM = 1e-6


@pytest.fixture(scope="module")
def rows() -> dict[str, linkage.Row]:
    """What the command finds, by preset."""
    return {row.preset: row for row in linkage.confirm(200, 0)}


def percent(text: str) -> list[float]:
    """Return the rates in a row of a table, without their intervals."""
    return [float(cell) for cell in re.findall(r"\| (\d+\.\d) \(", text)]


def test_the_table_of_the_readme_is_what_is_found(rows: dict[str, linkage.Row]) -> None:
    """Each rate is what the command prints, but for two homes of 600 that other arithmetic may turn."""
    text = (ROOT / "simulators/adversary/README.md").read_text()
    lines = [line for line in text.splitlines() if re.match(r"\| `[a-z-]+` \| \d", line)]
    told = {line.split("`")[1]: line for line in lines}
    found = linkage.table(list(rows.values()), 0).splitlines()[5:]
    assert len(told) == len(found) == len(rows)
    for line in found:
        assert percent(told[line.split("`")[1]]) == pytest.approx(percent(line), abs=0.4)
        assert len(percent(line)) == 5


def test_the_table_of_security_is_its_worst(rows: dict[str, linkage.Row]) -> None:
    """Each preset has the best attacker's rate, as it leaves and without noise."""
    text = (ROOT / "SECURITY.md").read_text().split("## A fresh pseudonym")[1].split("\n## ")[0]
    for preset, row in rows.items():
        (told,) = re.findall(rf"^\| `{preset}`.*$", text, re.MULTILINE)
        worst = [100 * max(right.values()) / row.trials for right in (row.linked, row.raw)]
        assert [float(cell) for cell in told.split("|")[2:4]] == pytest.approx(worst, abs=0.4)


def test_other_homes_are_linked_by_chance(rows: dict[str, linkage.Row]) -> None:
    """Where the homes after the change are others, links are chance's: 18 attacks together fail with 2e-5."""
    for row in rows.values():
        for right in row.control.values():
            assert right <= stats.binom.isf(ALARM, row.trials, 1 / row.homes)


def test_noise_slows_linking_and_does_not_prevent_it(rows: dict[str, linkage.Row]) -> None:
    """The more is hidden the fewer are linked, and at every preset more than by chance (1e-6 each)."""
    rates = [max(rows[preset].linked.values()) for preset in ("television", "appliance", "street")]
    assert rates == sorted(rates, reverse=True)
    for row in rows.values():
        assert max(row.linked.values()) > stats.binom.isf(ALARM, row.trials, 1 / row.homes)
