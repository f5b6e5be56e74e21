"""A stream's part in a crowd: the operators' keys, the pads and the reports (docs/crowd.md).

The operators' lists of keys arrive as retained messages on the sink's connection (`OperatorKeys`). A list is
checked and committed to the store before it is used, so that the highest serial of each role is on disk
before a key of the list seals anything. After a restart, the lists are read from the store.

The core opens a slot only if both keys for its day are known and differ (`may_open`). A slot that cannot open
is counted, and is neither charged nor reported.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from meteragent.agent.store_thread import StoreThread
from meteragent.crowd.codec import Malformed
from meteragent.crowd.group import ROLES, Group, is_label
from meteragent.crowd.home import OpenSlot, SlotKeys, close_slot, decode_key_list, open_slot, slot_keys
from meteragent.crowd.message import KeyList
from meteragent.domain.commit import OpenWindow, SealedPad
from meteragent.domain.errors import LinkError
from meteragent.domain.shapes import Share
from meteragent.domain.terms import Terms
from meteragent.mqtt import Session
from meteragent.privacy.bits import Bits
from meteragent.store import crowd_keys

Commit = Callable[[str, int, bytes], Awaitable[None]]
"""A function that commits a list, given its role, its serial and its signed bytes."""

_log = logging.getLogger("meteragent")


class OperatorKeys:
    """The newest list of keys from each operator of a group, and the cryptography that uses the keys."""

    def __init__(self, group: Group, lists: dict[str, KeyList], commit: Commit) -> None:
        """Start with `lists`, the stored list of each role; `commit` writes a newer list to the store."""
        self._group = group
        self._lists = lists
        self._commit = commit
        self._topics = {f"crowd/{group.name}/keys/{role}": role for role in ROLES}
        self._waiting: dict[str, bytes] = {}
        self._wake = asyncio.Event()

    # --- the core's view -----------------------------------------------------------------------

    def may_open(self, label: str, start_ms: int) -> bool:
        """Return whether `label` is valid for a home, and both keys for the slot are known and differ."""
        return is_label(label) and self._slot_keys(start_ms // 1000) is not None

    def has_slot(self, time_ms: int) -> bool:
        """Return whether both keys for the slot that contains `time_ms` are known and differ."""
        return self._slot_keys(time_ms // 1000) is not None

    def open(self, label: str, start_ms: int, lattice: int, bits: Bits) -> tuple[int, SealedPad]:
        """Open a slot; return its accumulator and sealed pad. Raises LinkError unless `may_open` is true."""
        slot_s = start_ms // 1000
        keys = self._slot_keys(slot_s)
        if keys is None:
            raise LinkError("the slot cannot open: a key is missing, or both keys are equal")
        slot = open_slot(self._group, label, slot_s, lattice, keys, bits)
        return slot.accumulator, SealedPad(slot.helper_key, slot.sealed_pad, slot.leader_public)

    def close(self, window: OpenWindow, terms: Terms) -> bytes:
        """Return the report of a complete slot. Raises ValueError without a pad or a group."""
        [slot], sealed = window.slots, window.sealed_pad
        if sealed is None or not isinstance(terms.shape, Share):
            raise ValueError("the window has no pad, or its terms name no group")
        home_slot = OpenSlot(
            window.start_ms // 1000,
            slot.accumulator,
            terms.steps_per_quantum[0],
            sealed.pad,
            sealed.helper_key,
            sealed.leader_public,
        )
        return close_slot(bytes.fromhex(terms.shape.group_id), window.public_id, home_slot)

    def _slot_keys(self, slot_s: int) -> SlotKeys | None:
        """Return both keys for a slot's day; None if either is missing, or if they are equal."""
        if len(self._lists) < len(ROLES):
            return None
        return slot_keys(self._lists["leader"], self._lists["helper"], slot_s)

    # --- the connection ------------------------------------------------------------------------

    def keep_key_list(self, topic: str, payload: bytes) -> None:
        """Keep a message, if it is a list of keys, until `serve` processes it."""
        if (role := self._topics.get(topic)) is not None:
            self._waiting[role] = payload
            self._wake.set()

    async def serve(self, session: Session) -> None:
        """Subscribe to both operators' lists, then check and commit each list that arrives, until cancelled.

        A subscription that fails is logged and not retried. Raises StoreError if a list cannot be committed.
        """
        try:
            for topic in self._topics:
                await session.subscribe(topic)
        except LinkError as error:
            _log.warning("crowd %s: cannot read the operators' keys: %s", self._group.name, error)
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                role, payload = self._waiting.popitem()
                await self._accept_key_list(role, payload)

    async def _accept_key_list(self, role: str, payload: bytes) -> None:
        """Check, commit and use a list, or log its refusal; a known serial changes nothing."""
        newest = self._lists.get(role)
        try:
            keys = decode_key_list(self._group, role, payload, 0 if newest is None else newest.serial)
        except Malformed as error:
            _log.warning("crowd %s: a list of the %s's keys is refused: %s", self._group.name, role, error)
            return
        if newest is None or keys.serial > newest.serial:
            await self._commit(role, keys.serial, payload)
            self._lists[role] = keys


def load_operator_keys(group: Group, thread: StoreThread) -> OperatorKeys:
    """Return the keys of a group, starting with the lists in the store."""
    group_id = group.id.hex()
    lists = {
        role: decode_key_list(group, role, payload, serial)
        for role, (serial, payload) in crowd_keys.read_keys(thread.store.connection, group_id).items()
    }

    async def commit(role: str, serial: int, payload: bytes) -> None:
        """Write a list on the store's thread."""
        await thread.call(crowd_keys.commit_keys, thread.store, group_id, role, serial, payload)

    return OperatorKeys(group, lists, commit)
