"""`python -m simulators paper ITEM`: the numbers of the papers' figures and examples, to the digits known."""

import math
from itertools import pairwise
from pathlib import Path

import pytest
from scipy.integrate import quad

from simulators.__main__ import main
from simulators.papers import ITEMS, pg
from simulators.papers.table import Line, Table

FIGURE_3 = {
    "α in days, ε=0.1 δ=0.05, ε d_h": "149,787",
    "α in days, ε=0.1 δ=0.05, (ε/5) d_1": "149.8",
    "α in days, ε=0.5 δ=0.05, ε d_h": "29,957",
    "α in days, ε=0.5 δ=0.05, (ε/5) d_1": "29.96",
    "α in days, ε=1 δ=0.05, ε d_h": "14,979",
    "α in days, ε=1 δ=0.05, (ε/5) d_1": "14.98",
    "α in days, ε=2 δ=0.05, ε d_h": "7,489",
    "α in days, ε=2 δ=0.05, (ε/5) d_1": "7.49",
    "α in days, ε=1 δ=0.1, ε d_h": "11,513",
    "α in days, ε=1 δ=0.1, (ε/5) d_1": "11.51",
    "truncated geometric, ε=0.1 δ=0.05, ε d_h": "5,000",
    "truncated geometric, ε=0.1 δ=0.05, (ε/5) d_1": "150",
    "truncated geometric, ε=0.5 δ=0.05, ε d_h": "5,000",
    "truncated geometric, ε=0.5 δ=0.05, (ε/5) d_1": "30",
    "truncated geometric, ε=1 δ=0.05, ε d_h": "5,000",
    "truncated geometric, ε=1 δ=0.05, (ε/5) d_1": "15",
    "truncated geometric, ε=2 δ=0.05, ε d_h": "5,000",
    "truncated geometric, ε=2 δ=0.05, (ε/5) d_1": "7",
}
FIGURE_4 = {
    "d_∞ level of the paper's noise, ε=0.1": "3",
    "± of a reading, ε=0.1, per reading": "30.0",
    "± of a reading, ε=0.1, independent": "899",
    "± of a reading, ε=0.1, l_inf": "316",
    "d_∞ level of the paper's noise, ε=0.5": "15",
    "± of a reading, ε=0.5, per reading": "6.0",
    "± of a reading, ε=0.5, independent": "180",
    "± of a reading, ε=0.5, l_inf": "63",
}
NUMBERS: dict[str, dict[str, str]] = {
    "hlm-example-5": {
        "b/diam, ε=0.1 δ=0.1, the paper's": "4.869",
        "b/diam, ε=0.1 δ=0.1, any set": "3.425",
        "b/diam, ε=0.1 δ=0.1, real line": "3.218",
        "b/diam, ε=1 δ=0.1, the paper's": "0.9047",
        "b/diam, ε=1 δ=0.1, any set": "0.8760",
        "b/diam, ε=1 δ=0.1, real line": "0.8260",
        "b/diam, ε=1 δ=0.001, the paper's": "0.9990",
        "b/diam, ε=1 δ=0.001, any set": "0.9986",
        "b/diam, ε=1 δ=0.001, real line": "0.9980",
        "δ needed, ε=1, real line": "0.0513",
        "δ needed, ε=1, two points": "0.0751",
    },
    "hlm-example-6": {"p": "0.102899", "1 - 7p": "0.2797", "δ that is needed": "0"},
    "hlm-example-7": {
        "error of Example 6, δ=0": "0.720292",
        "Theorem 7, δ=0": "0.720292",
        "error of Example 6, δ=0.1": "0.648263",
        "Theorem 7, δ=0.1": "0.648263",
        "symmetric difference: error": "1.2348",
        "symmetric difference: Theorem 7": "0.7203",
        "symmetric difference: Theorem 6": "0.4034",
        "symmetric difference: twice Theorem 6": "0.8068",
        "diameter 1: Theorem 6": "0.13447",
        "diameter 1: twice Theorem 6": "0.26894",
        "diameter 1: Theorem 7 with m = 1": "0.26894",
    },
    "hlm-theorem-7": {
        "error of always answering the centre": "0.5774",
        "published bound, ε=0.01": "0.6644",
        "published bound, ε=0.1": "0.6441",
        "published bound, ε=0.5": "0.5481",
        "least error by linear program, ε=0.5": "0.5465",
        "floor of two points, ε=0.1": "0.475",
        "half of Theorem 7, ε=0.1": "0.322",
    },
    "cabp-figure-1": {
        "H(y1)(z1)": "0.75",
        "H(y3)(z1)": "0.25",
        "sensitivity of f": "1",
        "f is uniformly sensitive (1: yes)": "0",
        "ε of H after f": "0.6931",
        "odds of H between y1 and y3": "3",
    },
    "cabp-figure-2": {
        "(i) R": "0.499996",
        "(ii) R², d_2": "0.15915494",
        "(iii) R², d_1": "0.249996",
        "(iv) 0..5, ends": "0.622459",
        "(iv) 0..5, inside": "0.244919",
        "(iv) 0..5, sum of a row": "1.000000",
        "(iv) inside, with ε^qε": "-0.17",
    },
    "cabp-figure-3": FIGURE_3,
    "cabp-figure-4": FIGURE_4,
    "cabp-example-1": {
        "sensitivity of the earliest date, d_h": "5,000",
        "sensitivity of the earliest date, d_1": "1",
        **FIGURE_3,
    },
    "cabp-example-2": {
        "ε of the descriptor, radius 10 W": "0.1",
        "± of a reading in the descriptor, ε=0.1": "316.5",
        "readings that left, ε=0.1": "1,800",
        "noise / promised, rms, ε=0.1": "1.0",
        "ε of the descriptor, radius 2 W": "0.5",
        "± of a reading in the descriptor, ε=0.5": "63.5",
        "readings that left, ε=0.5": "1,800",
        "noise / promised, rms, ε=0.5": "1.0",
    },
    "cabp-theorem-9": {
        "users A and B, ε=0.5": "0.0000",
        "users A and B, ε=0.55": "0.0000",
        "users A and B, ε=0.6": "0.0114",
        "users A and B, ε=0.69": "0.0362",
        "users A and B, ε=1": "0.0924",
        "users constructed for ε=0.05": "0.0082",
        "the same on a line, ε=0.05": "0.0000",
        "users constructed for ε=0.1": "0.0150",
        "the same on a line, ε=0.1": "0.0000",
        "users constructed for ε=0.2": "0.0209",
        "the same on a line, ε=0.2": "0.0000",
        "users constructed for ε=0.3": "0.0234",
        "the same on a line, ε=0.3": "0.0000",
        "users constructed for ε=0.5": "0.0416",
        "the same on a line, ε=0.5": "0.0000",
    },
    "pg-example-1": {"P(yes | yes)": "0.75", "odds": "3", "ε": "1.0986"},
    "pg-example-2": {"P(the row | it is not in the database)": "0", "P(the row | it is)": "0.2"},
    "pg-proposition-2": {
        "type I + type II ≥, ε=0.1": "0.776",
        "randomised response, ε=0.1": "0.950",
        "type I + type II ≥, ε=0.5": "0.500",
        "randomised response, ε=0.5": "0.755",
        "type I + type II ≥, ε=1": "0.293",
        "randomised response, ε=1": "0.538",
        "type I + type II ≥, ε=2": "0.000",
        "randomised response, ε=2": "0.238",
    },
    "pg-example-3": {
        "ln(10000/0.05)": "12.2061",
        "(Δ/ε) ln(10000/0.05), ε=2": "12.21",
        "the same for whole numbers, ε=2": "13",
        "exact 95% quantile, ε=2": "12",
        "(Δ/ε) ln(10000/0.05), ε=1": "24.41",
        "the same for whole numbers, ε=1": "25",
        "exact 95% quantile, ε=1": "24",
    },
    "pg-example-4": {
        "P(the first) of counts (1, 1)": "0.5",
        "P(the first) of counts (0, 2)": "0.1353",
        "log of the odds": "1.307",
        "log of the odds, the first 20 behind": "1.913",
        "loss of NoisyMax at ε = 1": "1",
        "the same for counts that only rise": "0.5",
    },
    "pg-example-5": {
        "revenue at a price of 1": "3",
        "revenue at a price of 1.01": "1.01",
        "revenue at a price of 3": "3",
        "revenue at a price of 3.01": "0",
        "chance of a price of 1": "0.301",
        "chance of a price of 1.01": "0.216",
        "chance of a price of 3": "0.301",
        "chance of a price of 3.01": "0.183",
    },
    "pg-example-6": {
        "regret, except with probability e^-1": "14.4",
        "P(revenue ≤ 1.01)": "0.399",
        "bound on this probability": "1.000",
    },
}


