"""A small store with a row of each kind, and what becomes of it when one bit of its files flips.

Whatever bit it is, the agent and the commands `ledger` and `export` either say what they say of the undamaged
store, or refuse it by name; a message may be held back alone, by name.
"""

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from meteragent.domain.commit import Commit, Descriptor, Outgoing, ReleasedSlot, Snapshot, Total
from meteragent.domain.errors import StoreError
from meteragent.store import Store, commands, crowd_keys, grants, ledger, outbox, read_only, stored_terms
from meteragent.store import transaction as transactions
from simulators.simtest.store.disk import settle
from tests.support.stores import DAY_MS, LENGTH_MS, opening

PAGE_BYTES = 512
"""SQLite's smallest page: so the store has few bits that hold nothing."""
NOW_MS = 20 * LENGTH_MS
KEEP_MS = 100 * LENGTH_MS
QUEUES = ("main", "main@app.1", "main@old.2")
GOOD = {"right", "refused", "held"}
"""The outcomes that are right: the same numbers, a refusal, or a message that is held and named."""
Files = Mapping[str, bytes]


class Bit(NamedTuple):
    """A bit of a file of the store."""

    name: str
    number: int


class Said(NamedTuple):
    """What a store says: all that is neither sent nor exported, what waits, what was delivered."""

    facts: Mapping[str, Any]
    waiting: frozenset[Any]
    delivered: frozenset[Any]


def _receiver(name: str) -> grants.WantedGrant:
    link = json.dumps({"url": f"mqtt://{name}"})
    return grants.WantedGrant("main", name, f"{name}/{{meter}}", link, 0, None)


def _step(k: int, queues: tuple[str, ...]) -> Commit:
    """A step in which two meters open their k-th window, and a record of each leaves for each receiver."""
    commit = opening(k, "m1", "m2")
    commit.clock_ms = (k + 1) * LENGTH_MS
    for queue, meter in product(queues, ("m1", "m2")):
        topic = f"{queue[:8]}/{meter}"
        slot = ReleasedSlot("d1", k * LENGTH_MS, (k + 1) * LENGTH_MS)
        payload = b'{"meter":"%b","value":%d}' % (meter.encode(), 400 + 7 * k)
        commit.descriptors.append(Descriptor(queue, topic, "d1", b'{"id":"d1"}'))
        commit.outgoing.append(Outgoing(queue, f"{topic}/privacy", b'{"id":"d1"}', 0, retain=True))
        commit.outgoing.append(Outgoing(queue, topic, payload, k, False, slot))
        commit.totals[meter] = Total(0, (k + 1) * LENGTH_MS, "Wh", 77 * k, 0.5 * k)
    commit.prices = ((0, LENGTH_MS, 5),)
    return commit


def written(folder: Path, *, has_log: bool = True) -> Files:
    """Write the store, as kill -9 leaves it after a commit, which is still in the log if `has_log`."""
    path = folder / "db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode = WAL")
    with Store.open(path, now_ms=0, recovery_floor_ms=0, again_s=0) as store:
        store.claim_shard("main", "1/2", follows_wall_clock=True)
        grants.replace_grants(store, [_receiver("app"), _receiver("old")], {}, -1)
        ids = [row.id for row in transactions.commit(store, _step(1, QUEUES), (), None, KEEP_MS).rows]
        store.erase_log()
        transactions.commit(store, _step(2, QUEUES), ids[:-1], None, KEEP_MS)
        store.erase_log()
        grants.replace_grants(store, [_receiver("app")], {}, NOW_MS)
        crowd_keys.commit_keys(store, "group", "leader", 7, b"keys")
        transactions.commit(store, _step(3, QUEUES[:2]), (), None, KEEP_MS)
        if not has_log:
            store.erase_log()
        files = {file.name: file.read_bytes() for file in folder.iterdir() if file.suffix != ".lock"}
    return {name: content for name, content in files.items() if content and not name.endswith("-shm")}


def bits(files: Files) -> list[Bit]:
    """Return all bits of a store's files."""
    return [Bit(name, number) for name, content in files.items() for number in range(8 * len(content))]


def bits_of(text: bytes, files: Files) -> list[Bit]:
    """Return a bit of each occurrence of a text in the database file."""
    return [Bit("db", 8 * match.start()) for match in re.finditer(re.escape(text), files["db"])]


