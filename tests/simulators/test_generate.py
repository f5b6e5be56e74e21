"""`python -m simulators generate` and `compare`: files and their bytes, messages, and a table."""

import asyncio
import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from aiomqtt import Client
from pyarrow import csv, parquet

from simulators.__main__ import main
from simulators.commands.arguments import BEGIN, END
from simulators.commands.compare import HOME_FILES, Kind, Row, runs_of, table
from simulators.homes import plan
from simulators.homes.fleet import Fleet
from simulators.homes.plan import Files, Plan
from simulators.homes.region import REGIONS
from tests.support.broker import Broker, free_port
from tests.support.not_run import ROOT

SOME = ["generate", "--seed", "0", "--homes", "3", "--days", "2", "--step", "1h"]


def test_files_hold_the_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The series is the fleet's, rounded to the resolution; the events are its table; times are UTC."""
    assert main([*SOME, "--resolution", "0.1", "--out", str(tmp_path)]) == 0
    assert "144 readings" in capsys.readouterr().out
    series = parquet.read_table(tmp_path / "series.parquet")
    events = parquet.read_table(tmp_path / "events.parquet")
    days = list(Fleet(0, range(3)).days(0, 2, 3600))
    expected = np.concatenate([day.watts.ravel() for day in days])
    assert series["watts"].to_numpy() == pytest.approx(expected, abs=0.0501)
    assert series["home"].to_pylist()[:25] == [0] * 24 + [1]
    assert [str(series["time"][at]) for at in (0, 1, 24, 72)] == [
        "2025-01-06 00:00:00+00:00",
        "2025-01-06 01:00:00+00:00",
        "2025-01-06 00:00:00+00:00",
        "2025-01-07 00:00:00+00:00",
    ]
    assert events.num_rows == sum(len(day.events) for day in days)
    first = days[0].events
    assert events["appliance"][0].as_py() == first.names[first.appliance[0]]
    lasted_ms = (events["end"][0].as_py() - events["start"][0].as_py()).total_seconds()
    assert lasted_ms == first.end_s[0] - first.start_s[0]
    shown = {
        name
        for name, on in zip(*(events[k].to_pylist() for k in ("appliance", "channel")), strict=True)
        if on
    }
    assert shown <= {"television"}


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "folder"])
def test_the_same_bytes(name: str, tmp_path: Path) -> None:
    """A second run writes the same files, byte for byte."""
    for run in ("one", "other"):
        assert main([*SOME, "--out", str(tmp_path / run / name)]) == 0
    one, other = (sorted((tmp_path / run).rglob("*.*")) for run in ("one", "other"))
    assert len(one) == 2
    assert [path.name for path in one] == [path.name for path in other]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(one, other, strict=True))


def test_homes_of_a_region(tmp_path: Path) -> None:
    """With a region, the files hold its homes of today; without, those that they held before."""
    for region in ("DE", "GB"):
        assert main([*SOME, "--region", region, "--resolution", "0.1", "--out", str(tmp_path)]) == 0
        series = parquet.read_table(tmp_path / "series.parquet")
        days = Fleet.of_today(0, range(3), REGIONS[region]).days(0, 2, 3600)
        expected = np.concatenate([day.watts.ravel() for day in days])
        assert series["watts"].to_numpy() == pytest.approx(expected, abs=0.0501)
        assert "lights" in parquet.read_table(tmp_path / "events.parquet")["appliance"].to_pylist()


