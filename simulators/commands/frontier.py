"""Compare error with leakage: the worst attacker and the certificate of each mechanism, at equal error.

MECHANISM is linf, independent, per-reading, telegraf, average, or any "package.module:Name key=value", which
gets `epsilon` if it has such a parameter. Each built-in mechanism that adds noise is set to the same error as
linf at the given level. ATTACKER is the same as in `attack`. The exit code is 2 if a name, an option or data
cannot be used.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from simulators.adversary import curve
from simulators.adversary.attackers import ATTACKERS
from simulators.adversary.named import Unusable
from simulators.adversary.scene import Scene
from simulators.commands.attack import UNUSABLE, scene_of
from simulators.extras import lacking


def run(arguments: argparse.Namespace) -> int:
    """Attack at each level and print a line for each point; then write and draw the points if asked to.

    Return the exit code.
    """
    trials_and_seed = arguments.trials, arguments.seed
    names = arguments.mechanism or list(curve.MECHANISMS)
    attackers = arguments.attackers or list(ATTACKERS)
    points = []
    try:
        scene = scene_of(arguments)
        print(f"{scene.question}; {trials_and_seed[0]:,} trials a point, seed {trials_and_seed[1]}")
        for point in curve.frontier(
            scene, names, attackers, arguments.level, arguments.radius, trials_and_seed
        ):
            print(_format(point), flush=True)
            points.append(point)
        if arguments.out is not None:
            curve.write(points, arguments.out, arguments.seed)
        if arguments.plot is not None:
            _draw(points, scene, arguments.plot)
    except Unusable as unusable:
        print(f"frontier: {unusable}", file=sys.stderr)
        return UNUSABLE
    return 0


def _draw(points: Sequence[curve.Point], scene: Scene, path: Path) -> None:
    """Draw the points as PDF or PNG.

    Raises Unusable if matplotlib is missing, or if `path` ends in neither .pdf nor .png.
    """
    try:
        from simulators.adversary.picture import save  # noqa: PLC0415 (it needs matplotlib)
    except ModuleNotFoundError as error:
        raise Unusable(f"a plot: {lacking(error, 'analysis')}") from None
    save(points, scene, path)


def _format(point: curve.Point) -> str:
    outcome, worst = point.outcome, point.outcome.worst
    bound = "none" if outcome.bound is None else f"{100 * outcome.bound:.1f}%"
    return (
        f"{point.name:<12} off by {outcome.error_w:8,.1f} W: right {100 * worst.rate:5.1f}% of the time "
        f"({100 * worst.low:.1f} to {100 * worst.high:.1f}), {worst.attacker}; certificate {bound}"
        + (", BROKEN" if outcome.is_broken else "")
    )
