"""Windows of a stream that receivers share: none opens, and none is charged, of which nobody gets a slot."""

import json
from collections import defaultdict
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects
from meteragent.domain.commit import Receiver
from meteragent.domain.counters import Counts
from meteragent.domain.shapes import Peak
from meteragent.domain.terms import Terms
from meteragent.privacy import SeededBits
from tests.support.witness import TERMS
from tests.support.world import BASE_MS, MemoryDisk, message, stream

WINDOW_MS, SLOT_MS = TERMS.length_ms, TERMS.step_ms
ENDED = Receiver("main@ended.1", "ended/{meter}", 0, 0)
"""A receiver whose end is past."""


def receiver(since_ms: int, until_ms: int | None = None, queue: str = "main@app.2") -> Receiver:
    """Return a receiver from times in ms after the start of the world."""
    return Receiver(
        queue, "app/{meter}", BASE_MS + since_ms, None if until_ms is None else BASE_MS + until_ms
    )


class Run:
    """A shared stream with one meter and a disk, fed every millisecond."""

    def __init__(self, *receivers: Receiver, terms: Terms = TERMS) -> None:
        self.disk = MemoryDisk()
        self.terms = terms
        self.charged = 0
        self.records: list[tuple[int, int]] = []
        self.payloads: defaultdict[tuple[int, int], set[bytes]] = defaultdict(set)
        self.restart(*receivers)

    def restart(self, *receivers: Receiver) -> None:
        """Start a process with these receivers."""
        self.counts = Counts()
        known = stream(self.terms, receivers=receivers)
        self.core = Pipeline(known, self.disk.snapshot(), Spending(), SeededBits(1), self.counts)

    def feed(self, from_ms: int, until_ms: int) -> None:
        """Feed a reading every millisecond; note the charges, and each record's window and slot end."""
        for at_ms in range(from_ms, until_ms):
            now_ms = BASE_MS + at_ms
            self.note(self.core.feed([message(at_ms, 5)], now_ms, now_ms))

    def note(self, effects: Effects) -> None:
        """Write a commit to the disk, and note what it charges and releases."""
        self.disk.write(effects.commit)
        self.charged += sum((windows.total() for windows in effects.commit.charges.values()), 0)
        for row in effects.commit.outgoing:
            if not row.retain:
                assert row.slot is not None
                assert json.loads(row.payload)["meter"] == "m1"
                self.records.append((row.slot.window_ms - BASE_MS, row.slot.end_ms - BASE_MS))
                self.payloads[self.records[-1]].add(row.payload)


@given(
    periods=st.lists(st.tuples(st.integers(0, 90), st.none() | st.integers(0, 90)), max_size=3),
    restart_ms=st.integers(2, 70),
)
def test_a_window_is_charged_if_and_only_if_somebody_gets_a_slot_of_it(
    periods: list[tuple[int, int | None]], restart_ms: int
) -> None:
    """Against the definition, slot by slot, through a restart; all who get a slot get the same bytes."""
    receivers = [receiver(*times, queue=f"main@{k}") for k, times in enumerate(periods)]
    run = Run(*receivers)
    run.feed(1, restart_ms)
    run.restart(*receivers)
    run.feed(restart_ms, 85)
    slots = [(start, start + end) for start in range(12, 72, WINDOW_MS) for end in range(4, 13, SLOT_MS)]
    wanted = [
        (start, end, queue)
        for start, end in slots
        for queue, (since_ms, until_ms) in enumerate(periods)
        if start >= since_ms and (until_ms is None or end <= until_ms)
    ]
    assert [slot for slot in run.records if slot[0] < 72] == [(start, end) for start, end, _ in wanted]
    assert all(len(payloads) == 1 for payloads in run.payloads.values())
    opened = {start for start, _ in run.records}
    still_open = {window.start_ms for window in run.core._timelines["m1"].windows}
    assert run.charged == len(opened | {start_ms - BASE_MS for start_ms in still_open})


def test_who_is_admitted_later_gets_the_next_window() -> None:
    """The schedule goes on while nobody is admitted, so that a receiver is not kept waiting."""
    run = Run(ENDED)
    run.feed(1, 30)
    assert (run.charged, run.records, run.counts["opened"]) == (0, [], 0)
    run.restart(ENDED, receiver(31))
    run.feed(30, 50)
    assert run.records == [(36, 40), (36, 44), (36, 48)]
    assert run.charged == 2


def test_an_open_window_that_nobody_gets_is_discarded_and_its_charge_stays() -> None:
    """At the start after a revocation; nothing of it closes, and the next window opens for the next one."""
    run = Run(receiver(0))
    run.feed(1, 15)
    assert (run.charged, run.records) == (1, [])
    run.restart(receiver(15))
    run.feed(15, 38)
    assert run.charged == 3
    assert run.records == [(24, 28), (24, 32), (24, 36)]


def test_an_open_peak_draws_no_noise_for_nobody() -> None:
    """Noise that a restart draws again is charged, so a peak that nobody gets is discarded before."""
    peak = replace(TERMS, shape=Peak(12, 4))
    for receivers, charged in (([receiver(0)], 2), ([receiver(15)], 1)):
        run = Run(receiver(0), terms=peak)
        run.feed(1, 15)
        assert run.charged == 1
        run.restart(*receivers)
        run.feed(15, 22)
        assert run.charged == charged


def test_the_next_slot_is_announced_only_to_somebody() -> None:
    """The page states no slot that nobody gets, whether its window is open or not."""
    run = Run(receiver(0, 20))
    run.feed(1, 2)
    first = run.core.upcoming_slot("m1")
    assert first is not None
    assert first.end_ms == BASE_MS + 16
    run.feed(2, 17)
    second = run.core.upcoming_slot("m1")
    assert second is not None
    assert second.end_ms == BASE_MS + 20
    run.feed(17, 21)
    assert run.core.upcoming_slot("m1") is None
    run.feed(21, 26)
    assert run.core.upcoming_slot("m1") is None
    assert run.charged == 1
