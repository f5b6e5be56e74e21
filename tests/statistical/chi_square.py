"""Chi-square tests of draws against an exact law, and how likely they miss a wrong one.

ALARM is the chance that a right sampler fails one test; seeds are fixed, so a run repeats, and with fewer
than 100 such tests in a file a right sampler fails any with a chance of at most 1e-9. `rejects` first
computes, from the wrong law itself, the chance of a miss (noncentral chi-square), which must be below MISS.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

ALARM = 1e-11
MISS = 1e-6
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def p_value(counts: Floats, probabilities: Floats) -> float:
    """Pearson's chi-square; every cell expects at least 20, so that its law is the limit's."""
    expected = counts.sum() * probabilities
    assert expected.min() >= 20
    return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))


def miss(wrong: Floats, right: Floats, draws: int) -> float:
    """The probability that this number of draws from `wrong` is not distinguished from `right`."""
    noncentrality = draws * ((wrong - right) ** 2 / right).sum()
    df = len(right) - 1
    return float(stats.ncx2.cdf(stats.chi2.isf(ALARM, df), df, noncentrality))


def starts(law: Floats, least: float) -> list[int]:
    """Where cells of neighbours begin that have a probability of `least` or more each."""
    found, mass, left = [0], 0.0, 1.0
    for place, probability in enumerate(law.tolist()):
        if min(mass, left) >= least:
            found.append(place)
            mass = 0.0
        mass, left = mass + probability, left - probability
    return found


def merged(values: Floats, right: Floats, draws: int) -> Floats:
    """Cells of neighbours that expect at least 25 of the draws under the law `right`."""
    return np.asarray(np.add.reduceat(values, starts(right, 25 / draws)))


class Cells:
    """Cells of neighbouring integers 0, 1, 2 .., each of probability 1/`count` or more under a law."""

    def __init__(self, law: Floats, count: int = 40) -> None:
        self.law, self.starts = law, starts(law, 1 / count)

    def sums(self, values: Floats) -> Floats:
        """The sums of `values` (one per integer 0, 1 ..; what is beyond counts in the last cell)."""
        padded = np.zeros(max(len(values), len(self.law)))
        padded[: len(values)] = values
        return np.asarray(np.add.reduceat(padded, self.starts))

    def p_value(self, drawn: Integers) -> float:
        """The chi-square p-value of draws against the law."""
        return p_value(self.sums(np.bincount(drawn).astype(float)), self.sums(self.law))

    def miss(self, wrong: Floats, draws: int) -> float:
        """The chance that `draws` from the law `wrong` pass."""
        return miss(self.sums(wrong), self.sums(self.law), draws)


def rejects(cells: Cells, wrong: Floats, drawn: Integers) -> bool:
    """Whether draws from a wrong sampler are told from the right law, as they must be."""
    assert cells.miss(wrong, len(drawn)) < MISS
    return cells.p_value(drawn) < ALARM
