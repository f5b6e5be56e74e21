"""`meteragent demo`: the demonstration of the simulators, which are another distribution."""

import argparse
import importlib.util
import subprocess
import sys

from meteragent import __version__
from meteragent.cli.common import EXIT_USAGE

_INSTALL = (
    "meteragent: the demonstration needs the simulators: "
    f"pip install 'meteragent-simulators[demo]=={__version__}', "
    "or in a clone: pip install . './simulators[demo]'"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options, which are passed on as they are typed."""
    parser.add_argument("--homes", metavar="N", help="default 100")
    parser.add_argument("--days", metavar="N", help="default 1")
    parser.add_argument("--out", metavar="DIR", help="where the picture and the text go")


def run(options: argparse.Namespace) -> int:
    """Run the demonstration in a process of its own: the agent never imports the simulators.

    Where they or their broker are missing, say what to install and return 2.
    """
    if any(importlib.util.find_spec(module) is None for module in ("simulators", "amqtt")):
        print(_INSTALL, file=sys.stderr)
        return EXIT_USAGE
    chosen = {"--homes": options.homes, "--days": options.days, "--out": options.out}
    typed = [text for flag, value in chosen.items() if value is not None for text in (flag, value)]
    command = [sys.executable, "-m", "simulators", "demo", *typed]
    return subprocess.run(command, check=False).returncode  # noqa: S603  our own module, no shell
