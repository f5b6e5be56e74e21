"""A load trace as MQTT meters: at real time, a factor of it, or as fast as the broker takes it.

Each reading leaves as ``{"t": <Unix seconds>, "power": <watts as in the trace>}`` at QoS 1, from every meter
(they all replay the same trace), in order, with a bounded number on the way. The last one
repeats the value a nominal step after the trace's end.
"""

import argparse
import asyncio
import math
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

from aiomqtt import MqttError
from tqdm import tqdm

from meteragent.grid import iso_time, parse_duration, parse_time
from simulators.trace import Trace, TraceError, load
from simulators.wire import broker, connect, lost, publish

__all__ = ["add_arguments", "connect", "lost", "payloads", "replay", "run"]

T = TypeVar("T")


def payloads(trace: Trace) -> Iterator[bytes]:
    """The readings of a trace as JSON; times have decimals only where they have milliseconds."""
    for time_ms, watts in zip(trace.times_ms.tolist(), trace.watts.tolist(), strict=True):
        seconds, millis = divmod(time_ms, 1000)
        fraction = f".{millis:03d}" if millis else ""
        yield f'{{"t": {seconds}{fraction}, "power": {watts!r}}}'.encode()


async def replay(trace: Trace, url: str, topic: str, meters: int = 1, speed: float = math.inf) -> int:
    """Publish a trace as meters m1 .. m<meters>, `speed` times as fast as it was measured.

    `{meter}` in the topic is the meter's name. Returns how many readings the broker has acknowledged: all.
    Raises MqttError when it is away or does not acknowledge.
    """
    topics = [topic.replace("{meter}", f"m{number}") for number in range(1, meters + 1)]

    async def messages() -> AsyncIterator[tuple[str, bytes]]:
        async for payload in paced(trace, speed):
            for name in topics:
                yield name, payload

    async with connect(url) as client:
        with tqdm(total=len(trace) * meters, unit=" readings", disable=None) as bar:
            await publish(client, messages(), bar.update)
    return len(trace) * meters


async def paced(trace: Trace, speed: float) -> AsyncIterator[bytes]:
    """The payloads of a trace, each at its time; the first one at once."""
    start_s, first_ms = time.monotonic(), int(trace.times_ms[0])
    for time_ms, payload in zip(trace.times_ms.tolist(), payloads(trace), strict=True):
        left_s = start_s + (time_ms - first_ms) / 1000 / speed - time.monotonic()
        if left_s > 0:
            await asyncio.sleep(left_s)
        yield payload


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `python -m simulators replay` takes."""
    add = parser.add_argument
    add("trace", metavar="TRACE", help="a Parquet or CSV file: time, watts")
    add("--url", type=_refusing(_url), default="mqtt://127.0.0.1:1883", help="default %(default)s")
    add("--topic", default="meters/{meter}/power", help="default %(default)s")
    add("--meters", type=_refusing(_meters), default=1, metavar="N", help="m1 .. mN send the same trace")
    add("--speed", type=_refusing(_speed), default=1.0, metavar="FACTOR", help="1 is real time; or max")
    add("--time", metavar="COLUMN", help="the column of times; default: the first")
    add("--watts", metavar="COLUMN", help="the column of watts; default: the second")
    add("--start", type=_refusing(_start), default="column", help="RFC 3339, now or column (as in the trace)")
    add("--limit", type=_refusing(parse_duration), metavar="DURATION", help="only its start, such as 31d")


def run(arguments: argparse.Namespace) -> int:
    """Replay as the arguments say and print a summary; 1: the broker failed, 2: it is no trace."""
    try:
        trace = load(arguments.trace, arguments.time, arguments.watts)
        trace = trace if arguments.limit is None else trace.limited(arguments.limit)
    except TraceError as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    trace = (trace if arguments.start is None else trace.starting(arguments.start)).ended()
    start_s = time.monotonic()
    try:
        sent = asyncio.run(replay(trace, arguments.url, arguments.topic, arguments.meters, arguments.speed))
    except MqttError as error:
        print(f"replay: {arguments.url}: {error}", file=sys.stderr)
        return 1
    print(_summary(trace, sent, time.monotonic() - start_s))
    return 0


def _summary(trace: Trace, sent: int, took_s: float) -> str:
    first, last = (iso_time(int(trace.times_ms[index])) for index in (0, -1))
    return f"{sent:,} readings sent, {first} to {last}, in {took_s:.1f} s ({sent / took_s:,.0f}/s)"


def _refusing(parse: Callable[[str], T]) -> Callable[[str], T]:
    """The same for argparse, which shows the text of its own error only."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def _url(text: str) -> str:
    broker(text)
    return text


def _meters(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{text} is not a number of meters")
    return int(text)


def _speed(text: str) -> float:
    speed = math.inf if text == "max" else float(text)
    if not speed > 0:
        raise ValueError(f"{text} is not a factor above 0, nor max")
    return speed


def _start(text: str) -> int | None:
    if text == "now":
        return time.time_ns() // 1_000_000
    return None if text == "column" else parse_time(text)
