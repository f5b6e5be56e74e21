"""Figures of speed and size: what the pages say of them a program of this repository prints.

Tables between marks are made of the published run, `benchmarks/results.json`. A figure anywhere else stands
in a section that names the program by which it was measured.
"""

import re
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from benchmarks import table
from tests.support.generated import assert_renewed

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "deploy", "meteragent", "simulators", "tests")
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in chain(ROOT.glob("*.md"), *((ROOT / folder).rglob("*.md") for folder in FOLDERS))
    if path.name != "CHANGELOG.md"  # what was is no claim about what is
)
FIGURE = re.compile(
    r"""\d[\d,.]*\s? (?:±\s?[\d.]+\s?)? (?:
      (?:ns|µs|us|ms|(?:micro|nano|milli)seconds?|[kMGT]B/s|MB\sresident|home-days|executions)
    | [kMG]B\sof\s(?:memory|RAM) | [MGT]B\sa\s(?:day|year) | s\sof\s(?:the\s)?CPU
    | (?:messages|records|readings|commits|releases|rows|bytes)\s?(?:/\s?s|a\ssecond|per\s(?:CPU-)?second)
    | (?:times|x|×)\s(?:as\s(?:fast|much\sCPU)|faster|slower|(?:the|[A-Z]\w*'s)\s(?:CPU|rate|time))
    | %\sof\s(?:the\s|a\s)?(?:CPU|core)
    ) (?![\w/])""",
    re.VERBOSE,
)
HEADING = re.compile(r"^#+ ", re.MULTILINE)
PROGRAM = re.compile(r"python (?:-m )?(tests[./]commands[./]\w+|benchmarks[./](?:shares|collect))")

NUMPY, OPENDP, GMQTT = "numpy Generator.laplace", "OpenDP make_laplace", "gmqtt, two connections"
LOOP = "records a second, QoS 1, closed loop of 1,000"
DESIGNED: dict[tuple[str, str], float] = {
    ("l_inf noise, 1,000 windows of 1", NUMPY): 0.3,
    ("l_inf noise, 1,000 windows of 4", NUMPY): 0.5,
    ("l_inf noise, 1,000 windows of 48", NUMPY): 1,
    ("l_inf noise, 1,000 windows of 96", NUMPY): 1,
    ("l_inf noise, 1,000 windows of 1,440", NUMPY): 1.5,
    ("l_inf noise, a window of 96", NUMPY): 0.1,
    ("l_inf noise, a window of 1,440", NUMPY): 0.5,
    ("discrete Laplace, a vector of 1,440", OPENDP): 30,
    ("truncated geometric, a vector of 1,440", f"{OPENDP}, clamped"): 30,
    (LOOP, GMQTT): 0.7,
    (LOOP, "aiomqtt, TCP_NODELAY"): 4,
    ("latency at 500/s, p99, + 10 ms allowed", GMQTT): 1,
    ("memory, 100 meters", "60 MB"): 1,
    ("memory, 10,000 meters", "150 MB"): 1,
    ("CPU time per release, 10^6 past releases", "10^3 past releases x 1.1"): 1,
    ("simulated homes at 1 s", "300 home-days per CPU-second"): 1,
    ("simulated homes at 60 s", "RAMP at 60 s"): 4,
    ("archive, wide: days of 96 slots, one process", "pyarrow + numpy.laplace, no account"): 0.7,
}
"""What was set out to be reached: name, against, at least."""

LEAST_ROUNDS = 5


def unnamed(text: str) -> list[str]:
    """The figures of a page, outside of tables of the published run, whose section names no program."""
    sections = HEADING.split(table.BLOCK.sub("", text))
    return [
        figure[0]
        for section in sections
        for figure in FIGURE.finditer(section)
        if not any(
            (ROOT / name.replace(".", "/")).with_suffix(".py").is_file()
            for name in (found.removesuffix(".py") for found in PROGRAM.findall(section))
        )
    ]


@pytest.mark.parametrize("page", PAGES)
def test_a_figure_of_performance_names_what_prints_it(page: str) -> None:
    """Speed, memory and times in prose: the section says by which program; or `make bench` put them there."""
    assert unnamed((ROOT / page).read_text()) == []


def test_figures_are_found() -> None:
    """In prose and tables, over the end of a line; settings, limits and what is hidden are none."""
    figures = [
        "7 GB/s",
        "40 us",
        "680 home-days",
        "3.5 times as\nfast",
        "4 times RAMP's rate",
        "10 ± 2\nns",
        "45 s of CPU",
        "300 MB of memory",
        "12,000 records a second",
    ]
    others = "Every 10 s a window of 110 Wh, 512 MB of disk.\n"
    tool, nothing = "`python -m tests.commands.flash_wear`", "`python tests/commands/nothing.py`"
    sections = [f"One\n{', '.join(figures)}", others, f"98 GB a year: {tool}\n", f"5 ms: {nothing}\n"]
    block = "<!-- bench: goals -->\n\n6 ms\n<!-- bench end -->\n"
    assert unnamed("\n# ".join(sections) + block) == [*figures, "5 ms"]


def test_the_tables_are_those_of_the_published_run() -> None:
    """What stands between the marks is what `make tables` writes there."""
    text = table.PAGE.read_text()
    assert {found[2] for found in table.BLOCK.finditer(text)} == table.BLOCKS.keys()
    assert_renewed(table.PAGE, table.renew(text, table.published_rows()))
    assert table.RESULTS.with_suffix(".png").exists() == table.RESULTS.exists()


def test_the_published_run_has_every_figure_once() -> None:
    """Each that was set out to be reached is there with its goal, by at least five rounds."""
    rows = table.published_rows()
    assert (
        rows == [] or DESIGNED.items() <= {(row["name"], row["against"]): row["goal"] for row in rows}.items()
    )
    assert max(Counter((row["name"], row["against"]) for row in rows).values(), default=1) == 1
    few = [row for row in rows if row["rounds"] < LEAST_ROUNDS]
    assert [row["name"] for row in few if (row["name"], row["against"]) in DESIGNED] == []
