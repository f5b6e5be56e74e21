"""Run a command of the simulators: `python -m simulators COMMAND …`."""

import argparse
import ast
import sys
from importlib import import_module
from pathlib import Path

from simulators.commands.arguments import DECLARATIONS
from simulators.extras import lacking

COMMANDS = {
    "demo": ("demo", "show the whole chain in a minute: homes, broker, agent, receiver"),
    "generate": ("sim", "simulate homes; write or send their load and their events"),
    "compare": ("sim", "compare simulated homes with real traces, in a table"),
    "crowd": ("crowd", "compare the errors of crowd totals with those promised, and time the protocol"),
    "world": ("sim", "simulate homes, faults, the agent's core and a store in virtual time, with checks"),
    "simtest": ("sim", "run the agent under seeded crashes and faults in virtual time, with checks"),
    "replay": ("sim", "replay a trace file as MQTT meters"),
    "attack": (
        "analysis",
        "measure how often the worst attacker is right, with raw and with private numbers",
    ),
    "frontier": ("analysis", "compare the error and the leakage of mechanisms"),
    "paper": (
        "analysis",
        "print the figures and examples of the three papers, and redraw two of them",
    ),
    "pictures": ("analysis", "draw all pictures of the READMEs, from one seed"),
    "tariff": ("analysis", "reproduce the theory's figures on tariffs; find the cheapest of four"),
    "utility": ("analysis", "compare the errors of private numbers with those promised"),
}
"""For each command: the extra that it needs, and a summary. Its module in `commands` has the same name."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return its exit code, or 1 if a package that it needs is not installed."""
    listed = "\n".join(f"  {name:<9}{text}" for name, (_, text) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m simulators",
        description="Simulated homes, meters, attackers and faults.",
        epilog=f"commands:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND")
    remainder = parser.add_argument("options", nargs=argparse.REMAINDER, metavar="OPTIONS")
    remainder.required = False  # otherwise an error about a missing COMMAND also names OPTIONS
    request = parser.parse_args(arguments)
    name = request.command
    extra, _ = COMMANDS[name]
    command = argparse.ArgumentParser(f"python -m simulators {name}")
    try:
        command.description = _docstring(name)
        DECLARATIONS[name](command)
        options = command.parse_args(request.options)
        module = import_module(f"simulators.commands.{name}")
    except ModuleNotFoundError as error:
        print(f"{name}: {lacking(error, extra)}", file=sys.stderr)
        return 1
    return int(module.run(options))


def _docstring(name: str) -> str | None:
    """Read a module's docstring without importing the packages that the module needs."""
    path = Path(__file__).parent / "commands" / f"{name}.py"
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    sys.exit(main())
