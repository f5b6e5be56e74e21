"""Measure the agent's writes per day: ``python -m tests.commands.flash_wear --folder DIR [--device loop0]``.

Feed a reading every 10 s from 1 and from 20 meters, in virtual time, through the real core and the real
store, with typical presets and values of `store.flush`. Print megabytes per day as counted by the kernel.
These are the bytes that this process wrote to storage (`/proc/self/io`, write_bytes: pages of files, without
the file system's journal). With `--device` they are the bytes written to a block device, including the
journal (`/sys/block/…/stat`), if DIR is on a file system that no other program uses. DIR must be on a disk:
writes to memory are not counted.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from meteragent import config
from meteragent.agent.link.source import BATCH_MAX
from meteragent.agent.parts import core_of
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
COMPLETE = {"appliance": "", "day": 'timezone = "Europe/Amsterdam"', "bill": 'timezone = "Europe/Amsterdam"'}
FLUSHES_MS = (0, 60_000, 900_000)
METERS = (1, 20)
MANY = min(1000 // 2, BATCH_MAX)
"""The number of waiting readings at which the agent writes regardless of `flush`: half of source.inflight."""


def stream(preset: str) -> config.Stream:
    """Return a stream with a preset."""
    text = f"""
    source.topic = "meters/{{meter}}/power"
    source.kind = "power"
    source.unit = "W"
    sink.topic = "private/{{meter}}/power"
    privacy.preset = "{preset}"
    [window]
    {COMPLETE[preset]}
    """
    return config.parse(text).stream[0]


def arrivals(meters: int, span_ms: int) -> Iterator[Message]:
    """Yield readings in order of arrival; the meters take turns."""
    for at_ms in range(0, span_ms, EVERY_MS // meters):
        turn, meter = divmod(at_ms * meters // EVERY_MS, meters)
        watts = 200 + (37 * turn + 11 * meter) % 1800
        yield Message(f"meters/m{meter}/power", b"%d" % watts, False, START_MS + at_ms, None)


def batches(messages: Iterator[Message], flush_ms: int, first_ms: Sequence[int]) -> Iterator[list[Message]]:
    """Yield the batches that the agent takes.

    A batch ends `flush_ms` after its first reading, when more than MANY readings wait, or when a slot ends.
    """
    waiting: list[Message] = []
    boundaries = iter(first_ms)
    boundary_ms = next(boundaries)
    for message in messages:
        is_past_slot = message.received_ms >= boundary_ms
        is_due = waiting and message.received_ms - waiting[0].received_ms >= flush_ms
        if waiting and (is_past_slot or is_due or len(waiting) > MANY):
            yield waiting
            waiting = []
        if is_past_slot:
            boundary_ms = next(boundaries)
        waiting.append(message)
    yield waiting


class Line:
    """One stream's core with a new store, fed as by the agent."""

    def __init__(self, folder: Path, preset: str) -> None:
        settings = stream(preset)
        self.counts = counts = Counts()
        self.store = Store.open(folder / "meteragent.db", now_ms=START_MS, recovery_floor_ms=None)
        core_stream = core_of(settings, Fraction(0), None, self.store.secret)
        snapshot = self.store.snapshot(settings.name)
        self._pipeline = Pipeline(core_stream, snapshot, Spending(), SystemBits(), counts)
        self._delivered: list[int] = []
        self.commits = 0

    def feed(self, batch: Sequence[Message], now_ms: int) -> None:
        """Run one turn: rows that are due are delivered at once and marked with the next commit."""
        effects = self._pipeline.feed(batch, now_ms, now_ms)
        if effects.commit or self._delivered:
            transaction.commit(self.store, effects.commit, self._delivered, None, 30 * DAY_MS)
            self.store.erase_log()
            self.commits += 1
        due_rows = outbox.pending_rows(self.store.connection, self._pipeline.name, now_ms, -1)
        self._delivered = [row.id for row in due_rows]


def written_bytes(device: str | None) -> int:
    """Return the bytes written so far, to a device or by this process."""
    if device is not None:
        return 512 * int(Path(f"/sys/block/{device}/stat").read_text().split()[6])
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def measure(folder: Path, preset: str, meters: int, flush_ms: int, device: str | None) -> tuple[float, float]:
    """Return MB and commits per day.

    They are measured after the first window, over two hours, or one hour if every reading is written.
    """
    warm_ms = {"appliance": HOUR_MS // 2, "day": 22 * HOUR_MS, "bill": 29 * DAY_MS + 22 * HOUR_MS}[preset]
    span_ms = HOUR_MS if flush_ms == 0 else 2 * HOUR_MS
    line, begun = Line(folder, preset), 0
    line.feed([*arrivals(meters, EVERY_MS)], START_MS + EVERY_MS)
    line.feed([], START_MS + warm_ms)
    slots_ms = range(HOUR_MS // 2, 10 * HOUR_MS, HOUR_MS // 2)
    messages = (m._replace(received_ms=m.received_ms + warm_ms) for m in arrivals(meters, span_ms))
    commits, begun = line.commits, written_bytes(device)
    ends_ms = [START_MS + warm_ms + end_ms for end_ms in slots_ms]
    for batch in batches(messages, flush_ms, ends_ms):
        line.feed(batch, batch[-1].received_ms)
    days = span_ms / DAY_MS
    assert line.counts["accepted"] >= span_ms * meters // EVERY_MS, line.counts.as_text()
    difference = written_bytes(device) - begun, line.commits - commits
    line.store.close()
    return difference[0] / 1e6 / days, difference[1] / days


def main() -> None:
    """Read the arguments, measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="folder on the disk or device to measure")
    parser.add_argument("--device", help="name of the device in /sys/block, if nothing else writes to it")
    options = parser.parse_args()
    print("| preset | meters | flush | MB a day | commits a day |\n|---|---|---|---|---|")
    for preset in COMPLETE:
        for meters in METERS:
            for flush_ms in FLUSHES_MS:
                with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                    mb, commits = measure(Path(folder), preset, meters, flush_ms, options.device)
                flush = format_duration(flush_ms) if flush_ms else "0"
                print(f"| `{preset}` | {meters} | {flush} | {mb:,.1f} | {commits:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
