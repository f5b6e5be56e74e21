"""A home's part: the pad of a slot that opens, and the report of a slot that closes (crowd.md 8, steps 1, 2).

`open_slot` returns the row to commit before anything leaves. The pad itself is not in it: after the commit,
only the helper can open it.
"""

from typing import NamedTuple

from meteragent.crowd import share
from meteragent.crowd.codec import Malformed
from meteragent.crowd.group import Group, day_of
from meteragent.crowd.message import KeyList, Report
from meteragent.crowd.seal import PAD, SHARE, info, is_signed, is_usable, key_id, seal
from meteragent.privacy.bits import Bits
from meteragent.privacy.sampling import below

_PAD_BITS = 64


class OpenSlot(NamedTuple):
    """An open slot as it is stored: accumulator, one quantum in its units, sealed pad, and both keys.

    The leader's key is stored whole, so that a home that restarts after midnight can close the last slot of
    the day before.
    """

    slot_s: int
    accumulator: int
    lattice: int
    sealed_pad: bytes
    helper_key: bytes
    leader_public: bytes

    def add(self, energy: int) -> "OpenSlot":
        """Return the slot with some energy added, in the accumulator's units."""
        return self._replace(accumulator=share.add(self.accumulator, energy, self.lattice))


class SlotKeys(NamedTuple):
    """The public keys of both operators for a slot."""

    leader: bytes
    helper: bytes


def keys_of(group: Group, role: str, payload: bytes, serial_min: int) -> KeyList:
    """Return the list of keys that arrived on a role's topic, if that operator has signed it for this role.

    The role comes from the topic and never from the message: otherwise a leader could put a list of its own
    in the helper's place, and open pads and shares. `serial_min` is the highest serial that the home has
    committed for this role, 0 at first; it commits the list's serial before it uses a key, so that a list
    from before an operator began anew is refused. Keys to which nothing can be sealed are left out.

    Raises:
        Malformed: it is not a list of this group and role, the identity has not signed it, or it is older.
    """
    decoded = KeyList.decode(group.id, payload)
    keys = decoded.message
    if keys.role != role:
        raise Malformed("role")
    if not is_signed(group.identities[role], decoded.body, decoded.signature):
        raise Malformed("signature")
    if keys.serial < serial_min:
        raise Malformed("serial")
    return keys._replace(keys=tuple((day, key) for day, key in keys.keys if is_usable(key)))


def slot_keys(leader: KeyList, helper: KeyList, slot_s: int) -> SlotKeys | None:
    """Return both keys of a slot's day; None if one is missing or they are equal: then nothing is sent."""
    leader_key, helper_key = (dict(keys.keys).get(day_of(slot_s)) for keys in (leader, helper))
    if leader_key is None or helper_key is None or leader_key == helper_key:
        return None
    return SlotKeys(leader_key, helper_key)


def open_slot(group: Group, label: str, slot_s: int, lattice: int, keys: SlotKeys, bits: Bits) -> OpenSlot:
    """Open a slot: draw its pad and dither, seal the pad to the helper."""
    pad, dither = bits.integer(_PAD_BITS), below(lattice, bits)
    helper_key = key_id(keys.helper)
    place = info(PAD, group.id, slot_s, helper_key, label.encode("ascii"))
    accumulator = share.open_accumulator(pad, dither, lattice)
    return OpenSlot(slot_s, accumulator, lattice, seal(pad, keys.helper, place), helper_key, keys.leader)


def close_slot(group_id: bytes, label: str, slot: OpenSlot) -> bytes:
    """Close a slot: return the bytes of its report, which are committed and then sent.

    Only the group's id is needed, so that a slot can be closed after the home has pinned another group.
    """
    leader_key = key_id(slot.leader_public)
    value = share.close_accumulator(slot.accumulator, slot.lattice)
    place = info(SHARE, group_id, slot.slot_s, leader_key, label.encode("ascii"))
    sealed = seal(value, slot.leader_public, place)
    report = Report(slot.slot_s, label, slot.helper_key, leader_key, slot.sealed_pad, sealed)
    return report.encode(group_id)
