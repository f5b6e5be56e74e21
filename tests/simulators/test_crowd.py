"""`python -m simulators crowd`: errors of totals, promised beside measured."""

import json

import pytest

from meteragent.crowd.draw import draw_noise
from simulators.__main__ import main
from simulators.commands import crowd

SMALL = ["crowd", "--slots", "200", "--seed", "1"]
PRINTED = {110: ("44", "4.4", "0.44"), 300: ("120", "12", "1.2"), 6000: ("2400", "240", "24")}
"""The promised deviations as simulators/README.md has them."""
EVERY_HOME = {110: (98, 31, 9.8), 300: (268, 85, 27), 6000: (5367, 1697, 537)}


def test_measured_errors_are_the_promised_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """Nine rows have the digits in print, and one slot of each size passes through the whole protocol."""
    assert main([*SMALL, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    for row in facts["errors"]:
        place = crowd.HOMES.index(row["homes"])
        assert f"{row['promised_w']:.2g}" == f"{float(PRINTED[row['hides_wh']][place]):.2g}"
        assert row["every_home_w"] == pytest.approx(EVERY_HOME[row["hides_wh"]][place], rel=0.01)
        assert row["covered"] > 0.85
    assert len(facts["errors"]) == 9
    assert [cost["homes"] for cost in facts["costs"]] == [10, 100, 1000]


def test_the_table_has_both_parts(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors, then costs."""
    assert main(["crowd", "--slots", "20"]) == 0
    text = capsys.readouterr().out
    assert "noise in every home" in text
    assert "helper" in text


def test_a_missing_draw_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the noise of the helper the deviation is smaller than promised, and the exit code is 1."""
    calls = iter(range(10**6))
    monkeypatch.setattr(
        crowd, "draw_noise", lambda *arguments: draw_noise(*arguments) if next(calls) % 2 else 0
    )
    monkeypatch.setattr(crowd, "costs", lambda _seed: [])
    assert main([*SMALL, "--slots", "1000"]) == 1
    assert capsys.readouterr().out
