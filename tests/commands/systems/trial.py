"""The trial of an installed agent, which must release each slot once, even through a kill -9.

A meter with a constant load is read twice a second. The agent is started, killed and restarted while the
meter continues. Then its health and ledger are read, and it is stopped. `machine` is where it runs.
"""

import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from tests.commands.systems.debian import Failed
from tests.commands.waiting import wait_until

METER: Final = "home"
LOAD_W: Final = 100
SLOT_S: Final = 5
FAR_W: Final = 40
"""The largest error of a value: noise of 1 W at level 1 exceeds it with a probability below 1e-16."""

FEED_S: Final = 0.5
WAIT_S: Final = 90.0
BEFORE, AFTER = 2, 3
"""The number of slots to wait for before the kill, and after it."""

OK, CRASH, CONFIG = 0, 1, 78


class Beside(Protocol):
    """Where a broker at 127.0.0.1:1883 and mosquitto's clients run."""

    def client(self, *words: str) -> list[str]:
        """Return the command of this machine that runs a client beside the broker."""


class Machine(Beside, Protocol):
    """Where the agent runs, too."""

    def meteragent(self, *words: str) -> tuple[int, str]:
        """Run a command of meteragent as the agent's user; return its exit code and output."""

    def start(self) -> None:
        """Start the agent."""

    def kill(self) -> None:
        """Kill the agent with SIGKILL."""

    def stop(self) -> int:
        """Stop the agent with SIGTERM; return its exit code."""


class Seen(NamedTuple):
    """The results of a trial: the slots before the kill and in all, and how long its parts took (s)."""

    slots: int
    first_s: float
    total_s: float

    def __str__(self) -> str:
        return f"{self.slots} slots, each once, through a kill -9; first number after {self.first_s:.0f} s"


def configuration(store: str, *, source: str = "127.0.0.1", sink: str = "127.0.0.1") -> str:
    """Return a configuration with slots of five seconds and little noise."""
    return f"""
[source]
url = "mqtt://{source}:1883"
topic = "meters/{{meter}}/power"
profile = "json"
value = "power"
time = "t"
kind = "power"
unit = "W"
every = "1s"
hold = "30s"

[window]
length = "{SLOT_S}s"
catch_up = "3s"

[privacy]
radius = 1
level = 1
accept = ["sparse_readings"]

[sink]
url = "mqtt://{sink}:1883"
topic = "private/{{meter}}/power"

[store]
path = "{store}"
"""


def left(payloads: Iterable[str]) -> list[int]:
    """Return the starts of the slots that left, in seconds, in order.

    Raises:
        Failed: A slot left with two values, or is far from the load.

    """
    values: dict[int, set[float]] = {}
    for payload in payloads:
        record = json.loads(payload)
        start = datetime.fromisoformat(record["t"]).timestamp()
        values.setdefault(round(start), set()).add(record["value"])
    for start, values_w in values.items():
        if len(values_w) > 1:
            raise Failed(f"the slot of {start} left with the values {sorted(values_w)}")
        if abs(min(values_w) - LOAD_W) > FAR_W:
            raise Failed(f"the slot of {start} has {min(values_w)} W, and {LOAD_W} W were fed")
    return sorted(values)


def starts(payloads: Iterable[str]) -> list[int]:
    """Return the starts of the slots that left, in seconds.

    Raises:
        Failed: A slot left with two values, is missing between others, or is far from the load.

    """
    slots = left(payloads)
    for before, after in pairwise(slots):
        if after - before != SLOT_S:
            raise Failed(f"no slot between those of {before} and {after} left")
    return slots


def wait(event: str, until: Callable[[], bool], *, seconds: float = WAIT_S) -> None:
    """Wait until a condition holds. Raises Failed after a time."""
    if not wait_until(until, seconds):
        raise Failed(f"{event}: not within {seconds:.0f} s")


class Meter:
    """A meter that is read all the time, and a receiver of the records; both are mosquitto's clients."""

    def __init__(self, machine: Beside, topic: str = f"private/{METER}/power", name: str = METER) -> None:
        self._lines = tempfile.NamedTemporaryFile("r", encoding="utf-8")  # noqa: SIM115  closed by `close`
        self._receiver = subprocess.Popen(
            machine.client("mosquitto_sub", "-i", f"receiver-{name}", "-q", "1", "-t", topic),
            stdout=self._lines.fileno(),
        )
        feed = ("mosquitto_pub", "-i", f"meter-{name}", "-q", "1", "-l", "-t", f"meters/{name}/power")
        self._feeder = subprocess.Popen(machine.client(*feed), stdin=subprocess.PIPE, text=True)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def _feed(self) -> None:
        """Send readings until the end."""
        assert self._feeder.stdin is not None
        while not self._ends.wait(FEED_S):
            self._feeder.stdin.write(json.dumps({"t": round(time.time() * 1000), "power": LOAD_W}) + "\n")
            self._feeder.stdin.flush()

    def records(self) -> list[str]:
        """Return the records that have arrived so far."""
        return Path(self._lines.name).read_text(encoding="utf-8").rpartition("\n")[0].splitlines()

    def starts(self) -> list[int]:
        """Return the starts of the slots that have left so far."""
        return starts(self.records())

    def close(self) -> None:
        """End both."""
        self._ends.set()
        self._thread.join()
        assert self._feeder.stdin is not None
        self._feeder.stdin.close()
        for process in (self._feeder, self._receiver):
            process.terminate()
            process.wait()
        self._lines.close()


def run(machine: Machine, path: str) -> Seen:
    """Run the trial with the configuration at a path. Raises Failed."""
    began_s = time.monotonic()
    code, text = machine.meteragent("check", path)
    if code != OK:
        raise Failed(f"check refuses the configuration: {text}")
    machine.start()
    meter = Meter(machine)
    try:
        wait("the first number", lambda: bool(meter.starts()))
        first_s = time.monotonic() - began_s
        wait("numbers before the kill", lambda: len(meter.starts()) >= BEFORE)
        machine.kill()
        starts, killed_s = meter.starts(), time.time()
        machine.start()
        wait("numbers after the kill", lambda: meter.starts()[-1] > killed_s + AFTER * SLOT_S)
        wait("health", lambda: machine.meteragent("health", path)[0] == OK)
        slots = meter.starts()
    finally:
        meter.close()
    if slots[: len(starts)] != starts:
        raise Failed("slots changed after the kill")
    charged(machine, path, len(slots))
    expect("the agent that is stopped", machine.stop(), OK)
    expect("health without an agent", machine.meteragent("health", path)[0], CRASH)
    return Seen(len(slots), first_s, time.monotonic() - began_s)


def charged(machine: Machine, path: str, slots: int) -> None:
    """Check that the ledger has a window for each slot that left. Raises Failed."""
    code, text = machine.meteragent("ledger", "--json", path)
    windows = sum(row["windows"] for row in json.loads(text)["spent"] if row["meter"] == METER)
    if code != OK or windows < slots:
        raise Failed(f"the ledger has {windows} windows, and {slots} slots left")


def expect(event: str, code: int, expected: int) -> None:
    """Check an exit code. Raises Failed."""
    if code != expected:
        raise Failed(f"{event}: exit code {code} instead of {expected}")
