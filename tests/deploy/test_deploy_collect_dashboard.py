"""The dashboard of the tables: every query of it runs on a real PostgreSQL, and finds what is there."""

import json
import re
from datetime import datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from meteragent.collect.core import Core, Limits, Message
from meteragent.collect.database import Database
from meteragent.collect.topic import StreamTopic
from meteragent.domain.grid import iso_time
from tests.support.collecting import NOW_MS, TEMPLATE, record_messages, terms_message, topic
from tests.support.messages import NOON_MS
from tests.support.not_run import ROOT
from tests.support.stores import DAY_MS, TERMS

DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "collect.json").read_text())
QUERIES = {panel["title"]: panel["targets"][0]["rawSql"] for panel in DASHBOARD["panels"]} | {
    variable["name"]: variable["query"]
    for variable in DASHBOARD["templating"]["list"]
    if variable["type"] == "query"
}
SERIES = {panel["title"] for panel in DASHBOARD["panels"] if panel["targets"][0]["format"] == "time_series"}


def expanded(query: str, from_ms: int, at_least: int = 1) -> str:
    """Expand variables and macros as Grafana's PostgreSQL data source documents, for a range of a day."""
    start, end = iso_time(from_ms), iso_time(from_ms + DAY_MS - 1)
    query = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 BETWEEN '{start}' AND '{end}'", query)
    query = query.replace("$__timeFrom()", f"'{start}'").replace("$__timeTo()", f"'{end}'")
    query = query.replace("$stream", "main").replace("$feeder", "F7").replace("$at_least", str(at_least))
    assert "$" not in query, "a macro or variable that this test does not know"
    return query


@pytest.mark.parametrize("title", QUERIES)
async def test_each_query_finds_what_is_there(title: str, table_url: str) -> None:
    """With a home on a feeder and a refusal, the query of each panel and variable returns its rows."""
    messages = [terms_message(TERMS), *record_messages(TERMS, [1, 2]), Message(topic("m1"), b"?")]
    async with Database.connect(table_url, None, "test", "month") as database:
        await database.create_tables()
        core = Core(
            [StreamTopic.parse("main", TEMPLATE)], Limits(), *await database.begin_service(is_first=True)
        )
        await database.write_batch(core.take_messages(messages, NOW_MS), len(messages), NOW_MS)
    with psycopg.connect(table_url) as connection:
        connection.execute("INSERT INTO meteragent.feeder VALUES ('m1', 'F7')")
        if "$feeder" in QUERIES[title]:
            assert connection.execute(expanded(QUERIES[title], NOON_MS, 2).encode()).fetchall() == []
        rows = connection.execute(expanded(QUERIES[title], NOON_MS).encode()).fetchall()
        assert rows
        if "$__time" in QUERIES[title]:
            assert connection.execute(expanded(QUERIES[title], NOW_MS).encode()).fetchall() == []
    if title in SERIES:
        for time, *numbers in rows:
            assert isinstance(time, datetime)
            assert all(isinstance(number, int | Decimal) for number in numbers)


def test_a_single_home_is_not_shown() -> None:
    """Every query of a feeder's values is under the rules of `shown_total`, with 15 homes by default."""
    assert not any("feeder_total" in query for query in QUERIES.values())
    [variable] = [item for item in DASHBOARD["templating"]["list"] if item["name"] == "at_least"]
    assert variable["query"] == "15"


def test_panels_say_what_they_show() -> None:
    """Every panel has a title and a description, an id of its own, and a place on the grid."""
    panels = DASHBOARD["panels"]
    assert all(
        panel["description"] and panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels
    )
    assert len({panel["id"] for panel in panels}) == len(panels)
