"""Boot systems and try the services in them: ``python -m tests.commands.boot [PART...]``.

Debian systems boot with systemd as their first process, in name spaces of this machine. In them the agent is
installed with the commands that docs/install.md prints, and runs as a service while it is killed, stopped
by a signal, misconfigured and updated. So are a fleet, the Debian package, one user and podman, and agent,
collector and both operators of a group together. The exit code is 0 if all of it holds, or if it is NOT RUN
here, else 1. The system from which all others are copied is kept in this Python environment.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.brokers.root import Missing
from tests.commands.systems import (
    booted,
    debian,
    fleets,
    package,
    quadlet,
    services,
    together,
    upgrades,
    users,
)
from tests.commands.systems.debian import Failed

Attempt = Callable[[booted.Booted, Path], str]
PARTS: Final[Mapping[str, Attempt]] = {
    "unit": services.unit,
    "package": upgrades.attempt,
    "fleet": fleets.attempt,
    "user": users.attempt,
    "podman": quadlet.attempt,
    "together": together.attempt,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the system, and try each part in a copy of its own; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", choices=[*PARTS, []], help=f"one of {', '.join(PARTS)}"
    )
    options = parser.parse_args(arguments)
    began_s = time.monotonic()
    try:
        debian.must_be_possible()
        base = booted.base()
        print(f"the system: {time.monotonic() - began_s:.0f} s", flush=True)
        with tempfile.TemporaryDirectory(dir=package.CACHE) as folder:
            sdist = package.source(Path(folder))
            names = options.parts or [*PARTS]
            with ThreadPoolExecutor(len(names)) as pool:  # parts mostly wait
                code = max(pool.map(lambda name: part(name, base, sdist), names))
    except Missing as error:
        print(f"NOT RUN: booted systems: {error}")
        return 0
    print(f"{time.monotonic() - began_s:.0f} s")
    return code


def part(name: str, base: Path, sdist: Path) -> int:
    """Try a part in a system of its own, and print what it returns or why it failed; return the exit code."""
    began_s = time.monotonic()
    root = sdist.parent / name
    try:
        debian.copy(base, root)
        with booted.Booted(root) as place:
            text = PARTS[name](place, sdist)
        print(f"{name}: {text} ({time.monotonic() - began_s:.0f} s)", flush=True)
    except Failed as error:
        print(f"{name}: FAILED: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # no system must be left
    sys.exit(main())
