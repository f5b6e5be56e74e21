"""`python -m simulators replay`: what it publishes, when, and how it fails."""

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from aiomqtt import Client, MqttError

from simulators.__main__ import main
from simulators.commands.replay import paced, payloads, replay
from simulators.traces.trace import Trace, load
from simulators.wire import IN_FLIGHT
from tests.support.broker import Broker, free_port

LIMIT_S = 30.0
START_MS = 1_400_000_400_000

Received = list[tuple[str, bytes]]


def trace_of(watts: list[float], step_ms: int = 1000) -> Trace:
    """A regular trace."""
    return Trace(START_MS + np.arange(len(watts)) * step_ms, np.array(watts))


async def replayed(broker: Broker, trace: Trace, meters: int) -> Received:
    """What a subscriber receives while a trace is replayed."""
    count = len(trace) * meters
    async with asyncio.timeout(LIMIT_S), Client("127.0.0.1", broker.port) as client:
        await client.subscribe("meters/+/power", qos=1)
        assert await replay(trace, broker.url, "meters/{meter}/power", meters) == count
        messages = aiter(client.messages)
        received = [await anext(messages) for _ in range(count)]
    assert {message.qos for message in received} == {1}
    assert not any(message.retain for message in received)
    return [(str(message.topic), bytes(message.payload)) for message in received]


def test_payload() -> None:
    """A payload is JSON with Unix seconds, with decimals only for milliseconds, and watts as in the trace."""
    times_ms = np.array([START_MS, START_MS + 5, START_MS + 1250, START_MS + 2000])
    assert list(payloads(Trace(times_ms, np.array([1, 2, -3, 132])))) == [
        b'{"t": 1400000400, "power": 1}',
        b'{"t": 1400000400.005, "power": 2}',
        b'{"t": 1400000401.250, "power": -3}',
        b'{"t": 1400000402, "power": 132}',
    ]


def test_payload_exact() -> None:
    """Watts keep every digit: what is parsed from the payload is the very number of the trace."""
    watts = np.array([161.7, 0.1 + 0.2, 1e-7, 123456789.125, float(np.float32(161.7))])
    times_ms = START_MS + np.arange(len(watts))
    parsed = [json.loads(text, parse_float=Decimal) for text in payloads(Trace(times_ms, watts))]
    assert [float(reading["power"]) for reading in parsed] == watts.tolist()
    assert [int(reading["t"] * 1000) for reading in parsed] == times_ms.tolist()


async def test_meters(broker: Broker) -> None:
    """Each of N meters publishes the whole trace once, in order, at QoS 1 and not retained."""
    trace = trace_of([float(value) for value in range(200)])
    received = await replayed(broker, trace, meters=3)
    sent = list(payloads(trace))
    for meter in ("m1", "m2", "m3"):
        assert [payload for name, payload in received if name == f"meters/{meter}/power"] == sent


