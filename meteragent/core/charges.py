"""The charges of the windows that a feed opens, collected once per commit."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction

from meteragent.domain import grid
from meteragent.domain.commit import Charge
from meteragent.domain.terms import Terms
from meteragent.privacy.composition import Odometer


@dataclass(frozen=True, slots=True)
class Spending:
    """The odometers that record a stream's charges, and the `own_budget`, which may forbid charges."""

    own_budget: Odometer | None = None
    odometers: tuple[Odometer, ...] = ()

    def spend(self, meter: str, start_ms: int, epsilon: Fraction) -> bool:
        """Record a charge (1/W) at `start_ms` and return True, unless it would exceed `own_budget`."""
        if self.own_budget is not None and self.own_budget.would_exceed(meter, start_ms, epsilon):
            return False
        for odometer in self.odometers:
            # `add` may refuse a charge, but only the own budget may forbid one; all odometers record it.
            odometer.restore(meter, start_ms, epsilon)
        return True


class Charges:
    """The charges since the last commit, by day, terms id (epsilon would be slow to hash) and meter."""

    def __init__(self, spending: Spending) -> None:
        self._spending = spending
        self._windows: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        self._epsilon: dict[str, Fraction] = {}

    def add(self, meter: str, start_ms: int, terms: Terms) -> bool:
        """Charge a window on the UTC day of `start_ms` and return True, unless the budget forbids it."""
        if not self._spending.spend(meter, start_ms, terms.epsilon_per_w):
            return False
        self._epsilon[terms.id] = terms.epsilon_per_w
        windows = self._windows[grid.day_ms(start_ms), terms.id]
        windows[meter] = windows.get(meter, 0) + 1
        return True

    def take_charges(self) -> dict[Charge, Counter[str]]:
        """Return, by charge (day and epsilon), how often each meter was charged since the last call."""
        charges: defaultdict[Charge, Counter[str]] = defaultdict(Counter)
        for (day_ms, terms_id), windows in self._windows.items():
            charges[Charge(day_ms, self._epsilon[terms_id])].update(windows)
        self._windows.clear()
        return dict(charges)
