"""A load trace as MQTT meters: at real time, a factor of it, or as fast as the broker takes it; or to a file.

Each reading leaves as ``{"t": <Unix seconds>, "power": <watts as in the trace>}`` at QoS 1, from every meter
(they all replay the same trace), in order, with a bounded number on the way. A reading is due at the
start + its time since the first one / the speed, whatever became of those before it: delays do not add up.
In a loop the first reading of a lap comes a nominal step after the last one of the lap before. The very
last one sent repeats the value a nominal step after the trace's end; a file does without.
"""

import argparse
import asyncio
import math
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from aiomqtt import MqttError
from tqdm import tqdm

from meteragent.domain.grid import iso_time, parse_duration, parse_time
from simulators.trace import Trace, load, write
from simulators.wire import broker, connect, lost, publish

__all__ = ["add_arguments", "connect", "lost", "payloads", "replay", "run"]

T = TypeVar("T")

_MQTT: dict[str, Any] = {
    "url": "mqtt://127.0.0.1:1883",
    "topic": "meters/{meter}/power",
    "meters": 1,
    "speed": 1.0,
}
"""The options that a file has no use for, and what they are where none is given."""
_END_MS = parse_time("9999-12-31T23:59:59Z")


def payloads(trace: Trace) -> Iterator[bytes]:
    """The readings of a trace as JSON; times have decimals only where they have milliseconds."""
    for time_ms, watts in zip(trace.times_ms.tolist(), trace.watts.tolist(), strict=True):
        seconds, millis = divmod(time_ms, 1000)
        fraction = f".{millis:03d}" if millis else ""
        yield f'{{"t": {seconds}{fraction}, "power": {watts!r}}}'.encode()


async def replay(
    trace: Trace, url: str, topic: str, meters: int = 1, speed: float = math.inf, loops: int = 1
) -> int:
    """Publish a trace as meters m1 .. m<meters>, `speed` times as fast as it was measured.

    `{meter}` in the topic is the meter's name; `loops` is as in `Trace.laps`. Returns how many readings the
    broker has acknowledged: all. An endless one (loops 0) ends, and returns, when its task is cancelled.
    Raises MqttError when the broker is away or does not acknowledge.
    """
    acknowledged = 0
    topics = [topic.replace("{meter}", f"m{number}") for number in range(1, meters + 1)]

    async def messages() -> AsyncIterator[tuple[str, bytes]]:
        async for payload in paced(trace, speed, loops):
            for name in topics:
                yield name, payload

    total = (loops * (len(trace) - 1) + 1) * meters if loops else None
    with tqdm(total=total, unit=" readings", disable=None) as bar:

        def one_more() -> None:
            nonlocal acknowledged
            acknowledged += 1
            bar.update()

        try:
            async with connect(url) as client:
                await publish(client, messages(), one_more)
        except asyncio.CancelledError:
            if loops:
                raise
    return acknowledged


