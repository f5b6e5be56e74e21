"""Attack raw and private numbers; print the worst attacker's success rate and the bound on all attackers.

`programmes`: which of N television programmes was on? `presence`: did an event happen in a half hour of a
home whose load is unknown? `check`: do the attackers refute the figures of `meteragent check`?
`register`: does a register in whole steps show that a little more energy was used once? `linkage`: which of N
homes is behind a new pseudonym? The last two have attackers of their own.

MECHANISM is "linf epsilon=1/40", "independent epsilon=1/40", "per-reading epsilon=1/40", "telegraf scale=10",
"average slots=5", "none", or any "package.module:Name key=value"; ATTACKER is bayes, correlation, averaging,
edges, features, neighbours, or any class with `fit` and `predict_proba`. Exit codes: 3 if a promise is
broken or a figure is refuted, 2 if a name, an option or data cannot be used.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict

from simulators.adversary import hidden, library, linkage, register, report
from simulators.adversary.attackers import ATTACKERS
from simulators.adversary.measure import measure
from simulators.adversary.mechanism import rival
from simulators.adversary.named import Unusable
from simulators.adversary.scene import Floats, Scene
from simulators.commands.arguments import DEFAULT_MECHANISM

BROKEN, UNUSABLE = 3, 2


def run(arguments: argparse.Namespace) -> int:
    """Run the attacks that the arguments describe, and print a table or JSON; return the exit code."""
    try:
        return _SCENES.get(arguments.scene, _attack)(arguments)
    except Unusable as unusable:
        print(f"attack: {unusable}", file=sys.stderr)
        return UNUSABLE


def scene_of(arguments: argparse.Namespace) -> Scene:
    """Construct the scene that the arguments name.

    Raises Unusable if the scene cannot be constructed.
    """
    size = arguments.size or 100
    options = arguments.slots, arguments.seed, arguments.times, arguments.data
    if arguments.scene == "programmes":
        return library.programmes(size, *options)
    return library.presence(library.event_named(arguments.event), size, *options)


def _attack(arguments: argparse.Namespace) -> int:
    scene = scene_of(arguments)
    rivals = [rival(text, scene) for text in ["none", *(arguments.mechanism or [DEFAULT_MECHANISM])]]
    # `bayes` needs the output distribution, which a mechanism of another library may not state.
    have_masses = all(hasattr(rival.mechanism, "log_mass") for rival in rivals)
    names = arguments.attackers or [name for name in ATTACKERS if have_masses or name != "bayes"]
    outcomes = [measure(scene, rival, names, arguments.trials, arguments.seed) for rival in rivals]
    figures = {"question": scene.question, "seed": arguments.seed, "guess": scene.guess}
    _report(
        arguments,
        report.table(scene, outcomes, arguments.seed),
        {**figures, "mechanisms": [outcome.figures() for outcome in outcomes]},
    )
    return BROKEN if any(outcome.is_broken for outcome in outcomes) else 0


def _check(arguments: argparse.Namespace) -> int:
    stream, seed = hidden.stream_of(arguments.preset), arguments.seed
    loads, homes = _homes(arguments, hidden.DAYS)
    names = arguments.attackers or list(ATTACKERS)
    rows = hidden.confirm(stream, loads, names, arguments.trials, seed)
    _report(
        arguments,
        hidden.table(rows, arguments.preset, homes, arguments.trials, seed),
        {"preset": arguments.preset, "homes": homes, "seed": seed, "events": [row.figures() for row in rows]},
    )
    return 0 if all(row.is_confirmed for row in rows) else BROKEN


def _register(arguments: argparse.Namespace) -> int:
    loads, homes = _homes(arguments, register.DAYS)
    rows = register.confirm(loads, arguments.trials, arguments.seed)
    _report(
        arguments,
        register.table(rows, homes, arguments.trials, arguments.seed),
        {"homes": homes, "seed": arguments.seed, "registers": [asdict(row) for row in rows]},
    )
    return 0 if all(row.is_confirmed for row in rows) else BROKEN


def _homes(arguments: argparse.Namespace, days: int) -> tuple[Floats, str]:
    """Return the power of homes by the minute in W, (homes, days, 1440), and a description of the homes."""
    size = arguments.size or 20
    if arguments.data is None:
        return library.simulated_days(size, days, arguments.seed), f"{size} simulated homes"
    return library.real_days(arguments.data, size, days), f"{size} months of real homes"


def _linkage(arguments: argparse.Namespace) -> int:
    rows = linkage.confirm(arguments.size or 200, arguments.seed)
    figures = {"seed": arguments.seed, "presets": [asdict(row) for row in rows]}
    _report(arguments, linkage.table(rows, arguments.seed), figures)
    return 0


_SCENES: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "check": _check,
    "register": _register,
    "linkage": _linkage,
}


def _report(arguments: argparse.Namespace, text: str, figures: object) -> None:
    """Print the text or the figures, and write the figures to a file if the arguments name one."""
    as_json = json.dumps(figures, indent=2)
    if arguments.out is not None:
        arguments.out.write_text(as_json + "\n", encoding="utf-8")
    print(as_json if arguments.json else text)
