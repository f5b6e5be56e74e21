"""The state of a collector in words, as JSON and for Prometheus."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from meteragent.cli import health, main
from meteragent.collect.vitals import COUNTERS, CollectVitals
from meteragent.service.process import Notify
from meteragent.service.vitals import as_json, as_metrics
from tests.support.collect_life import Played, dataset_table, life_of

WELL = CollectVitals(
    service="collect",
    running_s=60,
    counts={"messages": 5, "written": 3, "refused": 2},
    source_up=True,
    sink_up=True,
    refusals={"range": 2},
    refused_ago={"range": 3_600},
)


def text(vitals: CollectVitals) -> str:
    """Return what `health` prints."""
    return health.as_text(json.loads(as_json(vitals)))


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("collect_source_down", {"source_up": False}),
        ("collect_sink_down", {"sink_up": False}),
        ("records_refused", {"refused_ago": {"range": 3_599}}),
    ],
)
def test_each_problem_is_named(code: str, changes: dict[str, Any]) -> None:
    """A problem has a code, a text and a cure, in the text and in the metrics."""
    wrong = replace(WELL, **changes)
    assert [problem.code for problem in wrong.problems] == [code]
    assert f"({code})" in text(wrong)
    assert f'meteragent_problem{{code="{code}",stream=""}} 1' in as_metrics(wrong)


def test_what_was_refused_an_hour_ago_is_no_problem() -> None:
    """It is counted, and that is all."""
    assert WELL.problems == ()
    assert "All is well." in text(WELL)
    assert "refused: range" in text(WELL)
    assert "Waiting for the first message." in text(replace(WELL, counts={}))


def test_prometheus_reads_the_metrics() -> None:
    """Every count is a metric; sides and reasons have labels."""
    samples = {
        (sample.name.removeprefix("meteragent_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(as_metrics(WELL))
        for sample in family.samples
    }
    assert samples["collect_connected", "source"] == samples["collect_connected", "sink"] == 1
    assert samples["collect_refusals_total", "range"] == 2
    assert {name: samples[f"collect_{name}_total",] for name in COUNTERS} == {"repeated": 0, **WELL.counts}


def test_a_collector_without_a_socket_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`health` names the missing table; with it, how the collector is started, or the missing folder."""
    path = tmp_path / "collect.toml"
    good = '[[stream]]\ntopic = "p/{meter}"\n[dataset]\nfolder = "records"\n'
    path.write_text(good)
    assert main(["health", str(path)]) == 78
    assert "expected [health] with a socket" in capsys.readouterr().err
    path.write_text(f'{good}[health]\nsocket = "{tmp_path}/nowhere/health"\n')
    assert main(["health", str(path)]) == 1
    assert f"Start the collector: meteragent collect {path}" in capsys.readouterr().err
    assert main(["collect", str(path)]) == 78
    assert "nowhere/health: its folder does not exist" in capsys.readouterr().err


async def test_systemd_is_told_the_state(tmp_path: Path) -> None:
    """A collector is ready once its sink is open, and then says that it lives and that all is well."""
    lines = list[str]()

    class Recorder(Notify):
        def send_lines(self, *texts: str) -> None:
            lines.extend(texts)

    await life_of(Played([]), dataset_table(tmp_path), notify=Recorder("@systemd", watchdog_s=60))
    assert lines == ["READY=1", "STATUS=all is well", "WATCHDOG=1"]
