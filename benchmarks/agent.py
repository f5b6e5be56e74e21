"""The agent through a real broker, beside what passes messages on without making them private.

`python -m benchmarks.agent [--out FILE]`. Each contestant stands alone between the topics of a mosquitto:
20 meters, a reading a slot, 1,000 on their way at any time; then 500 a second for the time that each
adds. The agent decodes, draws exact noise, charges the ledger, commits to disk with fsync, acknowledges
and sends a record for every reading; the others pass the payload on. At QoS 0 readings come at QoS 0, and so
they are passed on; the agent's records leave at QoS 1 all the same. Rates are records a second at the
receiver, CPU time is the contestant's own.
"""

import asyncio
from dataclasses import dataclass
from statistics import quantiles

from benchmarks.contestants import Contestant, Standing, agent, bridge, forwarder, in_c, mosquitto_version
from benchmarks.harness import ROUNDS, Result, report
from benchmarks.wire import ClosedLoop, Paced

METERS, OUTSTANDING, PACE_PER_S = 20, 1000, 500
WARM_S, SECONDS, LATENCY_S = 1.0, 2.5, 6.0
ADDED_S = 0.010
GOALS = {"gmqtt": 0.7, "aiomqtt": 4.0}
AT_QOS_0 = ("agent", "gmqtt", "C")
NAMES = {
    "gmqtt": "gmqtt, two connections",
    "aiomqtt": "aiomqtt, TCP_NODELAY",
    "C": "libmosquitto in C",
    "bridge": "mosquitto's bridge",
}


@dataclass(frozen=True)
class Rate:
    """Records a second, and CPU seconds for 100,000 of them."""

    per_s: float
    cpu_s: float


async def rate(standing: Standing, qos: int) -> Rate:
    """How many records a second pass, in a closed loop."""
    load = ClosedLoop(METERS, qos)
    await load.connect(standing.source_port, standing.sink_port)
    await load.begin(OUTSTANDING)
    await asyncio.sleep(WARM_S)
    before_s, before, began_s = standing.cpu_s, load.received, asyncio.get_running_loop().time()
    await asyncio.sleep(SECONDS)
    passed, took_s = load.received - before, asyncio.get_running_loop().time() - began_s
    used_s = standing.cpu_s - before_s
    load.close()
    return Rate(passed / took_s, used_s / max(passed, 1) * 100_000)


async def latency_s(standing: Standing, qos: int) -> tuple[float, float]:
    """The median and the 99th percentile of the time from a reading to the record that it makes leave."""
    load = Paced(METERS, qos)
    await load.connect(standing.source_port, standing.sink_port)
    await load.run(PACE_PER_S, WARM_S + LATENCY_S)
    load.close()
    cuts = quantiles(load.latencies_s[round(WARM_S * PACE_PER_S) :], n=100)
    return cuts[49], cuts[98]


def contestants() -> dict[str, Contestant]:
    """All that there are on this machine, the agent first."""
    found: dict[str, Contestant] = {"agent": agent()}
    found |= {name: forwarder(name) for name in ("gmqtt", "aiomqtt")}
    compiled = in_c()
    return found | ({} if compiled is None else {"C": compiled}) | {"bridge": bridge}


def throughput(qos: int, peers: dict[str, Contestant]) -> list[Result]:
    """Records a second of all, in every round; each round begins with another."""
    rounds: list[dict[str, Rate]] = []
    names = list(peers)
    for count in range(ROUNDS):
        rounds.append({})
        for name in names[count % len(names) :] + names[: count % len(names)]:
            with peers[name](qos) as standing:
                rounds[-1][name] = asyncio.run(rate(standing, qos))
    results = []
    for name in peers:
        if name == "agent":
            continue
        ratios = tuple(seen["agent"].per_s / seen[name].per_s for seen in rounds)
        costs = tuple(seen[name].cpu_s / seen["agent"].cpu_s for seen in rounds)
        ours, theirs = rounds[-1]["agent"], rounds[-1][name]
        goal = GOALS.get(name) if qos else None
        what = f"records a second, QoS {qos}, closed loop of 1,000"
        note = f"{ours.per_s:,.0f} and {theirs.per_s:,.0f} a second"
        results.append(Result(what, NAMES[name], ratios, goal, note))
        note = f"{ours.cpu_s:.2f} and {theirs.cpu_s:.2f} CPU s for 100,000"
        results.append(Result(f"CPU time a record, QoS {qos}", NAMES[name], costs, None, note))
    return results


def delay(qos: int, peers: dict[str, Contestant]) -> list[Result]:
    """The median and the 99th percentile at 500 readings a second: the limit is gmqtt's and 10 ms."""
    rounds: list[dict[str, tuple[float, float]]] = []
    for _ in range(ROUNDS):
        rounds.append({})
        for name in ("agent", "gmqtt"):
            with peers[name](qos) as standing:
                rounds[-1][name] = asyncio.run(latency_s(standing, qos))
    results = []
    for place, (which, goal) in enumerate((("median", None), ("p99", 1.0))):
        ratios = tuple((seen["gmqtt"][place] + ADDED_S) / seen["agent"][place] for seen in rounds)
        ours, theirs = (1000 * rounds[-1][name][place] for name in ("agent", "gmqtt"))
        note = f"{ours:.1f} and {theirs:.1f} ms"
        what = f"latency at 500/s, {which}, + 10 ms allowed"
        results.append(Result(what, NAMES["gmqtt"], ratios, goal, note))
    return results


def main() -> None:
    """Measures everything here."""
    peers = contestants()
    if "C" not in peers:
        print("libmosquitto in C: not built (gcc and libmosquitto-dev are not both there)")
    few = {name: one for name, one in peers.items() if name in AT_QOS_0}
    results = [*throughput(1, peers), *throughput(0, few), *delay(1, peers)]
    report(results, ["gmqtt", "aiomqtt", "paho-mqtt"], {"mosquitto": mosquitto_version()})


if __name__ == "__main__":
    main()
