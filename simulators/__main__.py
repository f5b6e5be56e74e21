"""`python -m simulators COMMAND …`: simulation runs."""

import argparse
import sys
from importlib import import_module

from simulators.extras import lacking

COMMANDS = {
    "demo": ("demo", "the whole chain at work in a minute: homes, broker, agent, receiver"),
    "generate": ("sim", "simulated homes to files: their load, and what ran in them"),
    "compare": ("sim", "what is simulated beside real traces: a table"),
    "world": ("sim", "homes, faults, the agent's core and a store in virtual time, to files; all checked"),
    "simtest": ("sim", "the agent under seeded crashes and faults in virtual time; all of it checked"),
    "replay": ("sim", "a trace file as MQTT meters"),
    "attack": ("analysis", "how often the worst of the attackers is right, raw and private"),
    "frontier": ("analysis", "error against leakage, mechanism by mechanism, at equal error"),
    "paper": (
        "analysis",
        "the figures and examples of the three papers: numbers, pictures, who is recognised",
    ),
    "pictures": ("analysis", "all pictures of the READMEs, from one seed"),
    "utility": ("analysis", "how far off private numbers are, promised beside measured"),
}
"""Each is a module of its name, with the extra that installs what it needs, and what it is."""
_FORMER = {"ordeal": "simtest"}
"""Names of the last version, which still work in this one."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns its exit code, 1 if something that it needs is not installed."""
    listed = "\n".join(f"  {name:<9}{text}" for name, (_, text) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m simulators",
        description="Meters without meters.",
        epilog=f"commands:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=[*COMMANDS, *_FORMER], metavar="COMMAND")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="…")
    parsed = parser.parse_args(arguments)
    name = _FORMER.get(parsed.command, parsed.command)
    extra, _ = COMMANDS[name]
    try:
        module = import_module(f"simulators.{name}")
    except ModuleNotFoundError as missing:
        print(f"{name}: {lacking(missing, extra)}", file=sys.stderr)
        return 1
    description = getattr(module, "DESCRIPTION", module.__doc__)
    command = argparse.ArgumentParser(f"python -m simulators {name}", description=description)
    module.add_arguments(command)
    return int(module.run(command.parse_args(parsed.rest)))


if __name__ == "__main__":
    sys.exit(main())
