"""Attack what leaves: how often the worst attacker is right, raw and private, and what bounds them all.

`programmes`: which of N television programmes was on? `presence`: did an event happen in a half hour of a
home whose load is not known? `check`: do the attackers refute what `meteragent check` says of its events?
`linkage`: which of N homes is it, under another pseudonym? Of every preset, with attackers of its own.

MECHANISM is "linf epsilon=1/40", "independent epsilon=1/40", "per-reading epsilon=1/40", "telegraf scale=10",
"average slots=5", "none", or anybody's "package.module:Name key=value"; ATTACKER is bayes, correlation,
averaging, edges, features, neighbours, or anybody's with `fit` and `predict_proba`.
Exit 3: a promise that was made is broken; 2: something that was named cannot be used.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from simulators import option
from simulators.adversary import hidden, library, linkage, report
from simulators.adversary.attackers import ATTACKERS
from simulators.adversary.measure import measure
from simulators.adversary.mechanism import rival
from simulators.adversary.named import Unusable
from simulators.adversary.scene import Scene

BROKEN, UNUSABLE = 3, 2
_DEFAULT = "linf epsilon=1/40"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `python -m simulators attack` takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("scene", choices=("programmes", "presence", "check", "linkage"), help="what is asked")
    add = parser.add_argument
    add(
        "--mechanism",
        action="append",
        metavar="MECHANISM",
        help=f'beside "none"; may be repeated; default "{_DEFAULT}"',
    )
    add(
        "--preset",
        default="appliance",
        help="of check: television, appliance, street or day; default %(default)s",
    )
    add_scene_arguments(parser)
    add("--json", action="store_true", help="all that was found, as JSON")
    add("--out", type=Path, metavar="FILE", help="write that JSON, beside the table that is printed")


def add_scene_arguments(parser: argparse.ArgumentParser) -> None:
    """What both commands take."""
    add = parser.add_argument
    add(
        "--attack",
        "--attacker",
        action="append",
        dest="attackers",
        metavar="ATTACKER",
        help="may be repeated; default: all of ours",
    )
    add(
        "--size",
        type=option.positive,
        metavar="N",
        help="programmes (default 100) or homes (100; of check 20, of linkage 200)",
    )
    add(
        "--slots",
        type=option.positive,
        default=30,
        help="of a window: of 10 s, or of a half hour; default %(default)s",
    )
    add("--times", type=option.positive, default=1, metavar="M", help="the same window is released M times")
    add(
        "--event",
        default="kettle",
        help="of presence: part of an event's name in `check`; default %(default)s",
    )
    add("--trials", type=option.positive, default=4000, help="default %(default)s, and as many to learn from")
    add("--seed", type=option.seed, default=0, help="all follows from it; 0 is a seed; default %(default)s")
    add("--data", type=Path, metavar="FOLDER", help="real traces: FOLDER/tracebase and FOLDER/homes")


def run(arguments: argparse.Namespace) -> int:
    """Attack as the arguments say, and print a table or JSON."""
    try:
        return _SCENES.get(arguments.scene, _attack)(arguments)
    except Unusable as unusable:
        print(f"attack: {unusable}", file=sys.stderr)
        return UNUSABLE


def scene_of(arguments: argparse.Namespace) -> Scene:
    """The scene that is asked for.

    Raises:
        Unusable: there is none such.
    """
    size = arguments.size or 100
    rest = arguments.slots, arguments.seed, arguments.times, arguments.data
    if arguments.scene == "programmes":
        return library.programmes(size, *rest)
    return library.presence(library.event_named(arguments.event), size, *rest)


def _attack(arguments: argparse.Namespace) -> int:
    scene = scene_of(arguments)
    rivals = [rival(text, scene) for text in ["none", *(arguments.mechanism or [_DEFAULT])]]
    names = arguments.attackers or list(ATTACKERS)
    outcomes = [measure(scene, one, names, arguments.trials, arguments.seed) for one in rivals]
    found = {"question": scene.question, "seed": arguments.seed, "guess": scene.guess}
    _say(
        arguments,
        report.table(scene, outcomes, arguments.seed),
        {**found, "mechanisms": [one.figures() for one in outcomes]},
    )
    return BROKEN if any(outcome.broken for outcome in outcomes) else 0


def _check(arguments: argparse.Namespace) -> int:
    stream, size, seed = hidden.stream_of(arguments.preset), arguments.size or 20, arguments.seed
    if arguments.data is None:
        loads, homes = library.simulated_days(size, hidden.DAYS, seed), f"{size} simulated homes"
    else:
        loads = library.real_days(arguments.data, size, hidden.DAYS)
        homes = f"{size} months of real homes"
    names = arguments.attackers or list(ATTACKERS)
    rows = hidden.confirm(stream, loads, names, arguments.trials, seed)
    _say(
        arguments,
        hidden.table(rows, arguments.preset, homes, arguments.trials, seed),
        {"preset": arguments.preset, "homes": homes, "seed": seed, "events": [asdict(row) for row in rows]},
    )
    return 0 if all(row.confirmed for row in rows) else BROKEN


def _linkage(arguments: argparse.Namespace) -> int:
    rows = linkage.confirm(arguments.size or 200, arguments.seed)
    found = {"seed": arguments.seed, "presets": [asdict(row) for row in rows]}
    _say(arguments, linkage.table(rows, arguments.seed), found)
    return 0


_SCENES: Mapping[str, Callable[[argparse.Namespace], int]] = {"check": _check, "linkage": _linkage}


def _say(arguments: argparse.Namespace, text: str, found: object) -> None:
    """Print one of the two, and write the other where asked."""
    as_json = json.dumps(found, indent=2)
    if arguments.out is not None:
        arguments.out.write_text(as_json + "\n", encoding="utf-8")
    print(as_json if arguments.json else text)
