"""The street under attack, a lying leader's request, and mistakes with the attacks that find them."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from meteragent.crowd import message
from meteragent.crowd.message import Batch, Chunk, Entry, Report
from meteragent.crowd.seal import Identity
from tests.support.crowd import LEADER, SLOT_S, Street, make_group

SECRET_QUANTA = 4321
"""What the home under attack used."""


def attacked() -> Street:
    """Return a street with the honest home `victim` and three others, of a lying operator or none."""
    world = Street(make_group())
    payloads = {label: world.report(label, 100) for label in ("a", "b", "c")}
    world.deliver(payloads | {"victim": world.report("victim", SECRET_QUANTA)})
    return world


def entries_of(world: Street, slot_s: int = SLOT_S) -> list[Entry]:
    """Return the entries of the reports that the leader holds."""
    rows = sorted(
        (key.name, value) for key, value in world.leader_rows.items() if key[:2] == ("report", slot_s)
    )
    return [Report.decode(world.group.id, payload).entry for _, payload in rows]


def request(
    world: Street, entries: list[Entry], identity: Identity = LEADER, digest: bytes = b""
) -> list[bytes]:
    """Return a lying leader's request for any entries."""
    real = message.batch_digest(world.group.id, SLOT_S, entries)
    keys = world.leader.keys_of_slot(SLOT_S)
    assert keys is not None
    batch = Batch(SLOT_S, digest or real, keys.public, len(entries), 1)
    return [Chunk(batch, 0, tuple(entries)).encode(world.group.id, identity.sign)]


def chunks(
    world: Street, parts: list[list[Entry]], homes: int | None = None, slot_s: int = SLOT_S
) -> list[bytes]:
    """Return a lying leader's request whose chunks have any entries, with their digest."""
    entries = [entry for part in parts for entry in part]
    keys = world.leader.keys_of_slot(slot_s)
    assert keys is not None
    digest = message.batch_digest(world.group.id, slot_s, entries)
    batch = Batch(slot_s, digest, keys.public, len(entries) if homes is None else homes, len(parts))
    return [
        Chunk(batch, place, tuple(part)).encode(world.group.id, LEADER.sign)
        for place, part in enumerate(parts)
    ]


class Mutant(NamedTuple):
    """A mistake and the attack that finds it."""

    patch: Callable[[pytest.MonkeyPatch], None]
    attack: Callable[[], object]
