"""The agent through a real broker, compared with programs that forward messages unchanged.

`python -m benchmarks.agent [--out FILE]`. Each contestant runs alone. It receives readings from a mosquitto
broker and sends records to the same broker; a bridge sends them to a second broker. There are 20 meters, with
one reading per slot. Throughput is measured with 1,000 readings in flight, latency at 500 readings a second.
For every reading, the agent decodes, draws exact noise, charges the ledger, commits to disk with fsync (many
readings at once), acknowledges and sends a record; the others forward the payload. In the QoS 0 rows, the
contestants receive and forward at QoS 0, but the agent still publishes at QoS 1. Rates are records per second
at the receiver. CPU time and memory are those of the contestant's process or, with a bridge, of the broker
that runs the bridge.

One reading per slot is the worst case. The ordinary case is 100 meters with a reading every 10 s and windows
of half an hour: one reading in 180 opens a window, and the other 179 are only decoded, counted and committed.
The CPU time of a reading that opens no window is measured, too. Times come from the payloads, so the
benchmark can run faster than real time.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from statistics import quantiles
from typing import Any, TypeVar

from benchmarks.contestants import (
    Contestant,
    RunningContestant,
    agent,
    bridge,
    forwarder,
    in_c,
    mosquitto_version,
)
from benchmarks.harness import ROUNDS, Result, compare, report
from benchmarks.wire import ClosedLoop, Paced

METERS, OUTSTANDING, PACE_PER_S = 20, 1000, 500
WARM_S, SECONDS, LATENCY_S = 1.0, 2.0, 4.0
ADDED_MS = 10
ORDINARY_METERS, ORDINARY_PER_S, ORDINARY_S = 100, 1000, 3.0
ORDINARY_STEP_S, BEFORE_A_WINDOW_S = 10, 1_699_999_200 - 10
GOALS = {"gmqtt": 0.7, "aiomqtt": 4.0}
LATENCY_OF = ("agent", "gmqtt", "aiomqtt")
NAMES = {
    "gmqtt": "gmqtt, two connections",
    "aiomqtt": "aiomqtt, TCP_NODELAY",
    "C": "libmosquitto in C",
    "bridge": "mosquitto's bridge",
}

Measured = TypeVar("Measured")
Rounds = Sequence[dict[str, Measured]]
"""The measurements of each contestant, by name, round by round."""


@dataclass(frozen=True)
class Rate:
    """Records per second, CPU seconds per 100,000 records, and the resident memory at the end in MB."""

    per_s: float
    cpu_s: float
    memory_mb: float


async def rate(running: RunningContestant, qos: int) -> Rate:
    """Measure the records per second in a closed loop, the CPU time per record, and the memory at the end."""
    load = ClosedLoop(METERS, qos)
    await load.connect(running.source_port, running.sink_port)
    await load.begin(OUTSTANDING)
    await asyncio.sleep(WARM_S)
    start_cpu_s, start_count, start_s = running.cpu_s, load.record_count, asyncio.get_running_loop().time()
    await asyncio.sleep(SECONDS)
    records, duration_s = load.record_count - start_count, asyncio.get_running_loop().time() - start_s
    cpu_s, memory_mb = running.cpu_s - start_cpu_s, running.memory_mb
    load.close()
    return Rate(records / duration_s, cpu_s / max(records, 1) * 100_000, memory_mb)


async def latency_s(running: RunningContestant, qos: int) -> tuple[float, float]:
    """Return the median and the 99th percentile of a record's latency, each in s.

    The latency is the time from the reading that releases the record to the record's arrival. The latencies
    of the first `WARM_S` seconds are not counted. Raises AssertionError if a record is lost.
    """
    load = Paced(METERS, qos, behind=running.behind)
    await load.connect(running.source_port, running.sink_port)
    await load.run(PACE_PER_S, WARM_S + LATENCY_S)
    load.close()
    if load.record_count < load.reading_count - running.behind * METERS:
        raise AssertionError("the contestant lost records")
    cuts = quantiles(load.latencies_s[round(WARM_S * PACE_PER_S) :], n=100)
    return cuts[49], cuts[98]


async def ordinary_cpu_s(running: RunningContestant, qos: int) -> float:
    """Return the CPU time per reading that opens no window, in s; all windows are already open."""
    load = Paced(ORDINARY_METERS, qos, BEFORE_A_WINDOW_S, ORDINARY_STEP_S)
    await load.connect(running.source_port, running.sink_port)
    await load.run(ORDINARY_PER_S, WARM_S)
    start_cpu_s, start_count = running.cpu_s, load.reading_count
    await load.run(ORDINARY_PER_S, ORDINARY_S)
    cpu_s, readings = running.cpu_s - start_cpu_s, load.reading_count - start_count
    load.close()
    return cpu_s / readings


def contestants() -> dict[str, Contestant]:
    """Return all contestants on this machine, the agent first."""
    peers: dict[str, Contestant] = {"agent": agent()}
    peers |= {name: forwarder(name) for name in ("gmqtt", "aiomqtt")}
    c_forwarder = in_c()
    return peers | ({} if c_forwarder is None else {"C": c_forwarder}) | {"bridge": bridge}


def measure_interleaved(
    peers: dict[str, Contestant],
    qos: int,
    measure: Callable[[RunningContestant, int], Coroutine[Any, Any, Measured]],
) -> list[dict[str, Measured]]:
    """Measure all contestants in every round; the contestant that begins changes from round to round."""
    rounds: list[dict[str, Measured]] = []
    names = list(peers)
    for count in range(ROUNDS):
        rounds.append({})
        for name in names[count % len(names) :] + names[: count % len(names)]:
            with peers[name](qos) as running:
                rounds[-1][name] = asyncio.run(measure(running, qos))
    return rounds


def throughput(qos: int, rounds: Rounds[Rate]) -> list[Result]:
    """Compare records per second, CPU time and memory with those of each peer."""
    results = []
    for name in rounds[0]:
        if name == "agent":
            continue
        pairs = [(times_by_name["agent"], times_by_name[name]) for times_by_name in rounds]
        goal = GOALS.get(name) if qos else None
        row_name = f"records a second, QoS {qos}, closed loop of 1,000"
        per_s = [(ours.per_s, theirs.per_s) for ours, theirs in pairs]
        results.append(
            compare(row_name, NAMES[name], per_s, "{:,.0f} and {:,.0f} a second", are_rates=True, goal=goal)
        )
        cpu_s = [(ours.cpu_s, theirs.cpu_s) for ours, theirs in pairs]
        text = "{:.2f} and {:.2f} CPU s per 100,000 records"
        results.append(compare(f"CPU time per record, QoS {qos}", NAMES[name], cpu_s, text))
        memory_mb = [(ours.memory_mb, theirs.memory_mb) for ours, theirs in pairs]
        text = "{:.1f} and {:.1f} MB"
        results.append(compare(f"memory after the load, QoS {qos}", NAMES[name], memory_mb, text))
    return results


def delay(rounds: Rounds[tuple[float, float]]) -> list[Result]:
    """Compare the median and the 99th percentile of the latency at 500 readings per second.

    A ratio is the peer's latency plus 10 ms, divided by the agent's. Only the 99th percentile, compared with
    gmqtt's, has a goal.
    """
    results = []
    for index, (statistic, goal) in enumerate((("median", None), ("p99", 1.0))):
        for name in rounds[0]:
            if name == "agent":
                continue
            durations_ms = [
                (1000 * times_s["agent"][index], 1000 * times_s[name][index]) for times_s in rounds
            ]
            results.append(
                compare(
                    f"latency at 500/s, {statistic}, + {ADDED_MS} ms allowed",
                    NAMES[name],
                    durations_ms,
                    "{:.1f} and {:.1f} ms",
                    goal=goal if name == "gmqtt" else None,
                    allow=lambda theirs_ms: theirs_ms + ADDED_MS,
                )
            )
    return results


def ordinary() -> Result:
    """Compare the CPU time of a reading that opens no window with that of a forwarded message."""
    sides = {"agent": agent(length="30min"), "gmqtt": forwarder("gmqtt")}
    rounds = measure_interleaved(sides, 1, ordinary_cpu_s)
    durations_us = [(1e6 * times_s["agent"], 1e6 * times_s["gmqtt"]) for times_s in rounds]
    text = "{:.0f} and {:.0f} us of CPU, 1,000 a second"
    return compare("CPU time of a reading that opens no window, QoS 1", NAMES["gmqtt"], durations_us, text)


def main() -> None:
    """Run the benchmark, and print its results."""
    peers = contestants()
    results = [
        *throughput(1, measure_interleaved(peers, 1, rate)),
        *throughput(0, measure_interleaved(peers, 0, rate)),
    ]
    results += delay(measure_interleaved({name: peers[name] for name in LATENCY_OF}, 1, latency_s))
    results.append(ordinary())
    report(results, ["gmqtt", "aiomqtt", "paho-mqtt"], {"mosquitto": mosquitto_version()})


if __name__ == "__main__":
    main()
