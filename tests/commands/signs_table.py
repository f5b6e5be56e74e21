"""Generate the tables of `docs/signs.md`: problems with their remedies, and counts with their meanings.

`python -m tests.commands.signs_table` rewrites them from the English texts, and from the sections that
`deploy/prometheus/alerts.yaml` names; and, on their pages, the problems of collectors and
operators, and a collector's reasons for refusals.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import yaml

from meteragent.collect import vitals as collector
from meteragent.collect.core import REASONS
from meteragent.domain.counters import COUNTERS
from meteragent.domain.problem import PROBLEMS, Meaning
from meteragent.operators import vitals as operators
from tests.support.not_run import ROOT

PAGE: Path = ROOT / "docs" / "signs.md"
COLLECT = ROOT / "docs" / "collect.md"
SERVICES = {
    COLLECT: collector.PROBLEMS,
    ROOT / "docs" / "crowd-operators.md": operators.PROBLEMS,
}
"""The pages with the problems of other services."""
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
BY_FIGURES = {
    "no_clock": "ClockWaits",
    "store_full": "StoreFull",
    "source_down": "ConnectionLost",
    "sink_down": "ConnectionLost",
    "messages_wait": "Lag",
    "topic_refused": "PublishRefused",
}
"""The alarms that ask for a problem by its figures, instead of by its code."""


BY_NATURE = {
    "received": ["no-reading-is-accepted"],
    "accepted": ["no-reading-is-accepted"],
    "released": [],
}
"""The counts with which alarms compare others, and the section for each if it does not grow."""


@cache
def rules() -> list[Mapping[str, str]]:
    """Return the name, expression and section of each alarm about an agent."""
    groups = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    alarms = [rule for group in groups for rule in group["rules"]]
    return [
        {"name": rule["alert"], "asks": rule["expr"], "section": section}
        for rule in alarms
        if (section := rule["annotations"]["runbook"].partition("docs/signs.md#")[2])
    ]


def sections(name: str, asks: str) -> list[str]:
    """Return the sections of the alarms whose expression matches, or of the one with the name."""
    linked = [rule["section"] for rule in rules() if rule["name"] == name or re.search(asks, rule["asks"])]
    return list(dict.fromkeys(linked))


def problem_rows() -> Iterator[str]:
    """Yield a row for each problem: its code with its section, its cause, and what to do."""
    for code, meaning in PROBLEMS.items():
        section, *_ = sections(BY_FIGURES.get(code, ""), rf'code=~?"(?:[^"]*\|)?{code}(?:\|[^"]*)?"')
        yield f"| [`{code}`](#{section}) | {filled(meaning.cause)} | {filled(meaning.cure)} |"


def service_rows(problems: Mapping[str, Meaning]) -> Iterator[str]:
    """Yield a row for each problem of a service: its code, its cause, and what to do."""
    for code, meaning in problems.items():
        yield f"| `{code}` | {filled(meaning.cause)} | {filled(meaning.cure)} |"


def count_rows() -> Iterator[str]:
    """Yield a row for each count: its meaning, and the section of its alarm if it has one."""
    for code, meaning in COUNTERS.items():
        linked = BY_NATURE.get(code, sections("", rf"\bmeteragent_{code}_total\b"))
        names = ", ".join(f"[{section.replace('-', ' ')}](#{section})" for section in linked)
        yield f"| `{code}` | {filled(meaning)} | {names} |"


def filled(text: str) -> str:
    """Return a text with words for its fields."""
    return re.sub(r"\{(\w+)\}", lambda match: "SIDE" if match[1] == "side" else "…", text)


def tables(page: Path) -> dict[str, list[str]]:
    """Return the rows of each table of a page, the head first."""
    rows = problem_rows() if page == PAGE else service_rows(SERVICES[page])
    rows_by_table = {"problems": ["| problem | cause | do |", "|---|---|---|", *rows]}
    if page == PAGE:
        rows_by_table["counts"] = ["| count | meaning | see |", "|---|---|---|", *count_rows()]
    if page == COLLECT:
        reasons = (f"| `{reason}` | {meaning} |" for reason, meaning in REASONS.items())
        rows_by_table["reasons"] = ["| reason | meaning |", "|---|---|", *reasons]
    return rows_by_table


def renewed(page: Path) -> str:
    """Return the text of a page with its tables generated again."""
    text = page.read_text("utf-8")
    for name, rows in tables(page).items():
        begin, end = f"<!-- signs: {name} -->\n", "<!-- signs end -->\n"
        head, _, tail = text.partition(begin)
        text = head + begin + "\n" + "\n".join(rows) + "\n\n" + end + tail.partition(end)[2]
    return text


if __name__ == "__main__":
    for path in (PAGE, *SERVICES):
        path.write_text(renewed(path), "utf-8")
