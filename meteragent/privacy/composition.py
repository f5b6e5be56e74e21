"""What has been spent: composition on the same data and on disjoint parts of it.

On the same data. Mechanisms that are independent add (Pauwels 2016, Proposition 3), and so do mechanisms that
are chosen after seeing what left before (Proposition 4). Windows w released at epsilon_w together are (sum of
epsilon_w) d-private, also when each epsilon_w was chosen after seeing what was released before (Rogers et al.
2016, 1605.08294: the filter that stops when the sum would exceed the budget; THEORY 5.2). So add the deltas
of pairs (epsilon, delta) and the rho of zCDP (Whitehouse et al. 2023, 2203.05481). Epsilons of one unit add;
levels of different radii do not. Overlapping windows count in full, each (THEORY 5.3): a reading in two of
them has both epsilons.

On disjoint parts (McSherry 2009, "parallel composition"; not in Pauwels 2016, whose Proposition 3 bears that
name and adds). Of releases from disjoint parts x_1 .. x_m of the data the loss is

    sum over i of epsilon_i d(x_i, x'_i)  <=  max(epsilon_i) * sum of d(x_i, x'_i):

the largest epsilon, where the distance is the *sum* over parts, or where neighbours differ in one part only
(one household of a street; an event inside one window), and then so with delta and rho. Under d_inf all
parts may differ at once, so the windows of one meter are in sequence for whatever lasts: that is why the
ledger adds them.

What many windows cost at a radius if a small delta is accepted is less than the sum:
`meteragent.privacy.divergence.Composed`.
"""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction

from meteragent.privacy.exact import Exact, positive, rational


@dataclass(frozen=True, init=False)
class Cost:
    """What releases cost together: a pure or approximate part (epsilon, delta), and a zCDP part rho.

    On the same data costs add, `a + b`; on disjoint parts each component is the larger of both,
    `a | b` (when that holds: see above). All three are exact and of one unit: epsilon per unit of distance,
    or at one radius; rho at one radius. A cost with rho is (epsilon + zcdp_epsilon(rho, delta'), delta +
    delta')-private for any delta' (`meteragent.privacy.divergence`).

    Raises:
        TypeError: a part is not exact.  ValueError: one is negative.
    """

    epsilon: Fraction
    delta: Fraction
    rho: Fraction

    def __init__(self, epsilon: Exact = 0, delta: Exact = 0, rho: Exact = 0) -> None:
        for name, value in (("epsilon", epsilon), ("delta", delta), ("rho", rho)):
            exact = rational(name, value)
            if exact < 0:
                raise ValueError(f"{name} is not negative: {exact}")
            object.__setattr__(self, name, exact)

    @property
    def _parts(self) -> tuple[Fraction, Fraction, Fraction]:
        return self.epsilon, self.delta, self.rho

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(a + b for a, b in zip(self._parts, other._parts, strict=True)))

    def __or__(self, other: "Cost") -> "Cost":
        return Cost(*(max(a, b) for a, b in zip(self._parts, other._parts, strict=True)))

    def __mul__(self, times: int) -> "Cost":
        return Cost(*(part * times for part in self._parts))

    def __le__(self, other: "Cost") -> bool:
        """Whether no part is above the other's: the order is partial."""
        return all(a <= b for a, b in zip(self._parts, other._parts, strict=True))

    def __str__(self) -> str:
        return f"epsilon {self.epsilon}, delta {self.delta}, rho {self.rho}"


class BudgetExceeded(Exception):
    """A charge that is refused: `spent` + `epsilon` would be above `budget`; nothing was recorded.

    Epsilons of an `Odometer`, whole costs of a `Filter`.
    """

    def __init__(self, spent: Fraction | Cost, epsilon: Fraction | Cost, budget: Fraction | Cost) -> None:
        super().__init__(f"{spent} is spent of a budget of {budget}: no room for {epsilon}")
        self.spent = spent
        self.epsilon = epsilon
        self.budget = budget


class Filter:
    """Adds up costs, chosen as one goes, and refuses what would take any part of them above the budget.

    At the end what left is within the budget, also when each mechanism and its cost were chosen after
    seeing all releases before. None only counts: an odometer. In memory and deterministic.
    """

    def __init__(self, budget: Cost | None = None) -> None:
        self.budget = budget
        self._spent = Cost()

    @property
    def spent(self) -> Cost:
        """The sum of what was accepted."""
        return self._spent

    def would_exceed(self, cost: Cost) -> bool:
        """Whether `cost` more would be above the budget; at the budget is not above it."""
        return self.budget is not None and not self._spent + cost <= self.budget

    def add(self, cost: Cost) -> None:
        """Charge `cost`, or refuse and record nothing.

        Raises:
            BudgetExceeded: a part of it would be above the budget.
        """
        if self.budget is not None and self.would_exceed(cost):
            raise BudgetExceeded(self._spent, cost, self.budget)
        self._spent += cost


class Odometer:
    """Adds up epsilon, exactly, per key (a meter) and period; refuses what exceeds the budget.

    Periods have `length_ms` and are aligned to the Unix epoch: time_ms // length_ms * length_ms is
    the start of the one that a time lies in. `budget` is the most epsilon a key may spend in a
    period; None only counts. In memory and deterministic: who keeps it also stores the charges.
    """

    def __init__(self, length_ms: int, budget: Exact | None = None) -> None:
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

    def would_exceed(self, key: Hashable, time_ms: int, epsilon: Exact) -> bool:
        """Whether `epsilon` more would be above the budget; at the budget is not above it.

        Raises:
            ValueError: epsilon <= 0, or the period has been forgotten.  TypeError: it is not exact.
        """
        charge = positive("epsilon", epsilon)
        return self._budget is not None and self.spent(key, time_ms) + charge > self._budget

    def add(self, key: Hashable, time_ms: int, epsilon: Exact) -> None:
        """Charge `epsilon`, or refuse and record nothing.

        Raises:
            BudgetExceeded: it would be above the budget.
            ValueError: epsilon <= 0, or the period has been forgotten.  TypeError: it is not exact.
        """
        charge = positive("epsilon", epsilon)
        if self._budget is not None and self.would_exceed(key, time_ms, charge):
            raise BudgetExceeded(self.spent(key, time_ms), charge, self._budget)
        self.restore(key, time_ms, charge)

    def restore(self, key: Hashable, time_ms: int, epsilon: Exact) -> None:
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
