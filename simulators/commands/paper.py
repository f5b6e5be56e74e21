"""Print the figures and examples of the three papers as numbers; redraw Chatzikokolakis 2013's Figs. 3 and 4.

ITEM selects a table to print: each number as computed now, as printed in the paper, and as verified
independently. Without ITEM and --out, all tables are printed. With --out DIR, the pictures of the items are
written to that folder (`cabp-figure-3`, also `cabp-example-1`; `cabp-figure-4`, also `cabp-example-2`), with
their numbers as CSV.

With --out and no ITEM, both figures are redrawn, and instead of the tables the command prints how often
attackers identify the programme at six epsilons from 0.01 to 1, and writes this as CSV. The captions say what
epsilon means: for a load signature it is the epsilon of one reading, not of the whole signature. The exit
code is 1 if a number differs from the verified one, and 2 if an argument or the folder cannot be used.
"""

import argparse
import csv
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from meteragent.privacy import SeededBits
from simulators.adversary import curve, library
from simulators.adversary.attackers import ATTACKERS
from simulators.adversary.measure import measure
from simulators.adversary.mechanism import rival
from simulators.adversary.named import Unusable
from simulators.adversary.scene import Scene
from simulators.papers import ITEMS
from simulators.papers.examples import registration_dates, smart_meter
from simulators.papers.picture import Alpha, Reading, draw_dates, draw_signature

DIFFERENT, UNUSABLE = 1, 2
DATES_ITEMS = {"cabp-figure-3", "cabp-example-1"}
SIGNATURE_ITEMS = {"cabp-figure-4", "cabp-example-2"}
DELTA = Fraction(1, 20)

SPAN_DAYS, RADIUS_DAYS = 5000, 5
DATE_EPSILONS = (Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2))
DELTAS = tuple(Fraction(k, 100) for k in (1, 2, 5, 10, 20, 30, 50))
DATES_CAPTION = (
    f"Chatzikokolakis 2013, Example 1 and Fig. 3, redrawn. The earliest of dates in {SPAN_DAYS:,} days, with "
    "Laplace noise,\nis within alpha days of the truth with probability 1 - delta. Epsilon is the level"
    f" promised to a user\nwho may have any other date (d_h), or a date up to {RADIUS_DAYS} days off (d_1: "
    f"epsilon/{RADIUS_DAYS} a day): one number, two promises."
)

EPSILONS = tuple(Fraction(text) for text in ("0.01", "0.03", "0.1", "0.3", "0.5", "1"))
SIGNATURE_EPSILONS = (Fraction(1, 10), Fraction(1, 2))
SLOTS = 30
SIGNATURE_CAPTION = (
    f"Chatzikokolakis 2013, Fig. 4, redrawn with a simulated programme: {SLOTS} means over 10 s.\n"
    "Noise of scale 1/epsilon on each reading promises epsilon for one reading that changes alone. Where "
    f"all {SLOTS}\nreadings change, it promises {SLOTS} epsilon d_inf. The two noises next to it promise "
    "epsilon d_inf for the whole signature. Mind the axes."
)
MECHANISMS = ("per-reading", "independent", "linf")


def dates() -> Iterator[Alpha]:
    """Yield the points of Fig. 3: alpha of the earliest date under d_h and d_1, by epsilon and delta."""
    for epsilon, delta in itertools.product(DATE_EPSILONS, DELTAS):
        alphas = registration_dates(epsilon, SPAN_DAYS, RADIUS_DAYS, float(delta))
        for metric, alpha_days in alphas.items():
            yield Alpha(epsilon, metric, float(delta), alpha_days)


def signature(scene: Scene, seed: int) -> Iterator[Reading]:
    """Yield the points of Fig. 4: the first programme of a scene in W, under three noises at two epsilons."""
    true = scene.points[0, 0]
    bits = SeededBits(seed)
    for epsilon in SIGNATURE_EPSILONS:
        for noise, release in smart_meter(true, epsilon, scene.quantum, float(DELTA), bits).items():
            promised = release.reading_epsilon, release.window_epsilon, release.alpha
            for slot, (true_w, private_w) in enumerate(
                zip(true.tolist(), release.values.tolist(), strict=True)
            ):
                yield Reading(epsilon, noise, *promised, slot * library.SLOT_S, true_w, private_w)


def identification(scene: Scene, trials: int, seed: int) -> Iterator[curve.Point]:
    """Yield how often the worst attacker identifies the programme, for each noise and epsilon.

    Raises Unusable if there are fewer trials than programmes.
    """
    for name in MECHANISMS:
        for epsilon in EPSILONS:
            noise = rival(f"{name} epsilon={epsilon}", scene)
            yield curve.Point(name, measure(scene, noise, list(ATTACKERS), trials, seed))


def run(arguments: argparse.Namespace) -> int:
    """Print the items' tables, and draw their pictures if `--out` names a folder; return the exit code."""
    folder, seed = arguments.out, arguments.seed
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        if folder is not None and not arguments.items:
            _write_all(folder, arguments)
            return 0
        items = dict.fromkeys(arguments.items or ITEMS)
        agree = [_print_table(item) for item in items]
        if folder is not None and items.keys() & DATES_ITEMS:
            _write_dates(folder)
        if folder is not None and items.keys() & SIGNATURE_ITEMS:
            _write_signature(folder, library.programmes(arguments.size, SLOTS, seed), seed)
    except (Unusable, OSError) as error:
        print(f"paper: {error}", file=sys.stderr)
        return UNUSABLE
    return 0 if all(agree) else DIFFERENT


def _print_table(item: str) -> bool:
    """Print an item's table; return whether its numbers agree with the verified ones."""
    table = ITEMS[item]()
    print(f"{table.text()}\n", flush=True)
    return table.agrees


def _write_all(folder: Path, arguments: argparse.Namespace) -> None:
    """Attack at all epsilons, print and write the results, and draw both figures."""
    seed = arguments.seed
    scene = library.programmes(arguments.size, SLOTS, seed)
    print(f"{scene.question}; {arguments.trials:,} trials, seed {seed}")
    points = []
    for point in identification(scene, arguments.trials, seed):
        print(_format(point), flush=True)
        points.append(point)
    curve.write(points, folder / "identification.csv", seed)
    print()
    _write_dates(folder)
    print()
    _write_signature(folder, scene, seed)


def _write_dates(folder: Path) -> None:
    """Draw Fig. 3, write its numbers, and print its caption."""
    _write_csv(folder / "fig3.csv", Alpha._fields, alphas := list(dates()))
    draw_dates(alphas, DATES_CAPTION, folder / "fig3.png")
    print(DATES_CAPTION)


def _write_signature(folder: Path, scene: Scene, seed: int) -> None:
    """Draw Fig. 4, write its numbers, and print its caption."""
    _write_csv(folder / "fig4.csv", Reading._fields, readings := list(signature(scene, seed)))
    draw_signature(readings, SIGNATURE_CAPTION, folder / "fig4.png")
    print(SIGNATURE_CAPTION)


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def _format(point: curve.Point) -> str:
    outcome, worst = point.outcome, point.outcome.worst
    return (
        f"{outcome.mechanism:<26} off by {outcome.error_w:8,.1f} W: "
        f"right {100 * worst.rate:5.1f}% of the time "
        f"({100 * worst.low:.1f} to {100 * worst.high:.1f}), {worst.attacker}"
        + ("; the promise is broken" if outcome.is_broken else "")
    )
