"""The cost of several releases, from the same data or from disjoint parts of the data.

On the same data. The costs of independent mechanisms add (Pauwels 2016, Proposition 3), and so do the costs
of mechanisms that are chosen after seeing earlier releases (Proposition 4). Windows w released at epsilon_w
are together (sum of epsilon_w) d-private, even if each epsilon_w is chosen after seeing earlier releases
(Rogers et al. 2016, arXiv 1605.08294: the filter that stops when the sum would exceed the budget; THEORY
5.2). The deltas of pairs (epsilon, delta) and the rhos of zCDP add in the same way (Whitehouse et al. 2023,
arXiv 2203.05481). Epsilons in the same unit add; levels at different radii do not. Overlapping windows each
count in full (THEORY 5.3): a reading in two windows costs the sum of the two epsilons.

On disjoint parts (McSherry 2009, "parallel composition"; Proposition 3 of Pauwels 2016 has the same name but
adds costs). The loss of releases from disjoint parts x_1 .. x_m of the data is at most

    sum over i of epsilon_i d(x_i, x'_i)  <=  max(epsilon_i) * sum of d(x_i, x'_i).

So the cost is the largest epsilon if the distance is the *sum* over parts, or if neighbours differ in one
part only (one household in a street; an event inside one window). If neighbours differ in one part only, the
cost also has the largest delta and the largest rho of the parts. Under d_inf all parts may differ at once: a
lasting difference affects all windows of a meter. So the costs of the windows add, and the ledger adds them.

If a small delta is accepted, many windows together cost less at a given radius than the sum of their costs:
`meteragent.privacy.divergence.Composed`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction

from meteragent.privacy.exact import Exact, positive, rational


@dataclass(frozen=True, init=False)
class Cost:
    """The cost of releases: the components epsilon and delta of a pair, and rho of zCDP.

    On the same data, costs add: `a + b`, and `a * k` is the cost of k releases that cost `a` each. On
    disjoint parts, `a | b` takes the larger of the two in each component (the module's docstring gives the
    conditions). All components are exact. Combined costs must be in the same unit: both epsilons per unit of
    distance or both at the same radius, and both rhos at the same radius. Releases whose cost has a rho are
    (epsilon + zcdp_epsilon(rho, delta'), delta + delta')-private for any delta' between 0 and 1
    (`meteragent.privacy.divergence`).

    Raises:
        TypeError: a component is not exact.  ValueError: a component is negative.
    """

    epsilon: Fraction
    delta: Fraction
    rho: Fraction

    def __init__(self, epsilon: Exact = 0, delta: Exact = 0, rho: Exact = 0) -> None:
        for name, value in (("epsilon", epsilon), ("delta", delta), ("rho", rho)):
            exact = rational(name, value)
            if exact < 0:
                raise ValueError(f"{name} must not be negative: {exact}")
            object.__setattr__(self, name, exact)

    @property
    def _parts(self) -> tuple[Fraction, Fraction, Fraction]:
        return self.epsilon, self.delta, self.rho

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(self._parts, other._parts, strict=True)))

    def __or__(self, other: Cost) -> Cost:
        return Cost(*(max(a, b) for a, b in zip(self._parts, other._parts, strict=True)))

    def __mul__(self, times: int) -> Cost:
        return Cost(*(part * times for part in self._parts))

    def __le__(self, other: Cost) -> bool:
        """Return whether each component is at most the same component of `other`; the order is partial."""
        return all(a <= b for a, b in zip(self._parts, other._parts, strict=True))

    def __str__(self) -> str:
        return f"epsilon {self.epsilon}, delta {self.delta}, rho {self.rho}"


class BudgetExceeded(Exception):
    """A charge was refused because `spent` + `epsilon` would exceed `budget`; nothing was recorded.

    An `Odometer` states all three amounts as epsilons, a `Filter` as costs.
    """

    def __init__(self, spent: Fraction | Cost, epsilon: Fraction | Cost, budget: Fraction | Cost) -> None:
        super().__init__(f"{spent} is spent of a budget of {budget}: no room for {epsilon}")
        self.spent = spent
        self.epsilon = epsilon
        self.budget = budget


class Filter:
    """A filter, which adds up adaptively chosen costs and refuses a cost that would exceed the budget.

    A cost is refused if any component of the sum would exceed that of the budget. All accepted releases
    together stay within the budget, even if each mechanism and its cost are chosen after seeing all earlier
    releases. If the budget is None, the filter only adds up costs. It is deterministic and kept in memory
    only.
    """

    def __init__(self, budget: Cost | None = None) -> None:
        self.budget = budget
        self._spent = Cost()

    @property
    def spent(self) -> Cost:
        """The sum of all accepted costs."""
        return self._spent

    def would_exceed(self, cost: Cost) -> bool:
        """Return whether adding `cost` would exceed the budget; reaching it is allowed."""
        return self.budget is not None and not self._spent + cost <= self.budget

    def add(self, cost: Cost) -> None:
        """Charge `cost`; if the cost is refused, record nothing.

        Raises:
            BudgetExceeded: a component of the sum would be above that of the budget.
        """
        if self.budget is not None and self.would_exceed(cost):
            raise BudgetExceeded(self._spent, cost, self.budget)
        self._spent += cost


class Odometer:
    """An odometer, which adds up the epsilons of each key (such as a meter) in each period, exactly.

    Periods last `length_ms` and are aligned to the Unix epoch: a time lies in the period that starts at
    time_ms // length_ms * length_ms. `budget` is the largest epsilon that a key may spend in a period: `add`
    refuses a charge that would exceed it. If the budget is None, the odometer only adds up charges. The
    odometer is deterministic and kept in memory only; the caller stores and restores charges.

    Raises:
        TypeError: the budget is not exact.  ValueError: length_ms < 1, or the budget is not positive.
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
        """Return the epsilon spent by `key` in the period that contains `time_ms`.

        Raises:
            ValueError: the period has been forgotten.
        """
        return self._spent.get(self._remembered_ms(time_ms), {}).get(key, Fraction(0))

    def would_exceed(self, key: Hashable, time_ms: int, epsilon: Exact) -> bool:
        """Return whether adding `epsilon` would exceed the budget; reaching it is allowed.

        Without a budget the result is False, even for a period that has been forgotten.

        Raises:
            ValueError: epsilon <= 0, or there is a budget and the period has been forgotten.
            TypeError: epsilon is not exact.
        """
        charge = positive("epsilon", epsilon)
        return self._budget is not None and self.spent(key, time_ms) + charge > self._budget

    def add(self, key: Hashable, time_ms: int, epsilon: Exact) -> None:
        """Charge `epsilon`; if the charge is refused, record nothing.

        Raises:
            BudgetExceeded: the sum would be above the budget.
            ValueError: epsilon <= 0, or the period has been forgotten.  TypeError: epsilon is not exact.
        """
        charge = positive("epsilon", epsilon)
        if self._budget is not None and self.would_exceed(key, time_ms, charge):
            raise BudgetExceeded(self.spent(key, time_ms), charge, self._budget)
        self.restore(key, time_ms, charge)

    def restore(self, key: Hashable, time_ms: int, epsilon: Exact) -> None:
        """Record an earlier charge, even if it takes the sum above the current budget.

        Raises:
            ValueError: epsilon <= 0, or the period has been forgotten.  TypeError: epsilon is not exact.
        """
        spent = self.spent(key, time_ms) + positive("epsilon", epsilon)
        self._spent[self._remembered_ms(time_ms)][key] = spent

    def forget_before(self, period_start_ms: int) -> None:
        """Drop all periods before the one of `period_start_ms`; they can no longer be read or charged."""
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
