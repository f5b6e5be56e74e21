"""What the windows of a step are charged: counted as they open, added up once a commit."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction

from meteragent.domain import grid
from meteragent.domain.commit import Charge
from meteragent.domain.terms import Terms
from meteragent.privacy.composition import Odometer


@dataclass(frozen=True, slots=True)
class Spending:
    """What limits a stream's charges, in 1/W: its own budget, and all that its charges count in.

    A budget is over all streams of a meter, so the streams share `odometers`; `own` is one of them.
    """

    own: Odometer | None = None
    odometers: tuple[Odometer, ...] = ()

    def spend(self, meter: str, start_ms: int, epsilon: Fraction) -> bool:
        """Count a window that is to open, unless the budget forbids it; whether it may."""
        if self.own is not None and self.own.would_exceed(meter, start_ms, epsilon):
            return False
        for odometer in self.odometers:
            odometer.restore(meter, start_ms, epsilon)
        return True


class Charges:
    """The charges since the last commit: windows are counted by their terms' names, fractions are slow."""

    __slots__ = ("_counted", "_epsilon", "_spending")

    def __init__(self, spending: Spending) -> None:
        self._spending = spending
        self._counted: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        self._epsilon: dict[str, Fraction] = {}

    def add(self, meter: str, start_ms: int, terms: Terms) -> bool:
        """Charge a window that is to open, unless the budget forbids it; whether it may."""
        if not self._spending.spend(meter, start_ms, terms.epsilon_per_w):
            return False
        self._epsilon[terms.id] = terms.epsilon_per_w
        self._counted[grid.day(start_ms), terms.id][meter] += 1
        return True

    def take(self) -> dict[Charge, Counter[str]]:
        """What was charged since the last time."""
        charges: defaultdict[Charge, Counter[str]] = defaultdict(Counter)
        for (day_ms, terms_id), windows in self._counted.items():
            charges[Charge(day_ms, self._epsilon[terms_id])].update(windows)
        self._counted.clear()
        return dict(charges)