def test_parts_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Homes that do not fit in memory at once are the same as those that do."""
    Plan(5, 5, 2, 900).write(Files.at(tmp_path / "whole"))
    monkeypatch.setattr(plan, "_READINGS_AT_ONCE", 2 * 96)
    assert [len(part.homes) for part in Plan(5, 5, 2, 900).parts()] == [2, 2, 1]
    Plan(5, 5, 2, 900).write(Files.at(tmp_path / "parts"))
    for name, key in (("series", "time"), ("events", "start")):
        whole, parts = (parquet.read_table(tmp_path / run / f"{name}.parquet") for run in ("whole", "parts"))
        order = [("home", "ascending"), (key, "ascending"), ("watts", "ascending")]
        assert whole.sort_by(order).equals(parts.sort_by(order))


def test_a_date_is_the_same_day_in_every_file(tmp_path: Path) -> None:
    """A later first day is a later day of the same homes."""
    late = ["--first-day", "2025-01-07", "--out", str(tmp_path / "late.csv")]
    assert main([*SOME, *late]) == 0
    assert main([*SOME, "--out", str(tmp_path / "early.csv")]) == 0
    early, shifted = (csv.read_csv(tmp_path / f"{name}.csv") for name in ("early", "late"))
    assert early.slice(72, 72).equals(shifted.slice(0, 72))
    assert early.column_names == ["home", "time", "watts"]


@pytest.mark.parametrize(
    "wrong",
    [
        ["--step", "7s"],
        ["--step", "0s"],
        ["--step", "1500ms"],
        ["--step", "soon"],
        ["--homes", "0"],
        ["--days", "x"],
    ],
)
def test_arguments_are_refused(wrong: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What makes no sense is refused with the name of the option."""
    with pytest.raises(SystemExit, match="2"):
        main([*SOME, "--out", str(tmp_path), *wrong])
    assert wrong[0] in capsys.readouterr().err


def test_a_seed_is_asked_for(tmp_path: Path) -> None:
    """The output depends on no hidden seed."""
    with pytest.raises(SystemExit, match="2"):
        main(["generate", "--out", str(tmp_path)])


