"""Names in the cells of CSV files, which spreadsheets open: no name is a formula."""

import re

_FORMULA = re.compile(r"'*[=+\-@]")


def cell_of(name: str) -> str:
    """Return a name with ' before =, +, - or @ (or such marks), so that no spreadsheet computes it."""
    return f"'{name}" if _FORMULA.match(name) else name


def name_of(cell: str) -> str:
    """Return the name that `cell_of` wrote into a cell."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
