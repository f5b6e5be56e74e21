"""Tables of numbers, each as computed now, as published in the paper, and as verified independently."""

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple, SupportsFloat

_HEADINGS = ("", "computed", "published", "verified", "")


class Line(NamedTuple):
    """One number of an item.

    `value` is computed when the table is created. `printed` is the paper's own number or formula, or empty
    if the paper has none. `verified` is the number as checked by hand or by another program; `value` is shown
    with the same number of decimals. `remark` is an optional comment.
    """

    name: str
    value: SupportsFloat
    printed: str
    verified: str
    remark: str = ""

    @property
    def computed(self) -> str:
        """The value, rounded to the decimals of the verified number, with thousands separators."""
        decimals = len(self.verified.partition(".")[2])
        rounded = Decimal(repr(float(self.value))).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
        return f"{rounded:,}"

    @property
    def agrees(self) -> bool:
        """Whether the value equals the verified number after rounding to the same decimals."""
        return self.computed == self.verified


class Table(NamedTuple):
    """An item of a paper: its title, its numbers, and a note."""

    title: str
    lines: Sequence[Line]
    note: str = ""

    @property
    def agrees(self) -> bool:
        """Whether every computed number, rounded as shown, equals its verified number."""
        return all(line.agrees for line in self.lines)

    def text(self) -> str:
        """Format the table as text with aligned columns; mark numbers that differ from the verified ones."""
        cells = [_HEADINGS, *(_cells(line) for line in self.lines)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rows = []
        for name, computed, printed, verified, remark in cells:
            numbers = [computed.rjust(widths[1]), printed.rjust(widths[2]), verified.rjust(widths[3])]
            rows.append("  ".join([name.ljust(widths[0]), *numbers, remark]).rstrip())
        return "\n".join([self.title, *rows, *([self.note] if self.note else [])])


def _cells(line: Line) -> tuple[str, str, str, str, str]:
    mark = "" if line.agrees else "DIFFERS "
    return line.name, line.computed, line.printed or "–", line.verified, (mark + line.remark).rstrip()
