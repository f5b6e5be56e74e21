"""What watches over the agent: alarms, dashboard and runbook speak of what there is, and of all of it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from promql_parser import Expr, VectorSelector

from deploy.exporter.exporter import Board
from meteragent.agent.vitals import AgentVitals, StreamVitals
from meteragent.collect import vitals as collector
from meteragent.domain.counters import COUNTERS
from meteragent.domain.problem import PROBLEMS, make_problem
from meteragent.operators import vitals
from meteragent.service.vitals import as_metrics
from tests.commands import signs_table
from tests.operators.test_operators_command import VITALS
from tests.support.generated import assert_renewed
from tests.support.messages import described, recorded
from tests.support.not_run import ROOT
from tests.support.stores import TERMS

DEPLOY = ROOT / "deploy"
DOCS = ROOT / "docs"
SIGNS = (DOCS / "signs.md").read_text()
RUNBOOK = [DOCS / f"{name}.md" for name in ("install", "operate", "signs", "brokers", "commands")]
FILES = (DOCS / "install.md").read_text()
DASHBOARD = json.loads((DEPLOY / "grafana" / "meteragent.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
SOURCE = {"type": "prometheus", "uid": "${prometheus}"}
ALERTS = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
NAMES = [alert["alert"] for alert in ALERTS]
BEFORE = {
    "EverythingStands": {"no_clock", "store_full"},
    "ClockWaits": {"no_clock"},
    "StoreFull": {"store_full"},
    "ConnectionLost": {"source_down", "sink_down"},
    "Lag": {"messages_wait"},
    "PublishRefused": {"topic_refused"},
}
"""Alarms that ask for a problem by its figures."""
GIVEN = {"job", "instance"}
"""Labels that Prometheus itself puts on what it reads."""

OTHERS = vitals.PROBLEMS | collector.PROBLEMS
"""The problems of operators and collectors."""

OPERATOR = replace(VITALS, is_connected=False)
"""An operator with a problem, whose metrics alarms may ask for."""


COLLECTOR = collector.CollectVitals(
    service="collect", running_s=1, counts={}, source_up=False, sink_up=True, refusals={}, refused_ago={}
)


def exposed() -> dict[str, set[str]]:
    """The metrics of agent and exporter, and each one's labels."""
    stream = StreamVitals("main", True, True, 1, 2.0, 1, {"m1": Fraction(1, 220)})
    agent = AgentVitals(
        service="agent",
        running_s=1.0,
        counts={},
        store_bytes=1,
        stands=None,
        streams=(stream,),
        raised=(make_problem("sink_down", "main"),),
    )
    board, registry = Board(), CollectorRegistry()
    board.take("private/m1/power/privacy", described(TERMS))
    board.take("private/m1/power", recorded(TERMS, [5])[0])
    registry.register(board)
    texts = (
        as_metrics(agent),
        generate_latest(registry).decode(),
        as_metrics(OPERATOR),
        as_metrics(COLLECTOR),
    )
    actual: dict[str, set[str]] = {"up": set()}
    for text in texts:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                actual.setdefault(sample.name, set()).update(sample.labels)
    return actual


EXPOSED = exposed()


def selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """The metrics that an expression asks for, each with the labels it asks by; the syntax must be right."""
    actual: list[Expr] = []
    promql_parser.walk(promql_parser.parse(expression), actual.append)
    for node in actual:
        if isinstance(node, VectorSelector):
            assert node.name is not None
            yield node.name, {matcher.name for matcher in node.matchers.matchers}


def assert_exists(expression: str) -> None:
    """Every metric that is asked for is one of ours, and has the labels it is asked by."""
    asked = list(selectors(expression))
    assert asked
    for name, labels in asked:
        assert name in EXPOSED, name
        assert labels <= EXPOSED[name] | GIVEN, name


def counted(expression: str) -> set[str]:
    """The counts that an expression asks for."""
    named = (re.fullmatch(r"meteragent_(\w+)_total", name) for name, _ in selectors(expression))
    return {match[1] for match in named if match} & set(COUNTERS)


def anchors(text: str) -> list[str]:
    """Of a document's headings, as they are linked to."""
    text = re.sub(r"(?ms)^```.*?^```$", "", re.sub(r"(?m)^    .*$", "", text))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def rows() -> dict[str, set[str]]:
    """The runbook's table of counts: each count, and the sections that its row links to."""
    return linked("| count | meaning | see |")


def codes() -> dict[str, set[str]]:
    """The runbook's table of problems: each code, and the section that its row links to."""
    return linked("| problem | cause | do |")


