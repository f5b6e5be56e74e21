"""Build and try the Debian package: ``python -m tests.commands.deb [ARCHITECTURE...]``.

The package is built twice in a clean Debian system; both builds must be identical, and lintian must have no
remarks. In a new system of each architecture (by default this machine's and its 32-bit sibling) the package
is installed; its agent is run, killed, restarted and stopped, and the package is removed and purged. The
built package is left in `dist/`. The exit code is 0 if everything works, or if it is NOT RUN here, else 1.
The clean systems are kept in this Python environment.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.brokers.root import Missing
from tests.commands.systems import package
from tests.commands.systems.debian import Failed, must_be_possible, output
from tests.support.not_run import ROOT

SIBLINGS = {"amd64": "i386", "arm64": "armhf"}
"""By 64-bit architecture, the 32-bit one whose programs its processors usually run as well."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the package, and try it on each architecture; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE", help="such as amd64 or i386")
    options = parser.parse_args(arguments)
    began_s = time.monotonic()
    try:
        must_be_possible()
        with tempfile.TemporaryDirectory() as folder:
            built = package.build(Path(folder))
            (ROOT / "dist").mkdir(exist_ok=True)
            copy = Path(shutil.copy(built, ROOT / "dist"))
    except Missing as error:
        print(f"NOT RUN: the Debian package: {error}")
        return 0
    except Failed as error:
        print(f"the package: {error}")
        return 1
    print(f"{copy.relative_to(ROOT)}: {copy.stat().st_size:,} bytes, the same twice, lintian has no remark")
    with ThreadPoolExecutor() as pool:  # trials mostly wait
        codes = list(pool.map(partial(attempt, copy), options.architectures or native()))
    print(f"{time.monotonic() - began_s:.0f} s")
    return max(codes)


def native() -> list[str]:
    """Return this machine's architecture and its 32-bit sibling."""
    architecture = output(["dpkg", "--print-architecture"]).strip()
    return [architecture, *filter(None, [SIBLINGS.get(architecture)])]


def attempt(built: Path, architecture: str) -> int:
    """Try the package on one architecture, and print the result; return the exit code."""
    try:
        print(f"{architecture}: {package.attempt(built, architecture)}", flush=True)
    except Missing as error:
        print(f"NOT RUN: {architecture}: {error}", flush=True)
    except Failed as error:
        print(f"{architecture}: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