@pytest.mark.parametrize("item", ITEMS)
def test_the_numbers_of_an_item_are_those_that_are_known(item: str) -> None:
    """Each number that the library computes agrees with the one found by hand, to the digits given."""
    table = ITEMS[item]()
    assert {line.name: line.computed for line in table.lines} == NUMBERS[item]
    assert all(line.agrees for line in table.lines)


def test_a_reader_sees_whose_number_is_whose() -> None:
    """A line shows the computed, the published and the verified number, and a remark on a wrong one."""
    counts = ITEMS["pg-example-3"]().text().splitlines()
    assert counts[1].split() == ["computed", "published", "verified"]
    line = next(line for line in counts if "0.05), ε=1" in line)
    assert line.split("ε=1")[1].split(maxsplit=3) == [
        "24.41",
        "24.42",
        "24.41",
        "the paper doubles the rounded 12.21",
    ]
    assert "published bound is wrong: the value exceeds ε = 1" in ITEMS["pg-example-4"]().text()


@pytest.mark.parametrize(
    ("value", "verified", "agrees"),
    [
        (1.2348, "1.2348", True),
        (1.23485, "1.2348", False),
        (-0.1716, "-0.17", True),
        (14978.7, "14,979", True),
    ],
)
def test_numbers_agree_to_the_digits_given(value: float, verified: str, agrees: bool) -> None:
    """A number is rounded to the decimals of the verified one, half away from zero, and compared."""
    assert Line("x", value, "", verified).agrees is agrees


