"""The page for data engineers: its command, its event and its sum run on a small archive."""

import json
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meteragent import cli
from tests.support.tutorial import Tutorial

PAGE = Tutorial("docs/warehouse.md")
CONFIG = """
source = { topic = "meters/{meter}/energy", SOURCE }
window.length = "30min"
sink.topic = "private/{meter}/energy"
archive.key_file = "archive.key"
"""
METERS, SLOTS = 40, 48
START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("source", "value", "unit_kwh"),
    [
        ("kind = 'interval_energy', unit = 'kWh', interval = '30min', stamp = 'end'", 0.25, 1),
        ("kind = 'interval_energy', unit = 'Wh', interval = '30min', stamp = 'end'", 250.0, 1 / 1000),
        ("kind = 'power', unit = 'W', hold = '30min'", 500.0, 1 / 2000),
        ("kind = 'power', unit = 'kW', hold = '30min'", 0.5, 1 / 2),
    ],
)
def test_the_page_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    source: str,
    value: float,
    unit_kwh: float,
) -> None:
    """The run is in the event, and the model's sum is within six errors of the truth, in kWh, in any unit."""
    monkeypatch.chdir(tmp_path)
    Path("archive.toml").write_text(CONFIG.replace("SOURCE", source))
    is_end = "energy" in source
    times = [START + timedelta(minutes=30 * (slot + is_end)) for slot in range(SLOTS)]
    meters = [f"m{meter}" for meter in range(METERS) for _ in times]
    readings = {"meter": meters, "time": times * METERS, "value": [value] * len(meters)}
    pq.write_table(pa.table(readings), "readings.parquet")
    assert cli.main(["key", "new", "archive.key", "--tenant", "t", "--from", "2026-11-01"]) == 0
    capsys.readouterr()
    (command,) = PAGE.blocks("sh")
    program, *words = shlex.split(command)
    assert (program, words[-2:]) == ("meteragent", [">", "run.json"])
    assert cli.main(words[:-2]) == 0
    Path("run.json").write_text(capsys.readouterr().out)
    (event,) = PAGE.blocks("python")
    exec(event, {})
    assert json.loads(Path("event.json").read_text())["outputs"][0]["name"] == "private.parquet"
    (model,) = PAGE.blocks("sql")
    ((day, numbers, kwh, sd_kwh),) = duckdb.connect().execute(model).fetchall()
    assert (day.date(), numbers) == (START.date(), METERS * SLOTS)
    sd = json.loads(Path("run.json").read_text())["sd"]
    assert sd_kwh == pytest.approx(unit_kwh * sd * numbers**0.5, rel=1e-3)
    assert abs(kwh - 0.25 * numbers) < 6 * sd_kwh  # wrong in 2 of 10^9 runs
