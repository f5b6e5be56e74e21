"""The cost of several releases, from the same data or from disjoint parts of the data.

On the same data, the costs of independent mechanisms add (Pauwels 2016, Proposition 3), and so do the costs
of mechanisms that are chosen after seeing earlier releases (Proposition 4; THEORY 5.2, also for the filter
that stops when the sum would exceed the budget). Epsilons in the same unit add; levels at different radii do
not. Overlapping windows are each charged in full (THEORY 5.3).

On disjoint parts x_1 .. x_m of the data (McSherry 2009, "parallel composition"; Proposition 3 of Pauwels 2016
has the same name but adds costs), the loss of releases is at most

    sum over i of epsilon_i d(x_i, x'_i)  <=  max(epsilon_i) * sum of d(x_i, x'_i).

So the cost is the largest epsilon if the distance is the *sum* over parts, or if neighbours differ in one
part only (one household in a street; an event inside one window). Under d_inf all parts may differ at once: a
lasting difference affects all windows of a meter. So the costs of the windows add, and the ledger adds them.

If a small delta is accepted, many windows together cost less at a given radius than the sum of their costs:
`meteragent.privacy.divergence`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from fractions import Fraction

from meteragent.privacy.exact import Exact, positive


class BudgetExceeded(Exception):
    """The error for a refused charge: `spent` + `epsilon` would exceed `budget`; nothing was recorded."""

    def __init__(self, spent: Fraction, epsilon: Fraction, budget: Fraction) -> None:
        super().__init__(f"{spent} is spent of a budget of {budget}: no room for {epsilon}")
        self.spent = spent
        self.epsilon = epsilon
        self.budget = budget


class Odometer:
    """An odometer, which adds up the epsilons of each key (such as a meter) in each period, exactly.

    Periods last `length_ms` and are aligned to the Unix epoch. `budget` is the largest epsilon that a key may
    spend in a period: `add` refuses a charge that would exceed it; None sets no limit. All accepted releases
    together stay within the budget, even if each mechanism and its epsilon are chosen after seeing all
    earlier releases (Pauwels 2016, Proposition 4). The caller stores and restores charges. Raises ValueError
    if length_ms < 1, or the budget is not positive.
    """

    def __init__(self, length_ms: int, budget: Exact | None = None) -> None:
        if length_ms < 1:
            raise ValueError(f"a period must last at least 1 ms, not {length_ms}")
        self._length_ms = length_ms
        self._budget = None if budget is None else positive("budget", budget)
        self._spent: defaultdict[int, dict[Hashable, Fraction]] = defaultdict(dict)
        self._floor_ms: int | None = None

    def period_ms(self, time_ms: int) -> int:
        """Return the start, in ms, of the period that contains `time_ms`; times before 1970 are negative."""
        return time_ms // self._length_ms * self._length_ms

    def spent(self, key: Hashable, time_ms: int) -> Fraction:
        """Return what `key` spent in the period of `time_ms`. Raises ValueError for a forgotten period."""
        return self._spent.get(self._remembered_ms(time_ms), {}).get(key, Fraction(0))

    def would_exceed(self, key: Hashable, time_ms: int, epsilon: Exact) -> bool:
        """Return whether adding `epsilon` would exceed the budget; reaching the budget is allowed.

        Raises ValueError if epsilon <= 0, or there is a budget and the period has been forgotten.
        """
        charge = positive("epsilon", epsilon)
        return self._budget is not None and self.spent(key, time_ms) + charge > self._budget

    def add(self, key: Hashable, time_ms: int, epsilon: Exact) -> None:
        """Charge `epsilon`; if the charge is refused, record nothing.

        Raises BudgetExceeded if the sum would be above the budget; ValueError if epsilon <= 0, or the period
        has been forgotten; TypeError if epsilon is not exact.
        """
        charge = positive("epsilon", epsilon)
        if self._budget is not None and self.would_exceed(key, time_ms, charge):
            raise BudgetExceeded(self.spent(key, time_ms), charge, self._budget)
        self.restore(key, time_ms, charge)

    def restore(self, key: Hashable, time_ms: int, epsilon: Exact) -> None:
        """Record an earlier charge, even above the budget. Raises ValueError as `add` does."""
        spent = self.spent(key, time_ms) + positive("epsilon", epsilon)
        self._spent[self._remembered_ms(time_ms)][key] = spent

    def forget_before(self, period_start_ms: int) -> None:
        """Drop all periods before the one of `period_start_ms`, which can no longer be read or charged."""
        floor_ms = self.period_ms(period_start_ms)
        if self._floor_ms is None or floor_ms > self._floor_ms:
            self._floor_ms = floor_ms
        for start_ms in [start for start in self._spent if start < floor_ms]:
            del self._spent[start_ms]

    def _remembered_ms(self, time_ms: int) -> int:
        """Return the start of the period of `time_ms`. Raises ValueError if the period has been forgotten."""
        start_ms = self.period_ms(time_ms)
        if self._floor_ms is not None and start_ms < self._floor_ms:
            raise ValueError(f"the period from {start_ms} ms has been forgotten and cannot be charged")
        return start_ms
