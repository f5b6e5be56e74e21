"""Pseudonyms, spread, the page and problems, when a receiver has ended, is paused, or gets nothing."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from meteragent import config
from meteragent.agent import parts
from meteragent.agent.link import receivers
from meteragent.agent.link.outlets import outlets_of
from meteragent.agent.page.view import first_receiver
from meteragent.agent.store_thread import StoreThread
from meteragent.consume import Record
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.counters import Counts
from meteragent.domain.grid import iso_time, parse_time
from meteragent.domain.identity import pseudonym
from meteragent.domain.reading import Message
from meteragent.domain.units import MINUTE_MS
from meteragent.privacy import SeededBits
from meteragent.store import grants, outbox, transaction
from tests.support.contexts import context_of
from tests.support.stores import open_store

NOON_MS, SLOT_MS, DAY_MS = parse_time("2027-03-01T12:00:00Z"), 30 * MINUTE_MS, 48 * 30 * MINUTE_MS
END_MS, SPREAD_MS = NOON_MS + 2 * SLOT_MS, 10 * MINUTE_MS
KEY = b"a key of one home"
ID = pseudonym(KEY, "m1")


def parsed(app: str) -> config.Config:
    """Return a configuration with two receivers under pseudonyms; `app` is more about the first."""
    return config.parse(f"""
