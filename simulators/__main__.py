"""`python -m simulators replay …`: simulation runs."""

import argparse
import sys

from simulators import replay


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m simulators", description="Meters without meters.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("replay", help="a trace file as MQTT meters", description=replay.__doc__)
    replay.add_arguments(command)
    command.set_defaults(run=replay.run)
    parsed = parser.parse_args(arguments)
    return int(parsed.run(parsed))


if __name__ == "__main__":
    sys.exit(main())
