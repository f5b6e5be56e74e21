"""Whether tests find mistakes in the papers' items: ``python -m tests.commands.paper_mutants [ITEM ...]``.

The table beside this file, `paper_mutants.toml`, has a mistake for each item of the papers that states a
constant or an inequality. In a copy of the sources all tests that the table names pass; then each mistake is
made by itself, and its test must fail: by an assertion, or by an exception that the mistake has the library
raise, and not by a name that is missing. Ends with 1 if a mistake survives.
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
FAILED = 1  # pytest's exit code: tests were collected and ran, and some failed
BROKEN = re.compile(
    r"^E +(?:Attribute|Import|ModuleNotFound|Name|Syntax|Type|UnboundLocal)Error\b", re.MULTILINE
)
"""A mutant that is no program fails, too; that says nothing about the test."""


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
    """All mutants, and the items that have none, each with the reason."""

    mutants: tuple[Mutant, ...]
    exempt: dict[str, str]


def table() -> Table:
    """Read the table."""
    content = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return Table(
        tuple(Mutant(item, **fields) for item, fields in content["mutant"].items()), content["exempt"]
    )


class Copy:
    """A copy of the sources in a folder, in which tests run against it."""

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
        """Return the folder that `meteragent` is imported from where the tests run."""
        where = "import meteragent, pathlib; print(pathlib.Path(meteragent.__file__).resolve().parent.parent)"
        return Path(self._python("-c", where).stdout.strip())

    def run(self, tests: Iterable[str], timeout_s: float | None = None) -> subprocess.CompletedProcess[str]:
        """Run tests, which are relative to tests/, up to the first that fails.

        Raises:
            subprocess.TimeoutExpired: they take longer than `timeout_s`.
        """
        options = ["-x", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist"]
        named = (f"tests/{test}" for test in tests)
        return self._python("-m", "pytest", *options, *named, timeout_s=timeout_s)

    def found(self, mutant: Mutant) -> str | None:
        """Return what is wrong with a mutant, or None if its test finds it; the file is restored."""
        path = self.folder / mutant.file
        text, stat = path.read_text(encoding="utf-8"), path.stat()
        try:
            path.write_text(mutant.apply(text), encoding="utf-8")
            # Bytecode is found by a time in whole seconds and a length, so the mutant gets a time of its own.
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
    """Return why a run of a mutant's test does not count as finding it; None if it does."""
    if outcome.returncode == 0:
        return "survived"
    if outcome.returncode != FAILED or " error" in outcome.stdout.splitlines()[-1]:
        return f"its test did not run: {outcome.stdout[-2000:]}{outcome.stderr[-2000:]}"
    if broken := BROKEN.search(outcome.stdout):
        return f"is no mistake but broken code: {broken[0]}"
    return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the arguments, try the mutants, and print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "items", nargs="*", metavar="ITEM", help='such as "HLM Theorem 6"; all if none is named'
    )
    wanted = parser.parse_args(arguments).items
    mutants = [mutant for mutant in table().mutants if not wanted or mutant.item in wanted]
    if unknown := set(wanted) - {mutant.item for mutant in mutants}:
        parser.error(f"no mutant of {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as folder:
        parser.exit(_try_all(Copy(Path(folder).resolve()), mutants))


def _try_all(copy: Copy, mutants: Sequence[Mutant]) -> int:
    """Return 0 if all is as it should be, else 1."""
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
        wrong = copy.found(mutant)
        missed += wrong is not None
        print(f"{mutant.item:<30} {wrong or 'found'} ({time.monotonic() - start_s:.1f} s)", flush=True)
    print(f"{len(mutants)} mutants, of them not found: {missed}")
    return int(missed > 0)


if __name__ == "__main__":
    main()