async def paced(trace: Trace, speed: float, loops: int = 1) -> AsyncIterator[bytes]:
    """The payloads of the laps of a trace, each at its time; the first one at once."""
    start_s, first_ms = time.monotonic(), int(trace.times_ms[0])
    for lap in trace.laps(loops):
        for time_ms, payload in zip(lap.times_ms.tolist(), payloads(lap), strict=True):
            left_s = start_s + (time_ms - first_ms) / 1000 / speed - time.monotonic()
            if left_s > 0:
                await asyncio.sleep(left_s)
            yield payload


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `python -m simulators replay` takes."""
    add = parser.add_argument
    add("trace", metavar="TRACE", help="a Parquet or CSV file: time, watts")
    add("--url", type=_refusing(_url), help=f"default {_MQTT['url']}")
    add("--topic", help=f"default {_MQTT['topic']}")
    add("--meters", type=_refusing(_meters), metavar="N", help="m1 .. mN send the same trace")
    add("--speed", type=_refusing(_speed), metavar="FACTOR", help="1, the default, is real time; or max")
    add("--out", type=_refusing(_out), metavar="FILE.csv|FILE.parquet", help="to this file, not to MQTT")
    add("--time", metavar="COLUMN", help="the column of times; default: the first")
    add("--watts", metavar="COLUMN", help="the column of watts; default: the second")
    add("--start", type=_refusing(_start), default="column", help="RFC 3339, now or column (as in the trace)")
    add("--limit", type=_refusing(parse_duration), metavar="DURATION", help="only its start, such as 31d")
    add("--loop", type=_refusing(_loops), default=1, metavar="N", help="N times; 0: until interrupted")


def run(arguments: argparse.Namespace) -> int:
    """Replay and print a summary; 1: the broker or the disk failed, 2: no trace, or no sense."""
    try:
        _agree(arguments)
        trace = _trace(arguments)
    except ValueError as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    start_s = time.monotonic()
    try:
        count, done = _done(trace, arguments)
    except (MqttError, OSError) as error:
        print(f"replay: {arguments.out or arguments.url or _MQTT['url']}: {error}", file=sys.stderr)
        return 1
    took_s = time.monotonic() - start_s
    print(f"{count:,} readings {done}, in {took_s:.1f} s ({count / took_s:,.0f}/s)")
    return 0


def _agree(arguments: argparse.Namespace) -> None:
    """Raise ValueError where one option makes no sense with another."""
    if arguments.out is None:
        return
    for name in _MQTT:
        if getattr(arguments, name) is not None:
            raise ValueError(f"--{name} is for MQTT and --out writes a file: leave out one of them")
    if not arguments.loop:
        raise ValueError("--loop 0 never ends, and --out writes a file that does: give --loop N")
    if arguments.out.resolve() == Path(arguments.trace).resolve():
        raise ValueError(f"--out would replace the trace {arguments.trace}: give another file")


def _trace(arguments: argparse.Namespace) -> Trace:
    """The ended trace of the arguments; ValueError: it is none, or leaves the calendar."""
    trace = load(arguments.trace, arguments.time, arguments.watts)
    trace = trace if arguments.limit is None else trace.limited(arguments.limit)
    trace = (trace if arguments.start is None else trace.starting(arguments.start)).ended()
    if _last_ms(trace, arguments.loop) > _END_MS:
        raise ValueError("the readings would go on after the year 9999: start earlier or loop less")
    return trace


def _done(trace: Trace, arguments: argparse.Namespace) -> tuple[int, str]:
    """Send or write; returns how many readings, and what was done with them."""
    first = iso_time(int(trace.times_ms[0]))
    span = f"{first} to {iso_time(_last_ms(trace, arguments.loop))}" if arguments.loop else f"{first} on"
    if arguments.out is None:
        given = {name: getattr(arguments, name) for name in _MQTT}
        mqtt = {name: _MQTT[name] if value is None else value for name, value in given.items()}
        return asyncio.run(replay(trace, **mqtt, loops=arguments.loop)), f"sent, {span}"
    with tqdm(total=arguments.loop * (len(trace) - 1), unit=" readings", disable=None) as bar:
        return write(trace, arguments.out, arguments.loop, bar.update), f"in {arguments.out}, {span}"


def _last_ms(trace: Trace, loops: int) -> int:
    """When the last lap ends; of an endless one the first."""
    first_ms, end_ms = int(trace.times_ms[0]), int(trace.times_ms[-1])
    return first_ms + (loops or 1) * (end_ms - first_ms)


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


def _loops(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text} is not a number of times, nor 0 for ever")
    return int(text)


def _out(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"{text} is neither FILE.csv nor FILE.parquet")
    return path


def _speed(text: str) -> float:
    speed = math.inf if text == "max" else float(text)
    if not speed > 0:
        raise ValueError(f"{text} is not a factor above 0, nor max")
    return speed


def _start(text: str) -> int | None:
    if text == "now":
        return time.time_ns() // 1_000_000
    return None if text == "column" else parse_time(text)
