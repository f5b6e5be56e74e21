"""Error against leakage: the worst of the attackers on each mechanism, at equal error, with the certificate.

MECHANISM is linf, independent, per-reading, telegraf, average, or anybody's "package.module:Name key=value",
which is given `epsilon`. Each of ours that adds noise has the error of linf at that level. ATTACKER as in
`attack`.
Exit 2: something that was named cannot be used.
"""

import argparse
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from simulators.adversary import curve
from simulators.adversary.attackers import ATTACKERS
from simulators.adversary.named import Unusable
from simulators.adversary.scene import Scene
from simulators.attack import UNUSABLE, add_scene_arguments, scene_of
from simulators.extras import lacking


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `python -m simulators frontier` takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--scene", choices=("programmes", "presence"), default="programmes", help="default %(default)s")
    add("--mechanism", action="append", metavar="MECHANISM", help="may be repeated; default: all of ours")
    add("--level", type=_levels, default="0.3:30:7", metavar="LO:HI:K", help="of linf; default %(default)s")
    add(
        "--radius",
        type=_radius,
        default="40",
        metavar="W",
        help="epsilon = level / radius; default %(default)s",
    )
    add_scene_arguments(parser)
    add("--out", type=Path, metavar="F.csv", help="write all points as CSV")
    add("--plot", type=Path, metavar="F.pdf", help="draw them, as PDF or PNG")


def run(arguments: argparse.Namespace) -> int:
    """Attack at each level, print a line for each point, write and draw."""
    drawn = arguments.trials, arguments.seed
    names = arguments.mechanism or list(curve.MECHANISMS)
    attackers = arguments.attackers or list(ATTACKERS)
    points = []
    try:
        scene = scene_of(arguments)
        print(f"{scene.question}; {drawn[0]:,} trials a point, seed {drawn[1]}")
        for point in curve.frontier(scene, names, attackers, arguments.level, arguments.radius, drawn):
            print(_line(point), flush=True)
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
    """Draw the points as PDF or PNG, the same bytes for the same points; raise Unusable if that cannot be."""
    try:
        from simulators.adversary.picture import save  # noqa: PLC0415 (it needs matplotlib)
    except ModuleNotFoundError as missing:
        raise Unusable(f"a plot: {lacking(missing, 'analysis')}") from None
    save(points, scene, path)


def _line(point: curve.Point) -> str:
    found, worst = point.outcome, point.outcome.worst
    bound = "none" if found.bound is None else f"{100 * found.bound:.1f}"
    return (
        f"{point.name:<12} off by {found.error_w:8,.1f} W: right in {100 * worst.rate:5.1f} "
        f"({100 * worst.low:.1f} to {100 * worst.high:.1f}) of 100, {worst.attacker}; certificate {bound}"
        + (", BROKEN" if found.broken else "")
    )


def _levels(text: str) -> list[Fraction]:
    try:
        return curve.levels(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _radius(text: str) -> Fraction:
    try:
        radius = Fraction(text)
    except (ValueError, ZeroDivisionError):
        radius = Fraction(0)
    if radius <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of watts above 0")
    return radius