source.url = "mqtt://home"
source.topic = "meters/{{meter}}/power"
source.kind = "power"
source.unit = "W"
sink.spread = "10min"
[[receiver]]
name = "app"
topic = "app/{{meter}}"
{app}
[[receiver]]
name = "utility"
topic = "utility/{{meter}}"
""")


ENDING, PAUSED = f"end = {iso_time(END_MS)}", "paused = true"


class Home:
    """A store, and an agent's core on it, in time that the test tells."""

    def __init__(self, folder: Path) -> None:
        self.store = open_store(folder / "db")
        self.now_ms = NOON_MS - MINUTE_MS

    def start(self, app: str) -> None:
        """Settle the receivers, and begin a process."""
        known = parsed(app)
        [self.stream] = known.stream
        receivers.apply_admissions(known, self.store, self.now_ms)
        admitted = tuple(
            grant.receiver for grant in grants.active_grants(self.store.connection, self.stream.name)
        )
        others = config.other_charges_per_day(known, self.stream)
        core = replace(parts.core_of(self.stream, others, KEY, b""), receivers=admitted)
        snapshot = self.store.snapshot(core.name)
        self.core = Pipeline(core, snapshot, Spending(), SeededBits(1), Counts())

    def run(self, until_ms: int) -> None:
        """Feed a reading, let the clock open and close slots, and commit what there is."""
        batch = [Message("meters/m1/power", b"250", False, self.now_ms, None)]
        while self.now_ms < until_ms:
            if commit := self.core.feed(batch, self.now_ms, self.now_ms).commit:
                transaction.commit(self.store, commit, [], None, DAY_MS)
                self.store.erase_log()
            batch = []
            self.now_ms += MINUTE_MS

    def waiting(self, name: str, due_ms: int = 2**62) -> list[outbox.WaitingRow]:
        """Return what waits for a receiver by its newest grant, and is due by a time."""
        row = self.store.connection.execute("SELECT max(id) FROM receiver WHERE name = ?", (name,)).fetchone()
        return outbox.pending_rows(self.store.connection, f"{self.stream.name}@{name}.{row[0]}", due_ms, 1000)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home whose agent has not yet run."""
    home = Home(tmp_path)
    with home.store:
        yield home


def slot_ends_ms(rows: list[outbox.WaitingRow]) -> list[int]:
    """Return the ends of the slots in the records among these rows."""
    records = [Record.parse(row.payload) for row in rows if not row.retain]
    assert all(record.meter == ID for record in records)
    return [record.time_ms + record.step_ms for record in records]


def test_records_end_by_the_end_and_are_the_same_bytes(home: Home) -> None:
    """No record reaches beyond the end, and the other receiver has more."""
    home.start(ENDING)
    home.run(END_MS + 3 * SLOT_MS)
    app, utility = home.waiting("app"), home.waiting("utility")
    assert slot_ends_ms(app) == [END_MS - SLOT_MS, END_MS]
    assert slot_ends_ms(utility) == [END_MS + k * SLOT_MS for k in (-1, 0, 1, 2)]
    assert [row.payload for row in app] == [row.payload for row in utility][: len(app)]
    assert {row.topic.split("/")[1] for row in (*app, *utility)} == {ID}


@pytest.mark.parametrize("ends", [True, False])
def test_a_pseudonym_is_withdrawn_and_never_published_again(home: Home, ends: bool) -> None:
    """After the end or a pause: of the name only withdrawals wait, and no descriptor is sent on connecting.

    This holds through later windows and a restart, in which the other receiver's descriptors stay.
    """
    home.start(ENDING)
    home.run(END_MS + SLOT_MS)
    [app, _] = grants.active_grants(home.store.connection)
    revoked_ms = receivers.revocation_ms(home.stream, home.stream.receivers[0])
    assert revoked_ms is not None
    home.now_ms = max(home.now_ms, revoked_ms if ends else 0)
    for _ in range(2):
        home.start(ENDING if ends else PAUSED)
        home.run(home.now_ms + 2 * SLOT_MS)
        rows = home.waiting("app")
        assert {row.topic for row in rows if row.payload} == set()
        assert all(row.topic.startswith(f"app/{ID}/privacy") and row.retain for row in rows)
        assert len(rows) == 2
        assert outbox.latest_descriptors(home.store.connection, app.queue) == []
    [utility] = grants.active_grants(home.store.connection)
    topics = [item.topic for item in outbox.latest_descriptors(home.store.connection, utility.queue)]
    assert topics == [f"utility/{ID}"]


def test_records_that_spread_delays_beyond_a_pause_are_deleted(home: Home) -> None:
    """They wait when the receiver is paused; those of the other leave, and the receipt counts the deleted."""
    home.start("")
    home.run(NOON_MS + SLOT_MS + MINUTE_MS)
    [record] = [row for row in home.waiting("app") if not row.retain]
    assert home.now_ms < record.due_ms <= NOON_MS + SLOT_MS + SPREAD_MS
    home.start(PAUSED)
    assert [row for row in home.waiting("app") if row.payload] == []
    assert [row.payload for row in home.waiting("utility") if not row.retain] == [record.payload]
    [path] = home.store.path.parent.glob("db.receipt-app-*.txt")
    assert "deleted:      3 messages" in path.read_text()  # two descriptors and the record


def test_the_last_record_is_due_before_the_receiver_is_revoked(home: Home) -> None:
    """However long spread delays it, so that an end deletes nothing if the broker can be reached."""
    home.start(ENDING)
    home.run(END_MS + 2 * SLOT_MS)
    revoked_ms = receivers.revocation_ms(home.stream, home.stream.receivers[0])
    assert revoked_ms is not None
    last = home.waiting("app")[-1]
    assert END_MS < last.due_ms <= END_MS + SPREAD_MS < revoked_ms


async def test_the_page_shows_a_receiver_that_is_admitted(home: Home) -> None:
    """The first of the file, until it has ended; then the next, and never what the first one got."""
    counts = Counts()
    thread = StoreThread(home.store, 0, 2**30, [], counts)
    context = context_of(parsed(ENDING), thread, counts)
    for app, name in ((ENDING, "app"), (PAUSED, "utility")):
        home.start(app)
        outlets = outlets_of(home.stream, context)
        receiver = first_receiver(home.stream, outlets)
        assert receiver.queue.startswith(f"{home.stream.name}@{name}.")
        assert receiver.topic == f"{name}/{{meter}}"
    assert len(outlets.queues) == 1


async def test_a_receiver_that_gets_nothing_is_named(home: Home) -> None:
    """If an earlier store has released to one of two receivers, the problem says to which."""
    counts = Counts()
    thread = StoreThread(home.store, 0, 2**30, [], counts)
    context = context_of(parsed(""), thread, counts)
    home.start("")
    app, _ = outlets_of(home.stream, context)
    app.listener.ask_about(["app/m1"])
    announced = f'{{"store": "another", "valid_from": "{iso_time(NOON_MS)}"}}'.encode()
    app.on_message("app/m1/privacy", announced, 1, retain=True, token=None)
    [actual] = context.alarms.problems
    assert (actual.code, actual.stream) == ("earlier_store", f"{home.stream.name} for app")