def test_a_number_that_differs_ends_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is marked in the table; an item that is none is refused with the names of all."""
    wrong = Table("An item", [Line("p", 0.5, "1/2", "0.5"), Line("q", 0.51, "", "0.5", "why")])
    monkeypatch.setitem(ITEMS, "pg-example-1", lambda: wrong._replace(lines=wrong.lines[:1]))
    assert main(["paper", "pg-example-1"]) == 0
    monkeypatch.setitem(
        ITEMS, "pg-example-1", lambda: wrong._replace(lines=[Line("q", 0.56, "", "0.5", "why")])
    )
    assert main(["paper", "pg-example-1", "pg-example-2"]) == 1
    printed = capsys.readouterr().out
    assert "0.6          –       0.5  DIFFERS why" in printed
    assert "PG Example 2" in printed
    with pytest.raises(SystemExit):
        main(["paper", "pg-example-9"])
    assert "pg-example-9 is none of hlm-example-5, " in capsys.readouterr().err


def test_all_tables_are_printed_where_no_item_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """In the order of their names' list, and nothing is written."""
    assert main(["paper"]) == 0
    titles = [part.splitlines()[0] for part in capsys.readouterr().out.strip().split("\n\n")]
    assert titles == [compute().title for compute in ITEMS.values()]


@pytest.mark.parametrize(
    ("item", "files"),
    [
        ("cabp-figure-3", ["fig3.csv", "fig3.png"]),
        ("cabp-example-1", ["fig3.csv", "fig3.png"]),
        ("cabp-figure-4", ["fig4.csv", "fig4.png"]),
        ("cabp-example-2", ["fig4.csv", "fig4.png"]),
        ("pg-example-1", []),
    ],
)
def test_an_item_s_picture_is_drawn_where_the_paper_has_one(
    item: str, files: list[str], tmp_path: Path
) -> None:
    """With its numbers beside it, in the folder that is named."""
    assert main(["paper", item, "--out", str(tmp_path / "new"), "--size", "2"]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == files


@pytest.mark.parametrize("lead", [0, -2, -20, 3])
def test_the_lattice_s_noisy_max_is_the_real_line_s(lead: int) -> None:
    """P(u1 + L1 > u2 + L2) by sums over a lattice is what an integral says, to 1e-5 of it."""

    def below(x: float) -> float:
        return 0.5 * math.exp(x) if x < 0 else 1 - 0.5 * math.exp(-x)

    ends = sorted({-60.0, 0.0, float(-lead), 60.0})
    parts = [quad(lambda x: 0.5 * math.exp(-abs(x)) * below(x + lead), a, b)[0] for a, b in pairwise(ends)]
    assert pg.first_is_largest(lead) == pytest.approx(sum(parts), rel=1e-5)
