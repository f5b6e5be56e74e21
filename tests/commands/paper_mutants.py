"""Check that tests find mistakes in the papers' items: ``python -m tests.commands.paper_mutants [ITEM ...]``.

`paper_mutants.toml`, beside this file, lists at least two mistakes for each item of the papers that states
a constant or an inequality. First, all tests that it names must pass in a copy of the sources. Then each
mistake is made separately, and its test must fail by an assertion or by an exception that the library raises;
an undefined name does not count. The exit code is 1 if a mistake survives.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.not_run import ROOT

TABLE = Path(__file__).with_suffix(".toml")
SOURCES = ("meteragent", "simulators", "tests", "pyproject.toml")
LONGEST_S = 120
FAILED = 1  # pytest's exit code when tests ran and some failed
BROKEN = re.compile(
    r"^E +(?:Attribute|Import|ModuleNotFound|Name|Syntax|Type|UnboundLocal)Error\b", re.MULTILINE
)
"""Errors of broken code: a mutant that raises one fails, but shows nothing about its test."""


class Mutant(NamedTuple):
    """A mistake in a file of the repository, and the test that must find it, relative to tests/."""

    item: str
    file: str
    old: str
    new: str
    test: str

    def apply(self, text: str) -> str:
        """Return the text of the file with the mistake.

        Raises:
            ValueError: `old` does not occur exactly once.
        """
        if text.count(self.old) != 1:
            raise ValueError(f"{self.item}: {self.old!r} occurs {text.count(self.old)} times in {self.file}")
        return text.replace(self.old, self.new)


class Table(NamedTuple):
    """All mutants, and the items without a mutant, each with the reason."""

    mutants: tuple[Mutant, ...]
    exempt: dict[str, str]


def table() -> Table:
    """Read the table."""
    content = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return Table(
        tuple(Mutant(item, **fields) for item, listed in content["mutant"].items() for fields in listed),
        content["exempt"],
    )


class Copy:
    """A copy of the sources in a folder, and the tests that run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mutants = 0
        ignored = shutil.ignore_patterns("__pycache__")
        for name in SOURCES:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=ignored)
            else:
                shutil.copy2(source, folder / name)
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            "PYTHONPATH": str(folder),
            "HYPOTHESIS_PROFILE": "mutants",
        }

    def imported(self) -> Path:
        """Return the folder from which the tests import `meteragent`."""
        program = (
            "import meteragent, pathlib; print(pathlib.Path(meteragent.__file__).resolve().parent.parent)"
        )
        return Path(self._python("-c", program).stdout.strip())

    def run(self, tests: Iterable[str], timeout_s: float | None = None) -> subprocess.CompletedProcess[str]:
        """Run tests, given relative to tests/, up to the first failure.

        Raises:
            subprocess.TimeoutExpired: the tests take longer than `timeout_s`.
        """
        options = ["-x", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist"]
        paths = (f"tests/{test}" for test in tests)
        return self._python("-m", "pytest", *options, *paths, timeout_s=timeout_s)

    def fault(self, mutant: Mutant) -> str | None:
        """Return why a mutant is not found, or None if its test finds it; the file is restored."""
        path = self.folder / mutant.file
        text, stat = path.read_text(encoding="utf-8"), path.stat()
        try:
            path.write_text(mutant.apply(text), encoding="utf-8")
            # Cached bytecode is matched by size and time in seconds, so each mutant gets a distinct time.
            self._mutants += 1
            os.utime(path, (stat.st_atime, stat.st_mtime + 2 * self._mutants))
            return verdict(self.run([mutant.test], LONGEST_S))
        except subprocess.TimeoutExpired:
            return f"no end within {LONGEST_S} s"
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    def _python(self, *arguments: str, timeout_s: float | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )


def verdict(outcome: subprocess.CompletedProcess[str]) -> str | None:
    """Return why a run of a mutant's test does not count as finding the mutant; None if it does."""
    if outcome.returncode == 0:
        return "survived"
    if outcome.returncode != FAILED or " error" in outcome.stdout.splitlines()[-1]:
        return f"its test did not run: {outcome.stdout[-2000:]}{outcome.stderr[-2000:]}"
    if broken := BROKEN.search(outcome.stdout):
        return f"is broken code, not a mistake: {broken[0]}"
    return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the arguments, try the mutants, and print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "items", nargs="*", metavar="ITEM", help='such as "HLM Theorem 6"; all if none is named'
    )
    items = parser.parse_args(arguments).items
    mutants = [mutant for mutant in table().mutants if not items or mutant.item in items]
    if unknown := set(items) - {mutant.item for mutant in mutants}:
        parser.error(f"no mutant of {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as folder:
        parser.exit(_try_all(Copy(Path(folder).resolve()), mutants))


def _try_all(copy: Copy, mutants: Sequence[Mutant]) -> int:
    """Print a line for each mutant; return 0 if the tests find all mutants, else 1."""
    if copy.imported() != copy.folder:
        print(f"the tests would run against {copy.imported()}, not the copy in {copy.folder}")
        return 1
    unchanged = copy.run(dict.fromkeys(mutant.test for mutant in mutants))
    if unchanged.returncode:
        print(f"without a mistake the tests do not pass:\n{unchanged.stdout}{unchanged.stderr}")
        return 1
    missed = 0
    for mutant in mutants:
        start_s = time.monotonic()
        fault = copy.fault(mutant)
        missed += fault is not None
        print(f"{mutant.item:<30} {fault or 'found'} ({time.monotonic() - start_s:.1f} s)", flush=True)
    print(f"{len(mutants)} mutants, of them not found: {missed}")
    return int(missed > 0)


if __name__ == "__main__":
    main()
