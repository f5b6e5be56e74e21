"""The dither in the store as it is written and in what leaves, and mistakes that must be found.

A right program fails one of the p values with a chance of 4e-7 at most; a mistake is found at once, or with a
p far below ALARM: most are 0 to the last digit of a double.
"""

import pytest

from tests.statistical.dither_checks import ALARM, CHECKS
from tests.statistical.dither_mutants import MUTANTS, Mutant

METERS = 8_000
FEWER = 2_000
"""So many are enough to find a mistake."""


@pytest.mark.parametrize("check", CHECKS)
def test_what_is_right_passes(check: str) -> None:
    """The store tells nothing beside noise and dither, and what leaves is the mixture, of the right mean."""
    found = CHECKS[check](METERS)
    assert not {name: p for name, p in found.items() if p < ALARM}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mistake_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mistake about the dither fails the check that is there for it."""
    mutant.patch(monkeypatch)
    found = CHECKS[mutant.check](FEWER)
    failed = [name for name, p in found.items() if p < ALARM]
    assert any(name.startswith(mutant.finds) for name in failed), found
