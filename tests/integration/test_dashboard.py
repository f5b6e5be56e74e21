"""The dashboard and the alarms on a real Prometheus, which reads what agent and exporter say."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from deploy.exporter.exporter import Board
from meteragent.agent.vitals import AgentVitals, StreamVitals
from meteragent.domain.counters import COUNTERS
from meteragent.domain.problem import make_problem
from meteragent.service.vitals import as_metrics
from tests.support.broker import free_port
from tests.support.messages import described, recorded
from tests.support.not_run import ROOT
from tests.support.stores import TERMS

DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "meteragent.json").read_text())
QUERIES = sorted({target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())})
VARIABLES = [item for item in DASHBOARD["templating"]["list"] if item["type"] == "query"]
TOPIC = "private/m1/power"
LIMIT_S = 60.0
_COUNTS = ("received", "accepted", "released", "delivered", "late", "refused_json")
_STREAM = StreamVitals("main", True, False, 1, 2.0, 1, {"m1": Fraction(1, 220)})
_AGENT = AgentVitals(
    service="agent",
    running_s=1.0,
    counts={},
    store_bytes=1,
    stands=None,
    streams=(_STREAM,),
    raised=(make_problem("sink_down", "main"),),
)


def exposition(scrapes: int) -> str:
    """Return what the agent and the exporter say at the scrape of this number."""
    board, registry = Board(), CollectorRegistry()
    board.take(f"{TOPIC}/privacy", described(TERMS))
    board.take(TOPIC, recorded(TERMS, [5])[0])
    registry.register(board)
    counts = dict.fromkeys(COUNTERS, 10 * scrapes)
    return as_metrics(replace(_AGENT, counts=counts)) + generate_latest(registry).decode()


class Server:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/api/v1"

    def get(self, path: str) -> Any:
        """Return the data of an answer."""
        with urlopen(f"{self.url}/{path}", timeout=LIMIT_S) as answer:
            body = json.load(answer)
        assert body["status"] == "success"
        return body["data"]

    async def ask(self, path: str) -> Any:
        """Return the data of an answer, without waiting in the loop."""
        return await asyncio.to_thread(self.get, path)


@pytest.fixture
async def server(prometheus: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A Prometheus with the shipped alarms that has read both programs three times."""
    folder, port, scrapes = tmp_path_factory.mktemp("prometheus"), free_port(), 0

    async def expose(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal scrapes
        await reader.readuntil(b"\r\n\r\n")
        scrapes += 1
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n\r\n"
        writer.write((head + exposition(scrapes)).encode())
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(expose, "127.0.0.1", 0)
    target = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    shutil.copy(DEPLOY / "prometheus" / "alerts.yaml", folder)
    settings = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    settings["global"] = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"}
    settings["rule_files"] = [str(folder / "alerts.yaml")]
    for job in settings["scrape_configs"]:
        job["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(settings))
    command = [
        str(prometheus),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
    try:
        running = Server(port)
        async with asyncio.timeout(LIMIT_S):
            while scrapes < 8:
                assert process.returncode is None, (folder / "log").read_text()[-2000:]
                await asyncio.sleep(0.1)
        yield running
    finally:
        process.terminate()
        await process.wait()
        listener.close()
        await listener.wait_closed()


async def values(server: Server) -> dict[str, str]:
    """Return the dashboard's variables as Grafana fills them: the first value of each query, or none."""
    filled: dict[str, str] = {}
    for item in VARIABLES:
        match = re.fullmatch(r"label_values\((?P<series>.*), (?P<label>\w+)\)", item["query"]["query"])
        assert match is not None
        series = quote(substituted(match["series"], filled))
        labels = await server.ask(f"label/{match['label']}/values?match[]={series}")
        filled[item["name"]] = next(iter(labels), "")  # Prometheus has no label without a value
    return filled


def substituted(query: str, variables: dict[str, str]) -> str:
    """Return a query with the values of its variables."""
    return re.sub(r"\$(\w+)", lambda match: variables[match[1]], query)


async def test_each_query_of_the_dashboard_finds_what_is_there(server: Server) -> None:
    """Every query of every panel and variable is evaluated, and has a finite number."""
    variables = await values(server)
    assert variables["topic"] == "private/+/power"
    assert variables["meter"] == "m1"
    for query in QUERIES:
        result = (await server.ask(f"query?query={quote(substituted(query, variables))}"))["result"]
        assert result, query
        assert all(abs(float(row["value"][1])) < 1e12 for row in result), query
        past = (await server.ask(f"query?time=1000000000&query={quote(substituted(query, variables))}"))[
            "result"
        ]
        assert past == [], query


async def test_each_alarm_is_evaluated(server: Server) -> None:
    """Prometheus accepts every alarm, and the lost connection to the sink is one that it sees."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            groups = (await server.ask("rules"))["groups"]
            rules = [rule for group in groups for rule in group["rules"]]
            if all(rule["health"] != "unknown" for rule in rules):
                break
            await asyncio.sleep(0.2)
    shipped = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
    names = [rule["alert"] for group in shipped for rule in group["rules"]]
    assert sorted(rule["name"] for rule in rules) == sorted(names)
    assert {rule["health"] for rule in rules} == {"ok"}
    states = {rule["name"]: rule["state"] for rule in rules}
    assert states["ConnectionLost"] in {"pending", "firing"}
