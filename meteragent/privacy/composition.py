"""What has been spent: sequential composition of pure metric privacy (THEORY 5.2).

Windows w released at epsilon_w together are (sum of epsilon_w) d-private, also when each epsilon_w was
chosen after seeing what was released before (Rogers et al. 2016, 1605.08294: the filter that stops
when the sum would exceed the budget). Epsilons of one unit add; levels of different radii do not.
"""

from collections import defaultdict
from collections.abc import Hashable
from fractions import Fraction

from meteragent.privacy.exact import positive


class BudgetExceeded(Exception):
    """A charge that is refused: `spent` + `epsilon` would be above `budget`; nothing was recorded."""

    def __init__(self, spent: Fraction, epsilon: Fraction, budget: Fraction) -> None:
        super().__init__(f"{spent} is spent of a budget of {budget}: no room for {epsilon}")
        self.spent = spent
        self.epsilon = epsilon
        self.budget = budget


class Odometer:
    """Adds up epsilon, exactly, per key (a meter) and period; refuses what exceeds the budget.

    Periods have `length_ms` and are aligned to the Unix epoch: time_ms // length_ms * length_ms is
    the start of the one that a time lies in. `budget` is the most epsilon a key may spend in a
    period; None only counts. In memory and deterministic: who keeps it also stores the charges.
    """

    def __init__(self, length_ms: int, budget: Fraction | None = None) -> None:
        if length_ms < 1:
            raise ValueError(f"a period lasts at least 1 ms, not {length_ms}")
        self._length_ms = length_ms
        self._budget = None if budget is None else positive("budget", budget)
        self._spent: defaultdict[int, dict[Hashable, Fraction]] = defaultdict(dict)
        self._floor_ms: int | None = None

    def period_ms(self, time_ms: int) -> int:
        """The start of the period that `time_ms` lies in; times before 1970 are negative."""
        return time_ms // self._length_ms * self._length_ms

    def spent(self, key: Hashable, time_ms: int) -> Fraction:
        """The epsilon spent by `key` in the period of `time_ms`.

        Raises:
            ValueError: the period has been forgotten.
        """
        return self._spent.get(self._remembered_ms(time_ms), {}).get(key, Fraction(0))

    def would_exceed(self, key: Hashable, time_ms: int, epsilon: Fraction) -> bool:
        """Whether `epsilon` more would be above the budget; at the budget is not above it."""
        return self._budget is not None and self.spent(key, time_ms) + epsilon > self._budget

    def add(self, key: Hashable, time_ms: int, epsilon: Fraction) -> None:
        """Charge `epsilon`, or refuse and record nothing.

        Raises:
            BudgetExceeded: it would be above the budget.
            ValueError: epsilon <= 0, or the period has been forgotten.  TypeError: it is not exact.
        """
        charge = positive("epsilon", epsilon)
        if self._budget is not None and self.would_exceed(key, time_ms, charge):
            raise BudgetExceeded(self.spent(key, time_ms), charge, self._budget)
        self.restore(key, time_ms, charge)

    def restore(self, key: Hashable, time_ms: int, epsilon: Fraction) -> None:
        """Record what was spent before, as it was: also where it is above the present budget."""
        spent = self.spent(key, time_ms) + positive("epsilon", epsilon)
        self._spent[self._remembered_ms(time_ms)][key] = spent

    def forget_before(self, period_start_ms: int) -> None:
        """Drop the periods before the one of `period_start_ms`: for good, they can be charged no more."""
        floor_ms = self.period_ms(period_start_ms)
        if self._floor_ms is None or floor_ms > self._floor_ms:
            self._floor_ms = floor_ms
        for start_ms in [start for start in self._spent if start < floor_ms]:
            del self._spent[start_ms]

    def _remembered_ms(self, time_ms: int) -> int:
        start_ms = self.period_ms(time_ms)
        if self._floor_ms is not None and start_ms < self._floor_ms:
            raise ValueError(f"the period from {start_ms} ms has been forgotten and cannot be charged")
        return start_ms
