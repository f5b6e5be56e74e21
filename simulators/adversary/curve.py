"""The frontier: the success rate of the worst attacker against the error of a slot, for each mechanism.

Mechanisms are compared at equal error, not at equal level, because the errors of two mechanisms of the same
level may differ by any factor. At each level of the l_inf mechanism (epsilon = level / radius), the
mechanisms with independent noise get nearly the same error: their scale is b = sd/sqrt 2, rounded to six
digits. `independent` then promises epsilon = n/b, `per-reading` claims 1/b for the same noise, and `telegraf`
claims nothing. A mean over slots has no level, so every number of slots above 1 that divides the window is
tried. Any other mechanism is given `epsilon`, if it has such a parameter, and appears at its own error. The
certificate follows from the mechanism's promise: if the promise holds, no attacker exceeds the certificate.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from meteragent.privacy import LInfLaplace, sd
from simulators.adversary.measure import Outcome, measure
from simulators.adversary.mechanism import rival
from simulators.adversary.scene import Scene

MECHANISMS = ("linf", "independent", "per-reading", "telegraf", "average")
_DIGITS = 6

COLUMNS = (
    "mechanism",
    "parameters",
    "epsilon_per_w",
    "error_w",
    "worst_attacker",
    "rate",
    "low",
    "high",
    "certificate",
    "odds",
    "broken",
    "trials",
    "seed",
)


@dataclass(frozen=True)
class Point:
    """The outcome of attacks on one mechanism, named as in the arguments, at one error."""

    name: str
    outcome: Outcome

    def row(self, seed: int) -> list[object]:
        """Return the values of `COLUMNS`; a missing value is None."""
        outcome, worst = self.outcome, self.outcome.worst
        return [
            self.name,
            outcome.mechanism,
            outcome.epsilon,
            f"{outcome.error_w:.6g}",
            worst.attacker,
            worst.rate,
            f"{worst.low:.6g}",
            f"{worst.high:.6g}",
            None if outcome.bound is None else f"{outcome.bound:.6g}",
            None if outcome.odds is None else f"{outcome.odds:.6g}",
            outcome.is_broken,
            outcome.trials,
            seed,
        ]


def mechanisms(
    name: str, target_levels: Sequence[Fraction], radius_w: Fraction, scene: Scene
) -> Iterator[tuple[str, Fraction | None]]:
    """Yield, for each level, a mechanism's name with parameters and the epsilon to offer to it.

    `average` has no levels: each number of slots above 1 that divides the window is yielded once, with None.
    """
    if name == "average":
        yield from ((f"average slots={k}", None) for k in range(2, scene.slots + 1) if scene.slots % k == 0)
        return
    for level in target_levels:
        epsilon = level / radius_w
        scale = _exact(sd(LInfLaplace(epsilon, scene.quantum, scene.slots)) / math.sqrt(2))
        parameters = {
            "linf": f"epsilon={epsilon}",
            "independent": f"epsilon={scene.slots / scale}",
            "per-reading": f"epsilon={1 / scale}",
            "telegraf": f"scale={scale}",
        }
        yield f"{name} {parameters.get(name, '')}".strip(), epsilon


def _exact(number: float) -> Fraction:
    return Fraction(f"{number:.{_DIGITS}g}")


def frontier(
    scene: Scene,
    names: Sequence[str],
    attackers: Sequence[str],
    target_levels: Sequence[Fraction],
    radius_w: Fraction,
    trials_and_seed: tuple[int, int],
) -> Iterator[Point]:
    """Attack each mechanism at each level; `trials_and_seed` is the number of trials and the seed.

    Raises Unusable if a mechanism cannot be constructed, and in the same cases as `measure`.
    """
    for name in names:
        for text, epsilon in mechanisms(name, target_levels, radius_w, scene):
            offered = {} if epsilon is None else {"epsilon": epsilon}
            yield Point(name, measure(scene, rival(text, scene, **offered), attackers, *trials_and_seed))


def write(points: Sequence[Point], path: Path, seed: int) -> None:
    """Write the points as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerows(point.row(seed) for point in points)
