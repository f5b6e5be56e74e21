"""A home's part: a slot opens with a pad and closes with a report (crowd.md 3.1 and 3.2).

`open_slot` returns the row that must be committed before anything about the slot is sent. The row contains
the pad itself only in sealed form, which only the helper can open.
"""

from typing import NamedTuple

from meteragent.crowd import share
from meteragent.crowd.codec import Malformed
from meteragent.crowd.group import Group, day_of
from meteragent.crowd.message import KeyList, Report
from meteragent.crowd.seal import PAD, SHARE, is_signed, is_usable, key_id, seal_info, seal_number
from meteragent.privacy.bits import Bits
from meteragent.privacy.sampling import below

_PAD_BITS = 64


class OpenSlot(NamedTuple):
    """An open slot as it is stored.

    accumulator    the accumulator of crowd.md 6
    lattice        one quantum, in the accumulator's units
    helper_key     the id of the helper's key, to which the pad is sealed
    leader_public  the leader's public key, to which the share will be sealed: not only its id, so that a home
                   that restarts after midnight can close the last slot of the day before
    """

    slot_s: int
    accumulator: int
    lattice: int
    sealed_pad: bytes
    helper_key: bytes
    leader_public: bytes

    def with_energy(self, energy: int) -> "OpenSlot":
        """Return the slot after `energy`, in the accumulator's units, is added."""
        return self._replace(accumulator=share.add_energy(self.accumulator, energy, self.lattice))


class SlotKeys(NamedTuple):
    """The public keys of the two operators for a slot, 32 bytes each."""

    leader: bytes
    helper: bytes


def decode_key_list(group: Group, role: str, payload: bytes, serial_min: int) -> KeyList:
    """Decode and check a key list that arrived on a role's topic; return it without unusable keys.

    `role` is the role of the topic, never a role from the message: otherwise a leader could publish a list of
    its own keys as the helper's, and open both pads and shares. `serial_min` is the highest serial that the
    home has committed for this role, or 0: older lists are refused for ever, for example one from before the
    operator lost its store. Raises Malformed if a check fails.
    """
    signed_list = KeyList.decode(group.id, payload)
    keys = signed_list.message
    if keys.role != role:
        raise Malformed("another role")
    if not is_signed(group.public_keys[role], signed_list.body, signed_list.signature):
        raise Malformed("a wrong signature")
    if keys.serial < serial_min:
        raise Malformed("a serial below that of a newer list")
    return keys._replace(keys=tuple((day, key) for day, key in keys.keys if is_usable(key)))


def slot_keys(leader: KeyList, helper: KeyList, slot_s: int) -> SlotKeys | None:
    """Return both keys for a slot's day; None (do not open the slot) if one is missing or both are equal."""
    leader_key, helper_key = (dict(keys.keys).get(day_of(slot_s)) for keys in (leader, helper))
    if leader_key is None or helper_key is None or leader_key == helper_key:
        return None
    return SlotKeys(leader_key, helper_key)


def open_slot(group: Group, label: str, slot_s: int, lattice: int, keys: SlotKeys, bits: Bits) -> OpenSlot:
    """Open a slot, whose lattice is one quantum in accumulator units; draw its pad and dither from `bits`."""
    pad, dither = bits.integer(_PAD_BITS), below(lattice, bits)
    helper_key = key_id(keys.helper)
    hpke_info = seal_info(PAD, group.id, slot_s, helper_key, label.encode("ascii"))
    accumulator = share.open_accumulator(pad, dither, lattice)
    return OpenSlot(
        slot_s, accumulator, lattice, seal_number(pad, keys.helper, hpke_info), helper_key, keys.leader
    )


def close_slot(group_id: bytes, label: str, slot: OpenSlot) -> bytes:
    """Return the report of a slot, even of a group that the home has left; commit it before sending."""
    leader_key = key_id(slot.leader_public)
    value = share.close_accumulator(slot.accumulator, slot.lattice)
    hpke_info = seal_info(SHARE, group_id, slot.slot_s, leader_key, label.encode("ascii"))
    sealed = seal_number(value, slot.leader_public, hpke_info)
    report = Report(slot.slot_s, label, slot.helper_key, leader_key, slot.sealed_pad, sealed)
    return report.encode(group_id)
