"""Check the proofs of `proofs/` with Coq: ``python -m tests.commands.proofs``.

Every file is compiled below build/proofs. Then Coq prints the axioms that each theorem in the table of
`proofs/README.md` rests on. An axiom that the table does not name is an error. The exit code is 0 if
everything holds, or if it is NOT RUN here, else 1.
"""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.support.not_run import ROOT

SOURCES = ROOT / "proofs"
BUILD = ROOT / "build" / "proofs"
AXIOMS = {
    "D": "sig_forall_dec",
    "N": "sig_not_dec",
    "F": "functional_extensionality_dep",
    "C": "classic",
}
"""The axioms of Coq's real numbers, by their letters in the table."""


class Theorem(NamedTuple):
    """A theorem in the table: the sections of docs/theory.md that it proves, its file, name and axioms."""

    sections: tuple[str, ...]
    file: str
    name: str
    axioms: frozenset[str]


def theorems(readme: str) -> list[Theorem]:
    """Return the theorems in the table of a README: each row has sections, a file, names and axioms."""
    rows = re.findall(r"^\| ([\dAT][^|]*) \| `(\w+\.v)` \| ([^|]*) \| ([^|]*) \|$", readme, re.MULTILINE)
    return [
        Theorem(
            tuple(sections.split(", ")),
            file,
            name,
            frozenset(AXIOMS[letter] for letter in re.findall("[A-Z]", axioms)),
        )
        for sections, file, names, axioms in rows
        for name in re.findall(r"`(\w+)`", names)
    ]


def coq(*command: str) -> str:
    """Run a program of Coq in the build folder and return what it prints; its errors go to the terminal."""
    return subprocess.run(command, check=True, cwd=BUILD, stdout=subprocess.PIPE, text=True).stdout


def axioms(printed: str) -> list[frozenset[str]]:
    """Return the axioms of each theorem, without their modules, from what `Print Assumptions` printed."""
    parts = re.split(r"^(?:Axioms:|Closed under the global context)$", printed, flags=re.MULTILINE)[1:]
    return [frozenset(re.findall(r"^(?:\w+\.)*(\w+)\s*(?=:|\n\s+:)", part, re.MULTILINE)) for part in parts]


def compile_all() -> None:
    """Compile all files in the order in which they need each other."""
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    names = [Path(shutil.copy(path, BUILD)).name for path in sorted(SOURCES.glob("*.v"))]
    for name in coq("coqdep", "-Q", ".", "Proofs", "-sort", *names).split():
        coq("coqc", "-q", "-Q", ".", "Proofs", name)


def print_assumptions(table: list[Theorem]) -> str:
    """Return what `Print Assumptions` prints of each theorem, in the order of the table."""
    lines = [f"Require Proofs.{Path(row.file).stem}." for row in table]
    lines += [f"Print Assumptions Proofs.{Path(row.file).stem}.{row.name}." for row in table]
    (BUILD / "Assumptions.v").write_text("\n".join(lines) + "\n")
    return coq("coqc", "-q", "-Q", ".", "Proofs", "Assumptions.v")


def main() -> int:
    """Compile the proofs, compare their axioms with the table and return the exit code."""
    if not (shutil.which("coqc") and shutil.which("coqdep")):
        print("NOT RUN: the proofs: coqc is missing (Debian: apt-get install --no-install-recommends coq)")
        return 0
    began_s = time.monotonic()
    table = theorems((SOURCES / "README.md").read_text())
    try:
        compile_all()
        printed = axioms(print_assumptions(table))
    except subprocess.CalledProcessError as error:
        print(f"the proofs: {error}")
        return 1
    is_right = len(printed) == len(table)
    for row, names in zip(table, printed, strict=False):
        print(f"{', '.join(row.sections)}  {row.name}: {', '.join(sorted(names)) or 'no axioms'}")
        if names - row.axioms:
            print(f"  not in the table of proofs/README.md: {', '.join(sorted(names - row.axioms))}")
            is_right = False
        elif row.axioms - names:
            print(f"  in the table, but not needed: {', '.join(sorted(row.axioms - names))}")
    version, seconds = coq("coqc", "--print-version").split()[0], time.monotonic() - began_s
    print(f"{len(printed)} theorems, Coq {version}, {seconds:.0f} s")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
