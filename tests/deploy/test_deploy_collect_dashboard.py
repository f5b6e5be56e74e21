"""The dashboard of the tables: every query of it runs on a real PostgreSQL, and finds what is there."""

import json
import re
from typing import Any

import psycopg
import pytest

from meteragent.collect.core import Core, Limits
from meteragent.collect.database import Database
from meteragent.collect.topic import StreamTopic
from tests.support.collecting import NOW_MS, TEMPLATE, record_messages, terms_message
from tests.support.not_run import ROOT
from tests.support.stores import TERMS

DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "collect.json").read_text())
QUERIES = {panel["title"]: panel["targets"][0]["rawSql"] for panel in DASHBOARD["panels"]} | {
    variable["name"]: variable["query"]
    for variable in DASHBOARD["templating"]["list"]
    if variable["type"] == "query"
}
EMPTY = {"Refused", "Records that wait for a descriptor"}


@pytest.mark.parametrize("title", QUERIES)
async def test_each_query_finds_what_is_there(title: str, table_url: str) -> None:
    """With a home on a feeder, the query of each panel and variable returns its rows."""
    messages = [terms_message(TERMS), *record_messages(TERMS, [1, 2])]
    async with Database.connect(table_url, None, "test", "month") as database:
        await database.migrate()
        core = Core([StreamTopic.parse("main", TEMPLATE)], Limits(), *await database.begin(is_first=True))
        await database.write(core.take(messages, NOW_MS), len(messages), NOW_MS)
    query = re.sub(r"\$__timeFilter\((\w+)\)", r"\1 > '2020-01-01'", QUERIES[title])
    query = query.replace("$stream", "main").replace("$feeder", "F7")
    with psycopg.connect(table_url) as connection:
        connection.execute("INSERT INTO meteragent.feeder VALUES ('m1', 'F7')")
        rows = connection.execute(query.encode()).fetchall()
    assert bool(rows) or title in EMPTY


def test_panels_say_what_they_show() -> None:
    """Every panel has a title and a description, an id of its own, and a place on the grid."""
    panels = DASHBOARD["panels"]
    assert all(
        panel["description"] and panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels
    )
    assert len({panel["id"] for panel in panels}) == len(panels)
