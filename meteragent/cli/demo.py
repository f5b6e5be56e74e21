"""The `demo` command: run the demonstration in the simulators, which are a separate package."""

import argparse
import importlib.util
import subprocess
import sys

from meteragent import extras
from meteragent.cli import common, exit_codes


def run(options: argparse.Namespace) -> int:
    """Run the demonstration in a process of its own, because the agent never imports the simulators."""
    if any(importlib.util.find_spec(module) is None for module in ("simulators", "amqtt")):
        hint = extras.hint("demo", extras.SIMULATORS)
        return exit_codes.fail(f"the demonstration needs the simulators: {hint}", exit_codes.EXIT_USAGE)
    if options.crowd and common.report_missing_extra("crowd", "demo --crowd"):
        return exit_codes.EXIT_USAGE
    flags = {"--homes": options.homes, "--days": options.days, "--out": options.out}
    arguments = [text for flag, value in flags.items() if value is not None for text in (flag, value)]
    crowd = ["--crowd"] if options.crowd else []
    command = [sys.executable, "-m", "simulators", "demo", *crowd, *arguments]
    return subprocess.run(command, check=False).returncode  # noqa: S603  our own module, no shell