def linked(head: str) -> dict[str, set[str]]:
    """A table of the runbook: each name of its first column, and the sections that its row links to."""
    actual: dict[str, set[str]] = {}
    table = SIGNS.partition(head)[2].partition("\n\n")[0]
    for line in table.splitlines():
        cells = line.split(" | ")
        for name in re.findall(r"`(\w+)`", cells[0]) if len(cells) > 1 else ():
            assert name not in actual, name
            actual[name] = set(re.findall(r"\(#([\w-]+)\)", line))
    return actual


# Alarms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_an_alarm_asks_for_what_there_is(alert: Mapping[str, Any]) -> None:
    """Its expression is PromQL, its metrics and labels exist, and what it tells of are labels it has."""
    assert_exists(alert["expr"])
    told = set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"]))
    assert all(told <= EXPOSED[name] | GIVEN for name, _ in list(selectors(alert["expr"]))[:1])
    assert "for" not in alert or promql_parser.parse_duration(alert["for"])


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_an_alarm_names_its_section_of_the_runbook(alert: Mapping[str, Any]) -> None:
    """It has a severity, a sentence, and a section: a sign, or one of the operators' runbook."""
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    file, _, anchor = alert["annotations"]["runbook"].partition("#")
    if file == "docs/signs.md":
        assert anchor in anchors(SIGNS.partition("## What to do")[2])
    else:
        others = "meteragent_crowd_" in alert["expr"] or bool(coded(alert["expr"]) & set(OTHERS))
        assert others
        assert anchor in anchors((ROOT / file).read_text())
    assert set(alert) <= {"alert", "expr", "for", "labels", "annotations"}


def test_alarms_have_names_of_their_own() -> None:
    """No two are called the same."""
    assert len(set(NAMES)) == len(NAMES)


def test_a_growth_is_asked_for_with_its_time() -> None:
    """A count since the start is asked for as a growth, but for what happens at a start itself."""
    at_the_start = {"store_set_aside", "retired_unsent"}
    for alert in ALERTS:
        bare = re.sub(r"increase\([^)]*\)", "", alert["expr"])
        left = set(re.findall(r"meteragent_(\w+)_total", bare)) & set(COUNTERS)
        assert left <= at_the_start, alert["alert"]


def coded(expression: str) -> set[str]:
    """The codes of problems that an expression asks for."""
    groups = re.findall(r'meteragent_problem{code=~?"([\w|]+)"}', expression)
    return {code for group in groups for code in group.split("|")}


@pytest.mark.parametrize("code", PROBLEMS)
def test_every_problem_has_an_alarm_and_a_section(code: str) -> None:
    """A problem's section is among the signs, its table of codes links there, and its alarm names it."""
    [section] = codes()[code]
    assert section in anchors(SIGNS.partition("## What to do")[2])
    asking = [item for item in ALERTS if code in coded(item["expr"]) | BEFORE.get(item["alert"], set())]
    assert section in {item["annotations"]["runbook"].partition("#")[2] for item in asking}


def test_no_alarm_asks_for_a_problem_that_there_is_not() -> None:
    """Codes in alarms are those of a service, no code is another's as well; the runbook has the agent's."""
    assert len({**PROBLEMS, **OTHERS}) == len(PROBLEMS) + len(vitals.PROBLEMS) + len(collector.PROBLEMS)
    assert set().union(*(coded(alert["expr"]) for alert in ALERTS)) <= {*PROBLEMS, *OTHERS}
    assert set(codes()) == set(PROBLEMS)


@pytest.mark.parametrize("code", OTHERS)
def test_every_problem_of_another_service_has_an_alarm(code: str) -> None:
    """A problem of an operator or a collector has one alarm, and a row in the section that it names."""
    [alert] = [item for item in ALERTS if code in coded(item["expr"])]
    assert alert["annotations"]["runbook"] == f"docs/{OTHERS[code].section}"
    assert f"| `{code}` |" in (DOCS / OTHERS[code].section.partition("#")[0]).read_text()


# The runbook --------------------------------------------------------------------------------------


def test_the_runbook_knows_every_count() -> None:
    """The table has each count of the agent once, and no other."""
    assert set(rows()) == set(COUNTERS)


@pytest.mark.parametrize("page", [signs_table.PAGE, *signs_table.SERVICES], ids=lambda page: page.stem)
def test_the_tables_of_the_runbook_are_those_of_the_texts(page: Path) -> None:
    """`make tables` renews them."""
    assert_renewed(page, signs_table.renewed(page))


