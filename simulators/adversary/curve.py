"""The frontier: how often the worst attacker is right against what a slot is off by, a mechanism a line.

Never against the level alone: two mechanisms of one level may differ in error by any factor. So at each
level of the l_inf mechanism (epsilon = level / radius) the independent noises have its error: scale
b = sd/sqrt 2. `independent` then promises epsilon = n/b, `per-reading` says 1/b of the same noise, `telegraf`
nothing. A mean over slots has no level: all that divide the window are tried. Anybody's mechanism is given
`epsilon`, and stands where its error puts it.

The certificate is drawn where the mechanism's own promise puts it: if that is kept, no attacker is above it.
"""

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
    """One mechanism, by the name it was asked for, at one error."""

    name: str
    outcome: Outcome

    def row(self, seed: int) -> list[object]:
        """As `COLUMNS`; what there is none of is empty."""
        found, worst = self.outcome, self.outcome.worst
        return [
            self.name,
            found.mechanism,
            found.epsilon,
            f"{found.error_w:.6g}",
            worst.attacker,
            worst.rate,
            f"{worst.low:.6g}",
            f"{worst.high:.6g}",
            None if found.bound is None else f"{found.bound:.6g}",
            None if found.odds is None else f"{found.odds:.6g}",
            found.broken,
            found.trials,
            seed,
        ]


def levels(text: str) -> list[Fraction]:
    """lo:hi:k, k levels from lo to hi, each so many times the one before, of three digits.

    Raises:
        ValueError: it is not that.
    """
    try:
        low, high, count = text.split(":")
        lowest, highest, k = float(low), float(high), int(count)
    except ValueError:
        raise ValueError(f"levels are lo:hi:k, such as 0.1:10:5, not {text}") from None
    if not (0 < lowest <= highest < math.inf and k >= 1 and (k > 1 or lowest == highest)):
        raise ValueError(f"levels are lo:hi:k with 0 < lo < hi and k > 1, not {text}")
    ratio = (highest / lowest) ** (1 / max(k - 1, 1))
    return [Fraction(f"{lowest * ratio**i:.3g}") for i in range(k)]


def mechanisms(
    name: str, asked: Sequence[Fraction], radius_w: Fraction, scene: Scene
) -> Iterator[tuple[str, Fraction | None]]:
    """A mechanism with its parameters, for each level, and the epsilon that is offered to anybody's."""
    if name == "average":
        yield from ((f"average slots={k}", None) for k in range(2, scene.slots + 1) if scene.slots % k == 0)
        return
    for level in asked:
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
    asked: Sequence[Fraction],
    radius_w: Fraction,
    drawn: tuple[int, int],
) -> Iterator[Point]:
    """Attack each mechanism at each level; `drawn` is how many trials, and the seed.

    Raises:
        Unusable: a mechanism or an attacker cannot be made.
    """
    for name in names:
        for text, epsilon in mechanisms(name, asked, radius_w, scene):
            offered = {} if epsilon is None else {"epsilon": epsilon}
            yield Point(name, measure(scene, rival(text, scene, **offered), attackers, *drawn))


def write(points: Sequence[Point], path: Path, seed: int) -> None:
    """The points as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerows(point.row(seed) for point in points)
