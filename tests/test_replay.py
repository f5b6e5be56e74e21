"""`python -m simulators replay`: what it publishes, when, and how it fails."""

import asyncio
import json
import math
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from aiomqtt import Client, MqttError

from simulators.__main__ import main
from simulators.replay import payloads, replay
from simulators.trace import Trace
from tests.broker import Broker, free_port

LIMIT_S = 30.0
START_MS = 1_400_000_400_000

Received = list[tuple[str, bytes]]


def trace_of(watts: list[float], step_ms: int = 1000) -> Trace:
    """A regular trace."""
    return Trace(START_MS + np.arange(len(watts)) * step_ms, np.array(watts))


async def replayed(broker: Broker, trace: Trace, meters: int, speed: float = math.inf) -> Received:
    """What a subscriber receives while a trace is replayed."""
    count = len(trace) * meters
    async with asyncio.timeout(LIMIT_S), Client("127.0.0.1", broker.port) as client:
        await client.subscribe("meters/+/power", qos=1)
        assert await replay(trace, broker.url, "meters/{meter}/power", meters, speed) == count
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
    trace = trace_of([float(value) for value in range(500)])
    received = await replayed(broker, trace, meters=3)
    sent = list(payloads(trace))
    for meter in ("m1", "m2", "m3"):
        assert [payload for name, payload in received if name == f"meters/{meter}/power"] == sent


@pytest.mark.integration
async def test_pace(broker: Broker) -> None:
    """A factor of 16 takes a sixteenth of the time that the trace took."""
    start_s = time.monotonic()
    await replayed(broker, trace_of([1.0, 2.0, 3.0], step_ms=4000), meters=1, speed=16.0)
    assert 0.5 <= time.monotonic() - start_s < 8.0


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


def test_command_moves(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--start moves the first reading and --limit keeps the first stretch."""
    (tmp_path / "trace.csv").write_text("t,w\n0,5\n60,6\n120,7\n")
    options = ["--url", broker.url, "--speed", "max", "--start", "2026-11-20T12:00:00Z", "--limit", "2min"]
    assert main(["replay", str(tmp_path / "trace.csv"), *options]) == 0
    said = capsys.readouterr().out
    assert said.startswith("3 readings sent, 2026-11-20T12:00:00Z to 2026-11-20T12:02:00Z, in ")


def test_command_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No trace ends with 2, no broker with 1, both with one line that says why."""
    assert main(["replay", str(tmp_path / "nothing.csv")]) == 2
    assert "nothing.csv cannot be read" in capsys.readouterr().err
    (tmp_path / "trace.csv").write_text("t,w\n0,5\n60,6\n")
    url = f"mqtt://127.0.0.1:{free_port()}"
    assert main(["replay", str(tmp_path / "trace.csv"), "--speed", "max", "--url", url]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"replay: {url}: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--speed", "0", "0 is not a factor above 0, nor max"),
        ("--speed", "nan", "nan is not a factor above 0, nor max"),
        ("--meters", "0", "0 is not a number of meters"),
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