def test_a_problem_has_its_remedy_near_the_beginning() -> None:
    """The table of remedies begins within 100 words of the first line."""
    assert len(SIGNS.partition("| problem | cause | do |")[0].split()) <= 100


@pytest.mark.parametrize("name", [name for name, sections in rows().items() if sections])
def test_a_count_that_means_trouble_has_an_alarm(name: str) -> None:
    """What the table sends to a section has an alarm that asks for it and names that section."""
    asking = [alert for alert in ALERTS if name in counted(alert["expr"])]
    named = {alert["annotations"]["runbook"].partition("#")[2] for alert in asking}
    assert named & rows()[name]


@pytest.mark.parametrize("page", [*RUNBOOK, DEPLOY / "fleet" / "README.md"], ids=lambda page: page.stem)
def test_the_links_of_the_runbook_lead_somewhere(page: Path) -> None:
    """Sections and files that a page links to are there."""
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text()):
        file, _, anchor = target.partition("#")
        linked_page = (page.parent / file).resolve() if file else page
        assert linked_page.exists(), target
        assert not anchor or anchor in anchors(linked_page.read_text()), target


def test_the_files_of_the_table_are_there() -> None:
    """Each file that the table of docs/install.md names exists."""
    files = re.findall(r"`([\w./]+)`", FILES.partition("| here | what |")[2].partition("\n\n")[0])
    assert len(files) >= 10
    assert all((DEPLOY / file).exists() for file in files)


def test_every_folder_is_in_the_runbook() -> None:
    """Whatever is in deploy/ is named in its table."""
    table = FILES.partition("| here | what |")[2].partition("\n\n")[0]
    there = {path.name for path in DEPLOY.iterdir()} - {"__pycache__"}
    assert {name for name in there if name not in table} == set()


# The dashboard ------------------------------------------------------------------------------------


def filled(expression: str) -> str:
    """A query as Grafana sends it."""
    return re.sub(r"\$(\w+)", r"x", expression)


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_a_panel_asks_for_what_there_is(panel: Mapping[str, Any]) -> None:
    """Its queries are PromQL, its metrics, labels and variables exist, and its source is the variable."""
    variables = {item["name"] for item in DASHBOARD["templating"]["list"]}
    assert panel["targets"]
    for target in panel["targets"]:
        assert_exists(filled(target["expr"]))
        assert set(re.findall(r"\$(\w+)", target["expr"] + panel["title"])) <= variables
        assert target["datasource"] == panel["datasource"] == SOURCE
        for name, _ in selectors(filled(target["expr"])):
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= EXPOSED[name] | {"version"}


def test_errors_are_drawn_as_bands() -> None:
    """The mean and a home have value and both ends of the interval, and what is between them is filled."""
    drawn = []
    for panel in PANELS:
        lines = {target["legendFormat"]: target["expr"].partition("{")[0] for target in panel["targets"]}
        if set(lines) == {"value", "low", "high"}:
            drawn.append(lines["value"])
            assert (lines["low"], lines["high"]) == (f"{lines['value']}_low", f"{lines['value']}_high")
            fills = {
                item["matcher"]["options"]: each["value"]
                for item in panel["fieldConfig"]["overrides"]
                for each in item["properties"]
                if each["id"] == "custom.fillBelowTo"
            }
            assert fills == {"high": "low"}
    assert drawn == ["meteragent_private_mean", "meteragent_private_value"]


def test_variables_ask_for_what_there_is() -> None:
    """Each lists a label that its metric has, by labels that it has and variables before it.

    The first one is the data source, which the provided one of the compose file is.
    """
    source, *variables = DASHBOARD["templating"]["list"]
    assert (source["type"], source["name"], source["query"]) == ("datasource", "prometheus", "prometheus")
    provided = yaml.safe_load((DEPLOY / "grafana" / "datasources.yaml").read_text())["datasources"]
    assert [item["type"] for item in provided] == ["prometheus"]
    known: set[str] = set()
    for item in variables:
        assert item["datasource"] == SOURCE
        (query, label), *_ = re.findall(r"label_values\((.*), (\w+)\)", item["query"]["query"])
        assert_exists(filled(query))
        assert label in EXPOSED[query.partition("{")[0]]
        assert set(re.findall(r"\$(\w+)", query)) <= known
        known.add(item["name"])


def test_panels_do_not_overlap() -> None:
    """Each has its own place and number, within the width of 24."""
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        own = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert not own & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= own
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
