"""Write the rows of `results.json` as tables into this folder's README.md: `python -m benchmarks.table`.

Each block between `<!-- bench: NAME -->` and `<!-- bench end -->` is generated from the rows: `goals` from
the rows with a goal; `others` from the rows without a goal, with one line per name; `machine` from the
conditions of the run.
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).with_name("README.md")
PICTURE = "![How far each figure is from its goal](results.png)\n\n"
BLOCK = re.compile(r"(<!-- bench: (\w+) -->\n\n).*?(\n<!-- bench end -->)", re.DOTALL)
NONE_YET = "No run has been published yet: run `make bench`.\n"
MACHINE = ("processor", "cores", "kernel", "disk", "fsync", "python", "meteragent", "commit", "day")

Rows = Sequence[dict[str, Any]]


def published_rows() -> list[dict[str, Any]]:
    """Return the rows of the published run."""
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    return rows


def number(value: float) -> str:
    """Format a number with three significant digits. Numbers from 0.0001 to about 10^10 get no exponent.

    >>> number(0.05712), number(1.0), number(12_345)
    ('0.0571', '1', '12,300')
    """
    return f"{float(f'{value:.3g}'):,.10g}"


def meets_goal(row: dict[str, Any]) -> bool:
    """Return whether the median ratio reaches the goal; True if there is no goal."""
    return bool(row["goal"] is None or row["ratio"] >= row["goal"])


def _between(row: dict[str, Any]) -> str:
    low, high = map(number, row["spread"])
    return low if low == high else f"{low} – {high}"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def goals(rows: Rows) -> str:
    """Return the picture, and a table of the rows with a goal."""
    cells = [["what", "against", "ratio", "least – greatest", "goal", "", "in figures"]]
    for row in rows:
        if row["goal"] is not None:
            mark = "met" if meets_goal(row) else "**missed**"
            ratio, goal = number(row["ratio"]), number(row["goal"])
            cells.append([row["name"], row["against"], ratio, _between(row), goal, mark, row["note"]])
    return PICTURE + _markdown(cells)


def others(rows: Rows) -> str:
    """Return a table of the rows without a goal, with one line per name."""
    texts_by_name: dict[str, list[str]] = {}
    for row in rows:
        if row["goal"] is None:
            note = f" ({row['note']})" if row["note"] else ""
            text = f"{row['against']}: **{number(row['ratio'])}** [{_between(row)}]{note}"
            texts_by_name.setdefault(row["name"], []).append(text)
    lines = [[name, "<br>".join(texts)] for name, texts in texts_by_name.items()]
    return _markdown([["what", "against: **ratio** [least – greatest]"], *lines])


def machine(rows: Rows) -> str:
    """Return a paragraph about the rounds, the machine, its load, and the versions of all packages."""
    versions: dict[str, list[str]] = {}
    for row in rows:
        for name, value in row["versions"].items():
            versions.setdefault(name, []).append(value)
    load_before, load_after = (
        float(versions.pop("load before")[0]),
        max(map(float, versions.pop("load after"))),
    )
    texts = {name: " / ".join(sorted(set(values))) for name, values in versions.items()}
    machine_text = [f"{name} {texts.pop(name)}" for name in MACHINE if name in texts]
    packages = [f"{name} {value}" for name, value in texts.items()]
    rounds = max(row["rounds"] for row in rows)
    load = (
        f"load average {load_before:g} before the run, and at most {load_after:g} at the end of a benchmark,"
        " including its own load"
    )
    return (
        f"Median of {rounds} interleaved round{'s' * (rounds != 1)}. {', '.join(machine_text)}; {load}."
        f" {', '.join(packages)}.\n"
    )


BLOCKS: dict[str, Callable[[Rows], str]] = {"goals": goals, "others": others, "machine": machine}


def renew(text: str, rows: Rows) -> str:
    """Return a page with regenerated blocks, or with a note in each block if there are no rows.

    Raises:
        KeyError: there are rows, and the page has a block with an unknown name.
    """
    return BLOCK.sub(lambda match: match[1] + (BLOCKS[match[2]](rows) if rows else NONE_YET) + match[3], text)


def main() -> None:
    """Write the blocks into README.md."""
    PAGE.write_text(renew(PAGE.read_text(), published_rows()))


if __name__ == "__main__":
    main()
