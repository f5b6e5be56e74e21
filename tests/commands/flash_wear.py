"""What the agent writes in a day: ``python -m tests.commands.flash_wear --folder DIR [--device loop0]``.

A reading every 10 s from 1 and from 20 meters, in virtual time, through the real core and the real store,
under presets and `store.flush` as typical as they come. Printed are megabytes a day, counted by the kernel:
what this process had written to storage (`/proc/self/io`, write_bytes: pages of files, without the file
system's own journal), or with `--device` what went to a block device, the journal with it, if DIR is on a
file system that nothing else uses (`/sys/block/…/stat`). DIR must be on a disk: memory is not counted.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from meteragent import config
from meteragent.agent.parts import Links, core
from meteragent.agent.source import BATCH
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.counters import Counts
from meteragent.domain.grid import format_duration, parse_time
from meteragent.domain.reading import Message
from meteragent.domain.units import DAY_MS, HOUR_MS
from meteragent.privacy.sampling import SystemBits
from meteragent.store import Store, outbox, transaction

START_MS = parse_time("2026-06-01T00:00:00Z")
EVERY_MS = 10_000
PRESETS = {"appliance": "", "day": 'timezone = "Europe/Amsterdam"', "bill": 'timezone = "Europe/Amsterdam"'}
FLUSHES_MS = (0, 60_000, 900_000)
METERS = (1, 20)
MANY = min(1000 // 2, BATCH)
"""Of so many that wait, the agent writes in any case: half of source.inflight."""


def stream(preset: str) -> config.Stream:
    """A stream as it is configured."""
    text = f"""
    source.topic = "meters/{{meter}}/power"
    source.kind = "power"
    source.unit = "W"
    sink.topic = "private/{{meter}}/power"
    privacy.preset = "{preset}"
    [window]
    {PRESETS[preset]}
    """
    return config.parse(text).stream[0]


def arrivals(meters: int, span_ms: int) -> Iterator[Message]:
    """Readings in order of arrival; meters take turns."""
    for at_ms in range(0, span_ms, EVERY_MS // meters):
        turn, meter = divmod(at_ms * meters // EVERY_MS, meters)
        watts = 200 + (37 * turn + 11 * meter) % 1800
        yield Message(f"meters/m{meter}/power", b"%d" % watts, False, START_MS + at_ms, None)


def batches(messages: Iterator[Message], flush_ms: int, first_ms: Sequence[int]) -> Iterator[list[Message]]:
    """What the agent takes at once: what came within `flush_ms`, until many wait or a slot ends."""
    waiting: list[Message] = []
    boundaries = iter(first_ms)
    boundary_ms = next(boundaries)
    for message in messages:
        passed = message.received_ms >= boundary_ms
        full = waiting and message.received_ms - waiting[0].received_ms >= flush_ms
        if waiting and (passed or full or len(waiting) > MANY):
            yield waiting
            waiting = []
        if passed:
            boundary_ms = next(boundaries)
        waiting.append(message)
    yield waiting


class Line:
    """One stream's core over a new store, fed as the agent feeds it."""

    def __init__(self, folder: Path, preset: str) -> None:
        one = stream(preset)
        self.counts = counts = Counts()
        self.store = Store.open(folder / "meteragent.db", now_ms=START_MS, recovery_floor_ms=None)
        made = core(one, Fraction(0), Links.of(one), self.store.secret)
        known = self.store.snapshot(one.name)
        self._pipeline = Pipeline(made, known, Spending(), SystemBits(), counts)
        self._delivered: list[int] = []
        self.commits = 0

    def feed(self, batch: Sequence[Message], now_ms: int) -> None:
        """One turn: what is due is delivered at once, and marked with the next commit."""
        effects = self._pipeline.feed(batch, now_ms, now_ms)
        if effects.commit or self._delivered:
            transaction.commit(self.store, effects.commit, self._delivered, None, 30 * DAY_MS)
            self.store.erase()
            self.commits += 1
        due = outbox.pending(self.store.connection, self._pipeline.name, now_ms, -1)
        self._delivered = [row.id for row in due]


def written_bytes(device: str | None) -> int:
    """What has been written so far: to a device, or by this process."""
    if device is not None:
        return 512 * int(Path(f"/sys/block/{device}/stat").read_text().split()[6])
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def measure(folder: Path, preset: str, meters: int, flush_ms: int, device: str | None) -> tuple[float, float]:
    """MB and commits a day: of two hours (one, if every reading is written), after the first window."""
    warm_ms = {"appliance": HOUR_MS // 2, "day": 22 * HOUR_MS, "bill": 29 * DAY_MS + 22 * HOUR_MS}[preset]
    span_ms = HOUR_MS if flush_ms == 0 else 2 * HOUR_MS
    line, begun = Line(folder, preset), 0
    line.feed([*arrivals(meters, EVERY_MS)], START_MS + EVERY_MS)
    line.feed([], START_MS + warm_ms)
    slots = range(HOUR_MS // 2, 10 * HOUR_MS, HOUR_MS // 2)
    shifted = (m._replace(received_ms=m.received_ms + warm_ms) for m in arrivals(meters, span_ms))
    commits, begun = line.commits, written_bytes(device)
    ends_ms = [START_MS + warm_ms + end_ms for end_ms in slots]
    for batch in batches(shifted, flush_ms, ends_ms):
        line.feed(batch, batch[-1].received_ms)
    days = span_ms / DAY_MS
    assert line.counts["accepted"] >= span_ms * meters // EVERY_MS, line.counts.text()
    found = written_bytes(device) - begun, line.commits - commits
    line.store.close()
    return found[0] / 1e6 / days, found[1] / days


def main() -> None:
    """Read the arguments, measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="on the disk or device to count at")
    parser.add_argument("--device", help="its name in /sys/block, if nothing else writes to it")
    options = parser.parse_args()
    print("| preset | meters | flush | MB a day | commits a day |\n|---|---|---|---|---|")
    for preset in PRESETS:
        for meters in METERS:
            for flush_ms in FLUSHES_MS:
                with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                    mb, commits = measure(Path(folder), preset, meters, flush_ms, options.device)
                flush = format_duration(flush_ms) if flush_ms else "0"
                print(f"| `{preset}` | {meters} | {flush} | {mb:,.1f} | {commits:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
