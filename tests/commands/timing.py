"""Test whether timing reveals the load: ``python tests/commands/timing.py [--seconds N] [--samples N]``.

(a) When records leave: one agent between a broker and a receiver, with windows of a second. In turns of ten
seconds the home is quiet (a reading every five seconds) and busy (`--busy`). The delays from the slot's end
to the record's arrival are compared: means, Kolmogorov-Smirnov, Mann-Whitney.

(b) How long it takes to close a slot and write its record. The same released value consists of noise alone or
of load alone, in random order. Welch's t and the effect size leave out the slowest hundredth.
"""

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import aiomqtt
import numpy as np
from scipy import stats

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from meteragent import config  # noqa: E402
from meteragent.core.window import Window  # noqa: E402
from meteragent.domain.grid import parse_time  # noqa: E402
from meteragent.domain.terms import Terms  # noqa: E402
from meteragent.wire.descriptor import describe_terms  # noqa: E402
from meteragent.wire.record import RecordFormat  # noqa: E402
from simulators.commands.replay import connect  # noqa: E402
from tests.support.broker import Broker, mosquitto_program  # noqa: E402
from tests.support.configurations import written  # noqa: E402

BATCH = 1000
TURN_S, EDGE_S = 10, 1
"""The length of a turn, and the time around a change of turns in which slots are left out."""
FLAT_PER_S = 0.2


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--busy", type=float, default=20.0, help="readings a second of the busy home")
    parser.add_argument("--spread", default="0s", help="as in the configuration")
    parser.add_argument("--flush", default="0s", help="as in the configuration")
    options = parser.parse_args()
    if options.samples:
        _closing(options.samples)
    if options.seconds:
        asyncio.run(_leaving(options.seconds, options.busy, options.spread, options.flush))


# (a) ----------------------------------------------------------------------------------------------


async def _leaving(seconds: int, busy_per_s: float, spread: str, flush: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Broker(_mosquitto(), folder) as broker:
            source, store = f"url = '{broker.url}'", f"path = '{folder}/db'\nflush = '{flush}'"
            text = written(source=source, window="length = '1s'", sink=f"spread = '{spread}'", store=store)
            (folder / "a.toml").write_text(text)
            line = [sys.executable, "-m", "meteragent", "run", str(folder / "a.toml")]
            agent = await asyncio.create_subprocess_exec(*line, cwd=ROOT, stderr=subprocess.DEVNULL)
            try:
                delays = await _delays(broker.url, seconds, busy_per_s)
            finally:
                agent.terminate()
                await agent.wait()
    _compare("leaving, ms after the slot's end", delays["flat"], delays["busy"], ("flat", "busy"))


def _mosquitto() -> Path:
    program = mosquitto_program()
    if program is None:
        raise SystemExit("mosquitto is needed")
    return program


async def _delays(url: str, seconds: int, busy_per_s: float) -> dict[str, list[float]]:
    """Return the delays in ms, by the home's turn when the slot ended."""
    delays: dict[str, list[float]] = {"flat": [], "busy": []}
    async with connect(url) as receiver, connect(url) as meter:
        await receiver.subscribe("private/+/power", qos=1)
        began_s = time.time()
        feeding = asyncio.create_task(_feed(meter, began_s + seconds, busy_per_s))
        async for message in receiver.messages:
            now_s = time.time()
            start = bytes(message.payload).partition(b'"t":"')[2].partition(b'"')[0].decode()
            end_s = parse_time(start) / 1000 + 1
            into_s = (end_s - 1) % TURN_S
            if end_s > began_s + TURN_S and EDGE_S <= into_s < TURN_S - EDGE_S:
                delays[_mood(end_s - 1)].append(1000 * (now_s - end_s))
            if now_s > began_s + seconds:
                break
        await feeding
    return delays


def _mood(time_s: float) -> str:
    return "busy" if int(time_s // TURN_S) % 2 else "flat"


async def _feed(meter: aiomqtt.Client, until_s: float, busy_per_s: float) -> None:
    """Publish readings at random moments, which do not align with the grid of the slots."""
    chance = random.Random(1)
    while time.time() < until_s:
        await asyncio.sleep(chance.expovariate(busy_per_s if _mood(time.time()) == "busy" else FLAT_PER_S))
        await meter.publish("meters/m1/power", b"%d" % chance.randrange(3000), qos=1)


# (b) ----------------------------------------------------------------------------------------------


def _closing(samples: int) -> None:
    """Compare slots of load with slots of noise that have the same sum."""
    stream = config.parse(written()).stream[0]
    terms, chance = config.terms(stream), random.Random(1)
    records = RecordFormat.of(describe_terms(terms))
    durations: dict[str, list[float]] = {"noise": [], "load": []}
    for _ in range(samples // BATCH):
        kinds = chance.choices(list(durations), k=BATCH)
        batch = [(kind, _window(terms, kind, chance.randrange(1000, 9999))) for kind in kinds]
        for kind, window in batch:
            durations[kind].append(_timed(lambda: records.encode("m", 0, 0, window.close_slot(0))))  # noqa: B023
    _compare("closing and writing, microseconds", durations["noise"], durations["load"], ("noise", "load"))


def _window(terms: Terms, kind: str, quanta: int) -> Window:
    """Return a window whose slot is due and will release `quanta`, all noise or all load."""
    window = Window(0, terms, terms.id, (), "m", 20_000)
    window.open_slot(quanta if kind == "noise" else 0, 0, 0)
    window.add_value(0, terms.length_ms, 0 if kind == "noise" else quanta * terms.quantum_u)
    return window


def _timed(work: Callable[[], object]) -> float:
    start_ns = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start_ns) / 1000


def _compare(title: str, x: Sequence[float], y: Sequence[float], names: tuple[str, str]) -> None:
    """Print the difference between two samples, and tests of it."""
    a, b = (np.sort(np.asarray(sample))[: int(len(sample) * 0.99)] for sample in (x, y))
    difference, pooled = b.mean() - a.mean(), float(np.hypot(a.std(ddof=1), b.std(ddof=1)) / 2**0.5)
    error = float(np.hypot(a.std(ddof=1) / len(a) ** 0.5, b.std(ddof=1) / len(b) ** 0.5))
    welch = stats.ttest_ind(a, b, equal_var=False)
    print(f"{title}: {names[0]} n = {len(a)}, {names[1]} n = {len(b)}")
    print(f"  mean {a.mean():.3f} and {b.mean():.3f}; p50 {np.median(a):.3f} and {np.median(b):.3f};"
          f" p95 {np.percentile(a, 95):.3f} and {np.percentile(b, 95):.3f}")  # fmt: skip
    print(f"  difference {difference:+.4f} ± {1.96 * error:.4f} (95%); Welch t = {welch.statistic:.2f},"
          f" p = {welch.pvalue:.3f}; effect size d = {difference / pooled:+.4f}")  # fmt: skip
    print(f"  Kolmogorov-Smirnov p = {stats.ks_2samp(x, y).pvalue:.3f};"
          f" Mann-Whitney p = {stats.mannwhitneyu(x, y).pvalue:.3f};"
          f" a power of 90% for a difference of {3.24 * error:.4f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
