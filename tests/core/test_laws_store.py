"""The laws again, with the real store, ledger and outbox where the small world has a dictionary."""

from collections import defaultdict
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from meteragent.core.stream import Stream
from meteragent.domain.commit import Commit, Snapshot
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import MICRO, UNITS, Kind
from meteragent.store import Store, commands, outbox
from tests.core import strategies as made
from tests.core.strategies import Restart, Send, Step, Turn, Wait, play
from tests.support.stores import fresh, persist
from tests.support.terms import terms_with
from tests.support.witness import TERMS, Account
from tests.support.world import World, stream

FAR_MS = 10**15

REGISTER = terms_with(TERMS, kind=Kind.REGISTER, unit=UNITS[Kind.REGISTER][0], hold_ms=0, interval_ms=1)
IMPOSSIBLE: list[Step] = [
    Wait(11),
    Send("m1", 0, -5 * MICRO),
    Turn(""),
    Restart(0),
    Wait(3),
    Send("m1", 0, 10**14),
    Wait(20),
]
"""After a crash, the only reading of the open slot is one that no load explains: the slot is lost."""


class StoreDisk:
    """The real store as the disk of a world."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def snapshot(self) -> Snapshot:
        """What the core is started with."""
        return self.store.snapshot("main")

    def write(self, commit: Commit) -> None:
        """All that the agent does in one transaction."""
        persist(self.store, commit)


@settings(max_examples=15)
@given(streams=st.lists(made.streams, min_size=3, max_size=3), program=made.rough)
def test_the_store_keeps_what_the_core_committed(streams: list[Stream], program: list[Step]) -> None:
    """Marks, open windows, ledger and outbox on disk are what the witness saw, after any crashes."""
    with fresh() as store:
        world = World(streams[0], disk=StoreDisk(store), has_model=False)
        play(world, program, streams)
        written: defaultdict[str, Account] = defaultdict(Account)
        for row in commands.day_charges(store.connection):
            written[row.meter].windows += row.windows
            written[row.meter].epsilon_per_w += row.epsilon_per_w
        assert written == world.witness.charged
        assert store.snapshot("main").marks == world.witness.marks
        waiting = outbox.pending_rows(store.connection, "main", FAR_MS, 10_000)
        records = [row.payload for row in waiting if not row.retain]
        assert sorted(records) == sorted(record.row.payload for record in world.witness.records.values())


@settings(max_examples=15)
@example(REGISTER, made.Grid(2, 6, 1000, MICRO, 0, (0, 20_000 * MICRO)), IMPOSSIBLE)
@given(meaning=made.meanings, grid=made.grids, program=made.rough)
def test_values_survive_the_store(meaning: Terms, grid: made.Grid, program: list[Step]) -> None:
    """Accumulators of any size come back from the real store as they were (laws 3, 7)."""
    known = stream(made.on_grid(replace(meaning, clock=Clock.WALL), grid))
    with fresh() as store:
        world = World(known, disk=StoreDisk(store))
        play(world, program, [known, known, known])
        world.check_records()
