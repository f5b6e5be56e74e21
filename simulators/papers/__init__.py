"""The figures, examples and theorems of the three papers: tables of computed, published and verified numbers.

HLM is Holohan, Leith, Mason 2014; CABP is Chatzikokolakis, Andrés, Bordenabe, Palamidessi 2013; PG is
Pauwels, Gerchinovitz 2016. `ITEMS` maps the name of an item to the function that computes its table.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulators.papers.table import Table


def _compute(module: str, function: str) -> "Table":
    """Compute an item; its module, which may need scipy, is imported only here."""
    compute: Callable[[], Table] = getattr(import_module(f"simulators.papers.{module}"), function)
    return compute()


_FUNCTIONS = {
    "hlm": "example_5 example_6 example_7 theorem_7",
    "cabp": "figure_1 figure_2 figure_3 figure_4 example_1 example_2 theorem_9",
    "pg": "example_1 example_2 proposition_2 example_3 example_4 example_5 example_6",
}
ITEMS: dict[str, Callable[[], "Table"]] = {
    f"{module}-{function.replace('_', '-')}": partial(_compute, module, function)
    for module, functions in _FUNCTIONS.items()
    for function in functions.split()
}