@pytest.mark.parametrize("speed", [0.5, 3.0, 1000.0])
async def test_no_drift(speed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading i leaves at start + its time / speed in all laps, though waits are too long and work slow."""
    now_s, late_s = 1e6, 0.2 / speed

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds + late_s

    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    left_s, times_s = [], []
    async for payload in paced(trace_of([1.0, 2.0, 3.0]).ended(), speed, loops=1000):
        left_s.append(now_s - 1e6)
        times_s.append(json.loads(payload)["t"] - START_MS / 1000)
        now_s += 0.3 / speed
    assert times_s == list(range(3001))
    assert left_s[0] == 0
    assert np.allclose(left_s[1:], np.arange(1, 3001) / speed + late_s, rtol=0, atol=1e-6)


async def test_loops(broker: Broker) -> None:
    """In a loop, every meter sends the trace again where it ended: each reading once, in order."""
    trace = trace_of([1.0, 2.0, 3.0], step_ms=500).starting(START_MS + 250)
    count = 2 * (4 * 3 + 1)
    async with asyncio.timeout(LIMIT_S), Client("127.0.0.1", broker.port) as client:
        await client.subscribe("meters/+/power", qos=1)
        assert await replay(trace.ended(), broker.url, "meters/{meter}/power", 2, loops=4) == count
        messages = aiter(client.messages)
        received = [await anext(messages) for _ in range(count)]
    sent = list(payloads(trace_of([1.0, 2.0, 3.0] * 4 + [3.0], step_ms=500).starting(START_MS + 250)))
    for meter in ("m1", "m2"):
        assert [m.payload for m in received if str(m.topic) == f"meters/{meter}/power"] == sent


async def test_endless(broker: Broker) -> None:
    """An endless replay goes on until it is interrupted, and says how many readings were acknowledged."""
    async with asyncio.timeout(LIMIT_S), Client("127.0.0.1", broker.port) as client:
        await client.subscribe("meters/m1/power", qos=1)
        ended, topic = trace_of([1.0, 2.0]).ended(), "meters/{meter}/power"
        task = asyncio.create_task(replay(ended, broker.url, topic, speed=2000, loops=0))
        messages = aiter(client.messages)
        times_s = [json.loads((await anext(messages)).payload)["t"] for _ in range(200)]
        task.cancel()
        assert await task >= 200 - IN_FLIGHT
    assert times_s == [START_MS // 1000 + second for second in range(200)]


async def test_no_broker() -> None:
    """A broker that is not there is an error, not a wait."""
    with pytest.raises(MqttError):
        await replay(trace_of([1.0, 2.0]), f"mqtt://127.0.0.1:{free_port()}", "meters/{meter}/power")


async def test_broker_goes(broker: Broker) -> None:
    """A broker that goes away in the middle ends the replay with its error, once."""
    endless = trace_of([1.0] * 1_000_000, step_ms=1)
    async with asyncio.timeout(LIMIT_S):
        async with Client("127.0.0.1", broker.port) as client:
            await client.subscribe("meters/m1/power")
            task = asyncio.create_task(replay(endless, broker.url, "meters/{meter}/power"))
            await anext(aiter(client.messages))
        broker.kill()
        with pytest.raises(MqttError):
            await task


def test_command(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command replays the file with one reading more at its end, and says what it sent."""
    (tmp_path / "trace.csv").write_text("t,w\n1400000400,5\n1400000460,6\n1400000520,7\n")
    options = ["--url", broker.url, "--speed", "max", "--meters", "2"]
    assert main(["replay", str(tmp_path / "trace.csv"), *options]) == 0
    said = capsys.readouterr().out
    assert said.startswith("8 readings sent, 2014-05-13T17:00:00Z to 2014-05-13T17:03:00Z, in ")


def test_command_reads_the_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A column of Unix times is not replayed as watts: 2, and which columns there are."""
    (tmp_path / "house.csv").write_text("Time,Unix,Aggregate\n0,1379455691,5\n60,1379455751,6\n")
    options = ["replay", str(tmp_path / "house.csv"), "--out", str(tmp_path / "out.csv")]
    assert main(options) == 2
    assert "--watts" in (said := capsys.readouterr().err)
    assert "Time, Unix, Aggregate" in said
    assert not (tmp_path / "out.csv").exists()
    assert main([*options, "--watts", "Aggregate"]) == 0


def test_local_times_have_a_zone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Times without an offset are UTC, or of the zone that --timezone names."""
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("time,watts\n2026-03-02 00:00:00,1\n2026-03-02 00:01:00,2\n")
    for options, start in (
        ([], "2026-03-02T00:00:00Z"),
        (["--timezone", "Europe/Berlin"], "2026-03-01T23:00:00Z"),
    ):
        assert main(["replay", str(source), "--out", str(target), *options]) == 0
        assert f"{start} to " in capsys.readouterr().out


def test_command_moves(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--start moves the first reading and --limit keeps the first stretch."""
    (tmp_path / "trace.csv").write_text("t,w\n0,5\n60,6\n120,7\n")
    options = ["--url", broker.url, "--speed", "max", "--start", "2026-11-20T12:00:00Z", "--limit", "2min"]
    assert main(["replay", str(tmp_path / "trace.csv"), *options]) == 0
    said = capsys.readouterr().out
    assert said.startswith("3 readings sent, 2026-11-20T12:00:00Z to 2026-11-20T12:02:00Z, in ")


def test_command_loops(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--loop repeats what --limit kept, from --start on."""
    (tmp_path / "trace.csv").write_text("t,w\n0,5\n60,6\n120,7\n")
    options = ["--url", broker.url, "--speed", "max", "--start", "2026-11-20T12:00:00Z", "--limit", "2min"]
    assert main(["replay", str(tmp_path / "trace.csv"), *options, "--loop", "30"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("61 readings sent, 2026-11-20T12:00:00Z to 2026-11-20T13:00:00Z, in ")


@pytest.mark.usefixtures("interruptible")
def test_command_interrupted(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An interrupt is how --loop 0 ends: with 0, and the count of what the broker acknowledged."""
    laps = 0

    def interrupting(trace: Trace) -> Iterator[bytes]:
        nonlocal laps
        laps += 1
        if laps == 300:
            signal.raise_signal(signal.SIGINT)
        return payloads(trace)

    monkeypatch.setattr("simulators.commands.replay.payloads", interrupting)
    (tmp_path / "trace.csv").write_text("t,w\n1400000400,5\n1400000460,6\n")
    options = ["--url", broker.url, "--speed", "max", "--loop", "0"]
    assert main(["replay", str(tmp_path / "trace.csv"), *options]) == 0
    count, rest = capsys.readouterr().out.split(" ", 1)
    assert 2 * 299 - IN_FLIGHT <= int(count) <= 2 * 299 + IN_FLIGHT
    assert rest.startswith("readings sent, 2014-05-13T17:00:00Z on, in ")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_command_writes(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--out writes the readings that MQTT would get, but for the one at the very end, and asks no broker."""
    (tmp_path / "trace.csv").write_text("t,w\n0,5\n0.25,6\n0.5,7\n")
    out = tmp_path / f"out.{kind}"
    options = ["--start", "2026-11-20T12:00:00.125Z", "--loop", "2", "--out", str(out)]
    assert main(["replay", str(tmp_path / "trace.csv"), *options]) == 0
    span = "2026-11-20T12:00:00.125Z to 2026-11-20T12:00:01.625Z"
    assert capsys.readouterr().out.startswith(f"6 readings in {out}, {span}, in ")
    assert (load(out).times_ms % 60_000).tolist() == [125, 375, 625, 875, 1125, 1375]
    assert load(out).watts.tolist() == [5, 6, 7, 5, 6, 7]


def test_command_shifts_to_now(tmp_path: Path) -> None:
    """--start now: the first reading is of this moment."""
    (tmp_path / "trace.csv").write_text("t,w\n0,5\n60,6\n")
    before_ms = time.time_ns() // 1_000_000
    assert (
        main(["replay", str(tmp_path / "trace.csv"), "--start", "now", "--out", str(tmp_path / "out.csv")])
        == 0
    )
    times_ms = load(tmp_path / "out.csv").times_ms
    assert before_ms <= times_ms[0] <= time.time_ns() // 1_000_000
    assert times_ms[1] - times_ms[0] == 60_000


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--out", "out.csv", "--url", "mqtt://h"], "--url is for MQTT and --out writes a file"),
        (["--out", "out.csv", "--topic", "t"], "--topic is for MQTT and --out writes a file"),
        (["--out", "out.csv", "--meters", "1"], "--meters is for MQTT and --out writes a file"),
        (["--out", "out.csv", "--speed", "1"], "--speed is for MQTT and --out writes a file"),
        (["--out", "out.csv", "--loop", "0"], "--out cannot write an endless file"),
        (["--out", "trace.csv"], "--out would replace the trace trace.csv"),
        (["--loop", "99999999999999999999"], "past the year 9999: start earlier or loop less"),
        (["--start", "9999-12-31T23:59:00Z", "--loop", "0"], "past the year 9999"),
    ],
)
def test_contradictory(
    options: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Options that contradict each other end with 2 before anything is sent or written, and say why."""
    monkeypatch.chdir(tmp_path)
    Path("trace.csv").write_text("t,w\n0,5\n60,6\n")
    assert main(["replay", "trace.csv", *options]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.startswith("replay: ")
    assert said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["trace.csv"]
    assert Path("trace.csv").read_text() == "t,w\n0,5\n60,6\n"


def test_command_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that cannot be written ends with 1 and one line that names it."""
    (tmp_path / "trace.csv").write_text("t,w\n0,5\n60,6\n")
    out = tmp_path / "trace.csv" / "out.csv"
    assert main(["replay", str(tmp_path / "trace.csv"), "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"replay: {out}: ")
    assert said.count("\n") == 1


def test_command_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No trace ends with 2, no broker with 1, both with one line that says why."""
    assert main(["replay", str(tmp_path / "nothing.csv")]) == 2
    assert "nothing.csv: no such file" in capsys.readouterr().err
    (tmp_path / "trace.csv").write_text("t,w\n0,5\n60,6\n")
    url = f"mqtt://127.0.0.1:{free_port()}"
    assert main(["replay", str(tmp_path / "trace.csv"), "--speed", "max", "--url", url]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"replay: {url}: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--speed", "0", "0 is neither a factor above 0 nor max"),
        ("--speed", "nan", "nan is neither a factor above 0 nor max"),
        ("--meters", "0", "0 is not a number of meters"),
        ("--loop", "-1", "-1 is neither a number of repetitions nor 0 (for ever)"),
        ("--loop", "ever", "ever is neither a number of repetitions nor 0 (for ever)"),
        ("--out", "out.txt", "out.txt is neither FILE.csv nor FILE.parquet"),
        ("--limit", "3", "such as '30min'"),
        ("--start", "yesterday", "not an RFC 3339 time"),
        ("--url", "127.0.0.1:1883", "is not a URL such as mqtt://127.0.0.1:1883"),
        ("--url", "mqtt://127.0.0.1:high", "Port could not be cast"),
    ],
)
def test_bad_option(option: str, value: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that makes no sense ends with 2 and says what would."""
    with pytest.raises(SystemExit) as ended:
        main(["replay", "trace.csv", option, value])
    assert ended.value.code == 2
    assert why in capsys.readouterr().err
