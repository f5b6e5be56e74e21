"""Compare two files of results: `python -m benchmarks compare BEFORE AFTER`.

Print each row whose ratio left the range between its smallest and its largest ratio before, the slower ones
first, with the change of the median. The exit code is 1 if a row became slower than all its rounds before, in
all rounds: the ranges do not overlap. A row that only one file has is named, but changes no exit code.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

Rows = dict[tuple[str, str], dict[str, Any]]


class Change(NamedTuple):
    """A row's ratio before and after, as factor, and whether the ranges of its rounds are apart."""

    factor: float
    name: str
    is_apart: bool

    @property
    def is_slower(self) -> bool:
        """Whether every round was slower than every round before."""
        return self.is_apart and self.factor < 1


def changes(before: Rows, after: Rows) -> Iterator[Change]:
    """Yield the rows of both files whose median is now outside the range of the rounds before."""
    for key in before.keys() & after.keys():
        (low, high), (new_low, new_high) = before[key]["spread"], after[key]["spread"]
        if not low <= after[key]["ratio"] <= high:
            is_apart = new_high < low or new_low > high
            yield Change(after[key]["ratio"] / before[key]["ratio"], ": ".join(key), is_apart)


def rows_of(path: Path) -> Rows:
    """Return the rows of a file of results, by name and peer."""
    return {(row["name"], row["against"]): row for row in json.loads(path.read_text())}


def main(arguments: list[str]) -> int:
    """Print what changed; return 1 if a row became slower, 2 if the arguments are wrong."""
    if len(arguments) != 2:
        print("usage: python -m benchmarks compare BEFORE AFTER", file=sys.stderr)
        return 2
    before, after = (rows_of(Path(name)) for name in arguments)
    changed_rows = sorted(changes(before, after))
    for change in changed_rows:
        verdict = ("SLOWER" if change.is_slower else "faster") if change.is_apart else "perhaps"
        print(f"{verdict:<8} x {change.factor:<6.3g} {change.name}")
    for sign, keys in (("-", before.keys() - after.keys()), ("+", after.keys() - before.keys())):
        print(*(f"{sign} {': '.join(key)}" for key in sorted(keys)), sep="\n", end="\n" if keys else "")
    return int(any(change.is_slower for change in changed_rows))
