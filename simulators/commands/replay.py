"""Replay a load trace over MQTT (in real time, faster, slower or at full speed), or write it to a file.

Each reading is sent as ``{"t": <Unix seconds>, "power": <watts as in the trace>}`` at QoS 1, from every meter
(they all replay the same trace), in order, with a limit on unacknowledged messages. A reading is due at start
+ (its time since the first reading) / speed, regardless of earlier readings, so delays do not add up. In a
loop, each lap begins a nominal step after the last reading of the previous lap. Over MQTT, a final reading
repeats the last value a nominal step later.
"""

import argparse
import asyncio
import math
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from aiomqtt import MqttError
from tqdm import tqdm

from meteragent.domain.grid import iso_time, parse_time
from simulators.commands.arguments import MQTT
from simulators.traces.dataset import load
from simulators.traces.trace import Trace, write
from simulators.wire import connect, lost, publish

__all__ = ["connect", "lost", "payloads", "replay", "run"]

_END_MS = parse_time("9999-12-31T23:59:59Z")


def payloads(trace: Trace) -> Iterator[bytes]:
    """Yield the readings of a trace as JSON; times have decimals only if they are not whole seconds."""
    for time_ms, watts in zip(trace.times_ms.tolist(), trace.watts.tolist(), strict=True):
        seconds, millis = divmod(time_ms, 1000)
        fraction = f".{millis:03d}" if millis else ""
        yield f'{{"t": {seconds}{fraction}, "power": {watts!r}}}'.encode()


async def replay(
    trace: Trace, url: str, topic: str, meters: int = 1, speed: float = math.inf, loops: int = 1
) -> int:
    """Publish a trace from meters m1 .. m<meters>, `speed` times as fast as it was measured.

    `{meter}` in the topic stands for the meter's name; for `loops` see `Trace.laps`. Return the number of
    readings once the broker has acknowledged all of them. An endless replay (`loops` 0) returns when its
    task is cancelled. Raises MqttError if the broker cannot be reached or the connection is lost.
    """
    acknowledged = 0
    topics = [topic.replace("{meter}", f"m{number}") for number in range(1, meters + 1)]

    async def messages() -> AsyncIterator[tuple[str, bytes]]:
        """Yield each payload for every meter."""
        async for payload in paced(trace, speed, loops):
            for name in topics:
                yield name, payload

    total = (loops * (len(trace) - 1) + 1) * meters if loops else None
    with tqdm(total=total, unit=" readings", disable=None) as bar:

        def count_one() -> None:
            """Count an acknowledged reading."""
            nonlocal acknowledged
            acknowledged += 1
            bar.update()

        try:
            async with connect(url) as client:
                await publish(client, messages(), count_one)
        except asyncio.CancelledError:
            if loops:
                raise
    return acknowledged


async def paced(trace: Trace, speed: float, loops: int = 1) -> AsyncIterator[bytes]:
    """Yield each payload of a trace's laps when it is due; the first payload is due at once."""
    start_s, first_ms = time.monotonic(), int(trace.times_ms[0])
    for lap in trace.laps(loops):
        for time_ms, payload in zip(lap.times_ms.tolist(), payloads(lap), strict=True):
            pause_s = start_s + (time_ms - first_ms) / 1000 / speed - time.monotonic()
            if pause_s > 0:
                await asyncio.sleep(pause_s)
            yield payload


def run(arguments: argparse.Namespace) -> int:
    """Replay a trace and print a summary.

    Return 1 if the broker or the disk fails, 2 if the trace or an option cannot be used, and otherwise 0.
    """
    try:
        _check_options(arguments)
        trace = _load_trace(arguments)
    except ValueError as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    start_s = time.monotonic()
    try:
        count, target = _send_or_write(trace, arguments)
    except (MqttError, OSError) as error:
        print(f"replay: {arguments.out or arguments.url or MQTT['url']}: {error}", file=sys.stderr)
        return 1
    duration_s = time.monotonic() - start_s
    print(f"{count:,} readings {target}, in {duration_s:.1f} s ({count / duration_s:,.0f}/s)")
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    """Raise ValueError if options contradict each other, or if --out would replace the trace."""
    if arguments.out is None:
        return
    for name in MQTT:
        if getattr(arguments, name) is not None:
            raise ValueError(f"--{name} is for MQTT and --out writes a file: leave out one of them")
    if not arguments.loop:
        raise ValueError("--out cannot write an endless file: give --loop N instead of --loop 0")
    if arguments.out.resolve() == Path(arguments.trace).resolve():
        raise ValueError(f"--out would replace the trace {arguments.trace}: give another file")


def _load_trace(arguments: argparse.Namespace) -> Trace:
    """Load the trace that the arguments name, and append its final reading. Raises ValueError on failure."""
    csv = None if arguments.timezone is None else {"timezone": arguments.timezone}
    trace = load(arguments.trace, watts=arguments.watts, unit=arguments.unit, time=arguments.time, csv=csv)
    trace = trace if arguments.limit is None else trace.limited(arguments.limit)
    trace = (trace if arguments.start is None else trace.starting(arguments.start)).ended()
    if _last_ms(trace, arguments.loop) > _END_MS:
        raise ValueError("the readings would continue past the year 9999: start earlier or loop less often")
    return trace


def _send_or_write(trace: Trace, arguments: argparse.Namespace) -> tuple[int, str]:
    """Send or write the trace; return the number of readings, and a text with their target and time span."""
    start = iso_time(int(trace.times_ms[0]))
    span = f"{start} to {iso_time(_last_ms(trace, arguments.loop))}" if arguments.loop else f"{start} on"
    if arguments.out is None:
        options = {name: getattr(arguments, name) for name in MQTT}
        mqtt = {name: MQTT[name] if value is None else value for name, value in options.items()}
        return asyncio.run(replay(trace, **mqtt, loops=arguments.loop)), f"sent, {span}"
    with tqdm(total=arguments.loop * (len(trace) - 1), unit=" readings", disable=None) as bar:
        return write(trace, arguments.out, arguments.loop, bar.update), f"in {arguments.out}, {span}"


def _last_ms(trace: Trace, loops: int) -> int:
    """Return the time at which the last lap ends, or the first lap in an endless replay."""
    first_ms, end_ms = int(trace.times_ms[0]), int(trace.times_ms[-1])
    return first_ms + (loops or 1) * (end_ms - first_ms)