@pytest.mark.parametrize(
    ("wrong", "code", "text"),
    [
        (["--out", "x.txt"], 2, "x.txt is neither"),
        (["--seed", "-1", "--out", "y"], 2, "a seed is"),
        (["--resolution", "0", "--out", "y"], 2, "resolution_w"),
        (["--out", "/proc/nothing/here"], 1, "/proc/nothing"),
        (["--out", "http://host"], 2, "is not a URL such as mqtt://"),
        (["--out", f"mqtt://127.0.0.1:{free_port()}"], 1, "generate: no broker answers at mqtt://127.0.0.1:"),
    ],
)
def test_what_cannot_be_written(
    wrong: list[str],
    code: int,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit code and the text say what is wrong."""
    monkeypatch.chdir(tmp_path)
    assert main([*SOME, *wrong]) == code
    assert text in capsys.readouterr().err


def test_a_picture(tmp_path: Path) -> None:
    """The first day is drawn, 1200 by 1080 points; what cannot be drawn is refused."""
    out = ["--homes", "3", "--days", "1", "--step", "1d", "--out", str(tmp_path / "out")]
    assert main(["generate", "--seed", "0", *out, "--plot", str(tmp_path / "one.png")]) == 0
    drawn = (tmp_path / "one.png").read_bytes()
    assert drawn[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", drawn[16:24]) == (1200, 1080)
    assert main(["generate", "--seed", "0", *out, "--plot", str(tmp_path / "a.txt")]) == 2


# MQTT ---------------------------------------------------------------------------------------------


def test_messages_are_the_series(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each meter sends its readings in order of time, in parts too, and the last one again when it ends."""
    monkeypatch.setattr(plan, "_READINGS_AT_ONCE", 2 * 24)
    sent = list(Plan(0, 3, 2, 3600, 1).messages("m/{meter}"))
    watts = np.concatenate([day.watts for day in Fleet(0, range(3)).days(1, 2, 3600)], axis=1)
    for home in range(3):
        mine = [json.loads(payload) for topic, payload in sent if topic == f"m/m{home}"]
        powers = [one["power"] for one in mine]
        assert powers[:-1] == np.floor(watts[home].astype(float) + 0.5).tolist()
        assert powers[-1] == powers[-2]
        assert [one["t"] for one in mine] == [1_736_208_000 + 3600 * at for at in range(49)]
    assert len(sent) == 3 * 49


async def test_a_broker_receives_all(broker: Broker) -> None:
    """What is published arrives, whole and in order."""
    plan = Plan(0, 2, 1, 3600)
    async with asyncio.timeout(30), Client("127.0.0.1", broker.port) as client:
        await client.subscribe("homes/+", qos=1)
        assert await plan.send(broker.url, "homes/{meter}") == 50
        messages = aiter(client.messages)
        received = [await anext(messages) for _ in range(50)]
    assert [(str(one.topic), one.payload) for one in received] == list(plan.messages("homes/{meter}"))


# Compare ------------------------------------------------------------------------------------------

KIND = Kind("kettle", "Kettle", "WaterKettle", 500, 60, 20)


def test_runs_are_found() -> None:
    """A run is where more than a threshold is drawn; short pauses are part of it, short runs are none."""
    watts = np.zeros(1000)
    watts[100:150], watts[170:200] = 2000, 1000  # a pause of 20 s
    watts[400:500] = 1500
    watts[700:710] = 1500  # too short
    runs = runs_of(watts, 1, KIND)
    assert runs.seconds.tolist() == [100, 100]
    assert runs.watts.tolist() == [(50 * 2000 + 30 * 1000) / 100, 1500]
    assert len(runs_of(np.zeros(10), 1, KIND).seconds) == 0
    assert runs_of(np.full(30, 900.0), 1, KIND).seconds.tolist() == [30]


def test_a_row_says_what_does_not_fit() -> None:
    """A statistic fits where all real values are among nine of ten simulated ones."""
    simulated = list(range(101))
    assert Row("a", [5, 95], simulated).outside == 0
    assert Row("a", [4, 96, 50], simulated).outside == 2
    assert str(Row("a", [4, 50], simulated)) == "| a | 4, 50 | 5 – 95 | 50 | no: 1 of 2 |"
    assert table([Row("a", [50], simulated)]).endswith("| a | 50 | 5 – 95 | 50 | yes |")


def cells(readme: str) -> list[list[str]]:
    """The table's rows: name, real values, simulated ones, median, verdict."""
    lines = readme.partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_of_the_readme(data: Path, tmp_path: Path) -> None:
    """The table in the folder's README is what the command makes of the real traces.

    Real values to the digit; simulated ones to 5%, because machines differ in the last digits of logarithms.
    """
    readme = (ROOT / "simulators" / "README.md").read_text()
    assert readme.count(BEGIN) == readme.count(END) == 1
    copy = tmp_path / "README.md"
    copy.write_text(f"before\n{BEGIN}{END}\nafter\n")
    assert main(["compare", "--data", str(data), "--into", str(copy)]) == 0
    assert (copy.read_text()[:7], copy.read_text()[-7:]) == ("before\n", "\nafter\n")
    made, shown = cells(copy.read_text()), cells(readme)
    assert [row[:2] for row in made] == [row[:2] for row in shown]
    for one, other in zip(made[2:], shown[2:], strict=True):
        assert float(one[3].replace(",", "")) == pytest.approx(float(other[3].replace(",", "")), rel=0.05)
        assert one[4] == other[4]


def test_no_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without traces it says so."""
    assert main(["compare", "--data", str(tmp_path)]) == 2
    assert "REFIT_House2.parquet: no such file" in capsys.readouterr().err


def test_no_place_for_the_table(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a file without a place for the table, it names the line that is missing."""
    (tmp_path / "file").write_text("nothing")
    assert main(["compare", "--data", str(data), "--into", str(tmp_path / "file")]) == 2
    assert BEGIN in capsys.readouterr().err


def test_readmes_name_data_that_anybody_can_get() -> None:
    """No folder outside the repository is named; each set of traces has its public source and licence."""
    for readme in (ROOT / "simulators").rglob("README.md"):
        for path in re.findall(r"(?:\.\./)+[\w./-]*\w", readme.read_text()):
            named = (readme.parent / path).resolve()
            assert named.is_relative_to(ROOT), f"{readme}: {path}"
            assert named.exists(), f"{readme}: {path}"
    text = (ROOT / "simulators" / "README.md").read_text()
    section = text.partition("## Real traces")[2].partition("\n## ")[0]
    for name in ("REFIT", "UK-DALE", "tracebase"):
        assert re.search(rf"\[{name}\]\(https://[^)]+\) \(.* \d{{4}}\), (CC BY 4.0|ODbL 1.0)", section), name
    for name in HOME_FILES:
        assert f"`homes/{name}.parquet`" in section
