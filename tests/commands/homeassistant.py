"""A real Home Assistant with the agent: ``python -m tests.commands.homeassistant [VERSION...]``.

Each version is installed from its package, on the Python of a Debian release that is unpacked into a cache
folder; nothing is installed on this machine. Home Assistant, mosquitto and the agent run on loopback ports.
Home Assistant is set up over its own interfaces. `tests.commands.home_assistant` has the checks: devices,
entities, states and units, availability, the retained number, the sums of the energy dashboard, and the
import of `deploy/homeassistant/energy_statistics.py`. The exit code is 0 if all checks pass or Home Assistant
is NOT RUN here, else 1.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.brokers.root import Missing
from tests.commands.home_assistant import checks
from tests.commands.home_assistant.installation import Installation
from tests.commands.home_assistant.server import HomeAssistant
from tests.integration.service import TELL_ALL
from tests.support.broker import Broker, mosquitto_program

RELEASES = {"2024.11.0": "trixie", "2026.11.0": "forky"}
"""The oldest version that the documentation names and a current one; each with a Debian release."""


def attempt(version: str) -> int:
    """Run the checks with one version, and print the results; return the exit code."""
    began_s = time.monotonic()

    def tell(text: str) -> None:
        """Print a result with the version and the time."""
        print(f"{version}, {time.monotonic() - began_s:3.0f} s: {text}", flush=True)

    program = mosquitto_program()
    if program is None:
        print("NOT RUN: mosquitto is neither on the path nor in /usr/sbin", flush=True)
        return 0
    try:
        installation = Installation.make(RELEASES[version], version)
    except Missing as error:
        print(f"NOT RUN: Home Assistant {version}: {error}", flush=True)
        return 0
    tell(f"installed on Python {installation.python}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("broker", "server"):
            (folder / part).mkdir()
        try:
            with (
                Broker(program, folder / "broker", settings=TELL_ALL) as broker,
                HomeAssistant(installation, folder / "server") as server,
            ):
                tell("started")
                asyncio.run(checks.run(broker, server, folder, tell))
        except (AssertionError, OSError, RuntimeError) as error:  # TimeoutError is an OSError
            tell(f"FAILED: {type(error).__name__} {str(error)[:4000]}")
            for log in (folder / "server" / "log", folder / "agent" / "log"):
                print(f"{log.parent.name}: {log.read_text()[-2000:]}" if log.exists() else "", flush=True)
            return 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments, and run the checks with each version; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"of {', '.join(RELEASES)}")
    options = parser.parse_args(arguments)
    if unknown := {*options.versions} - RELEASES.keys():
        parser.error(f"no such version: {', '.join(sorted(unknown))}")
    with ThreadPoolExecutor() as pool:
        codes = list(pool.map(attempt, options.versions or RELEASES))
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