def sample(files: Files, count: int, random: Random) -> list[Bit]:
    """Return random bits: half of them anywhere, half in bytes that are not zero, which hold something."""
    places = bits(files)
    full = [bit for bit in places if files[bit.name][bit.number // 8]]
    return random.sample(places, count // 2) + random.sample(full, count - count // 2)


def said(connection: sqlite3.Connection) -> Said:
    """Return what a store says."""
    waiting = {row for queue in QUEUES for row in outbox.pending_rows(connection, queue, 2**60, 10**6)}
    delivered = set[Any]()
    with suppress(StoreError):  # at the end, which names the damaged ones
        delivered.update(commands.delivered_rows(connection))
    values = "SELECT key, value FROM meta WHERE key NOT IN ('generation', 'previous', 'boot') ORDER BY key"
    facts = {
        "charges": list(commands.day_charges(connection)),
        "recent": sorted(ledger.recent_charges(connection, DAY_MS, 0)),
        "opened": commands.opened_to_ms(connection),
        "terms": stored_terms(connection),
        "grants": grants.active_grants(connection),
        "receipts": grants.due_receipts(connection),
        "withdrawn": grants.grants_to_withdraw(connection),
        "descriptors": [outbox.latest_descriptors(connection, queue) for queue in QUEUES],
        "announced": connection.execute("SELECT queue, topic FROM announced ORDER BY 1, 2").fetchall(),
        "keys": crowd_keys.read_keys(connection, "group"),
        "meta": connection.execute(values).fetchall(),
    }
    return Said(facts, frozenset(waiting), frozenset(delivered))


class Outcome(NamedTuple):
    """What becomes of a store: what the commands and the agent say, and say again after one more step."""

    commands: Said | None
    agent: Said | None
    snapshot: Snapshot | None
    later: Said | None
    refusals: tuple[str, ...]
    held_names: tuple[str, ...]


def used(path: Path) -> Outcome:
    """Ask the commands, then start the agent on a store, let it take one more step, and stop it."""
    refusals, held_names = list[str](), list[str]()
    by_commands: Said | None = None
    first: Said | None = None
    snapshot: Snapshot | None = None
    later: Said | None = None
    try:
        with read_only(path) as connection:
            by_commands = said(connection)
    except StoreError as error:
        refusals.append(str(error))
    try:
        with Store.open(path, now_ms=NOW_MS, recovery_floor_ms=None, again_s=0) as store:
            held_names = outbox.hold_damaged(store)
            first, snapshot = said(store.connection), store.snapshot("main")
            ids = [row.id for row in first.waiting]
            transactions.commit(store, _step(NOW_MS // LENGTH_MS, QUEUES[:2]), ids, None, KEEP_MS)
            store.erase_log()
            later, depths = said(store.connection), [outbox.queue_depth(store.connection, q) for q in QUEUES]
            later = later._replace(facts={**later.facts, "depths": depths})
    except StoreError as error:
        refusals.append(str(error))
    return Outcome(by_commands, first, snapshot, later, tuple(refusals), tuple(held_names))


def flipped(files: Files, bit: Bit | None, path: Path) -> Outcome:
    """Write the files with one flipped bit into a new folder, and return what becomes of the store."""
    path.parent.mkdir()
    try:
        for name, content in files.items():
            (path.parent / name).write_bytes(content)
        settle(path.parent)
        if bit is not None:
            file = path.parent / bit.name
            rotten = bytearray(file.read_bytes())
            rotten[bit.number // 8 % len(rotten)] ^= 1 << bit.number % 8
            file.write_bytes(rotten)
        return used(path)
    finally:
        shutil.rmtree(path.parent)


def faults(actual: Outcome, right: Outcome) -> Iterator[str]:
    """Yield what is wrong with an outcome: another number, or silence about what is lost."""
    if not all(text.strip() for text in (*actual.refusals, *actual.held_names)):
        yield "a refusal names nothing"
    if actual.snapshot not in (None, right.snapshot):
        yield "agent: the snapshot is another"
    for place in ("commands", "agent", "later"):
        known_said, expected = getattr(actual, place), getattr(right, place)
        if known_said is None:
            if not actual.refusals:
                yield f"{place}: silence"
            continue
        for name in expected.facts:
            if known_said.facts[name] != expected.facts[name]:
                yield f"{place}: {name}"
        # Commands send nothing, and the agent only what it has not held back.
        if known_said.delivered - expected.delivered or (
            place != "commands" and known_said.waiting - expected.waiting
        ):
            yield f"{place}: another message"
        if expected.waiting - known_said.waiting and place == "agent" and not actual.held_names:
            yield f"{place}: a message is lost"


def verdict(actual: Outcome, right: Outcome) -> str:
    """Return "right", "refused" or "held", or what is wrong with an outcome."""
    wrong = ", ".join(faults(actual, right))
    return wrong or ("refused" if actual.refusals else "held" if actual.held_names else "right")
