"""What a register in whole steps tells of a change, by an attacker who has the exact trace."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from meteragent.domain import loads
from meteragent.privacy import success_bound
from simulators.__main__ import main
from simulators.adversary import library, register
from simulators.adversary.measure import ALARM, SURE
from simulators.adversary.scene import Floats, Integers

SLOTS = 48 * register.DAYS
TRIALS = 2000


@pytest.fixture(scope="module")
def homes() -> Floats:
    """Four simulated homes for a month, by the minute."""
    return library.simulated_days(4, register.DAYS, seed=0)


@pytest.fixture(scope="module")
def rows(homes: Floats) -> dict[str, register.Row]:
    """What is measured on them, by the step of the register in Wh."""
    return {row.step_wh: row for row in register.confirm(homes, TRIALS, seed=0)}


@pytest.mark.parametrize(("step", "levels", "bound"), [("1", 7.4, 14.13), ("10", 67, 132.3)])
def test_half_of_all_later_slots_differ(
    rows: dict[str, register.Row], step: str, levels: float, bound: float
) -> None:
    """One month at 110 Wh costs about 7.4 levels instead of 1 in steps of 1 Wh, about 67 in steps of 10."""
    row = rows[step]
    assert row.levels == pytest.approx(levels, rel=0.1)
    assert row.slots == pytest.approx((SLOTS - 1) / 2, rel=0.1)
    assert 1 < row.levels <= row.worst_levels <= row.bound == pytest.approx(bound, rel=1e-3)
    assert row.is_confirmed


def test_the_limit_of_one_slot_is_exceeded_by_steps_of_10_wh(rows: dict[str, register.Row]) -> None:
    """Nine of ten guesses are right, where one slot would allow 71; in steps of 1 Wh it changes little."""
    fine, coarse = rows["1"], rows["10"]
    assert (fine.limit, fine.limit_of_month, coarse.limit, coarse.limit_of_month) == (70, 71, 71, 97)
    assert 100 * coarse.low > coarse.limit + 10
    assert coarse.low < coarse.rate < coarse.high
    assert 100 * fine.low < fine.limit
    assert 0 < SURE < ALARM


@pytest.mark.parametrize(("step", "levels"), [(Fraction(1), 7.4), (Fraction(10), 67)])
def test_real_homes_agree(step: Fraction, levels: float, data: Path) -> None:
    """On four months of real homes, too, it is about 7.4 and 67 levels."""
    months = library.real_days(data, 4, register.DAYS)
    energy_wh = months.reshape(4, -1, register.SLOT_MIN).sum(axis=2) / 60
    assert register.Row.of(step, energy_wh, 8, 0).levels == pytest.approx(levels, rel=0.1)


def test_a_change_of_whole_steps_shifts_no_phase() -> None:
    """Whole steps show once; half a step more leaves each later slot a step off, to and fro."""
    used = np.random.default_rng(1).uniform(50, 400, SLOTS)
    whole = register.shift(used, Fraction(10), Fraction(110))
    assert whole.tolist() == [110, *[0] * (SLOTS - 1)]
    half = register.shift(used, Fraction(10), Fraction(115))
    assert half[0] in (110, 120)
    assert set(np.abs(half[1:]).tolist()) == {0, 10}
    assert set(np.cumsum(half).tolist()) == {110, 120}


@pytest.mark.parametrize("count", [1, 40])
def test_the_attacker_is_the_best_one(count: int) -> None:
    """On slots of 10 Wh each it reaches the limit of the lattice pairs, within 4.5 standard errors (7e-6)."""
    terms = register.terms_of(Fraction(10))
    shift: Integers = np.full(count, 110 if count == 1 else 10)
    right = register._right(terms, shift, 4000, seed=3)
    limit = success_bound(terms.mechanism, [Fraction(int(wh)) for wh in shift])
    assert right / 4000 == pytest.approx(limit, abs=4.5 * 0.5 / 4000**0.5)


def test_it_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The table and the JSON have a row for each step; the same seed gives the same figures."""
    arguments = ["attack", "register", "--size", "1", "--trials", "20"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert text.startswith("1 simulated homes, a month of half hours that hide 110 Wh each, 20 trials a row")
    assert [line.split("|")[1].strip() for line in text.splitlines()[4:]] == ["1 Wh", "10 Wh"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["step_wh"] for row in found["registers"]] == ["1", "10"]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found


def test_a_refuted_bound_ends_with_3(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a bound that leaves the later slots out, the measured levels refute it."""
    monkeypatch.setattr(loads, "level_in_all", lambda *_: Fraction(1))
    assert main(["attack", "register", "--size", "1", "--trials", "20"]) == 3
    assert capsys.readouterr().out.count("more than claimed") == 2
