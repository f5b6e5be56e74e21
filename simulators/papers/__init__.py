"""The figures and examples of the three papers in numbers: computed, beside what the papers print.

HLM is Holohan, Leith, Mason 2014; CABP is Chatzikokolakis, Andrés, Bordenabe, Palamidessi 2013; PG is
Pauwels, Gerchinovitz 2016. `ITEMS` maps the name of an item to the function that computes its table.
"""

from collections.abc import Callable

from simulators.papers import cabp, hlm, pg
from simulators.papers.table import Table

ITEMS: dict[str, Callable[[], Table]] = {
    "hlm-example-5": hlm.example_5,
    "hlm-example-6": hlm.example_6,
    "hlm-example-7": hlm.example_7,
    "hlm-theorem-7": hlm.theorem_7,
    "cabp-figure-1": cabp.figure_1,
    "cabp-figure-2": cabp.figure_2,
    "cabp-figure-3": cabp.figure_3,
    "cabp-figure-4": cabp.figure_4,
    "cabp-example-1": cabp.example_1,
    "cabp-example-2": cabp.example_2,
    "cabp-theorem-9": cabp.theorem_9,
    "pg-example-1": pg.example_1,
    "pg-example-2": pg.example_2,
    "pg-proposition-2": pg.proposition_2,
    "pg-example-3": pg.example_3,
    "pg-example-4": pg.example_4,
    "pg-example-5": pg.example_5,
    "pg-example-6": pg.example_6,
}
