"""A crowd in the simulation: the operators' lists of keys, and the checks of pads, shares and reports.

The world plays both operators of each group. The operators' keys of each day follow from fixed secrets, so
the checks can open everything that a home seals. Let P be the pad, u the dither, S the energy and L one
quantum. The accumulator begins as u - P L modulo 2^64 L. The share in the report plus P is floor((u + S) / L)
modulo 2^64.
"""

import hashlib
from functools import lru_cache
from typing import Any, NamedTuple

from meteragent.crowd import group as groups
from meteragent.crowd.group import DAY_S, ROLES, Group
from meteragent.crowd.message import KeyList, Report
from meteragent.domain.commit import OpenWindow, Outgoing
from meteragent.domain.units import DAY_MS, MICRO
from simulators.invariant import check
from simulators.simtest.model.open_windows import ClosedSlot
from simulators.simtest.model.setting import GROUP_HIDE_WH, GROUP_QUANTUM_U
from simulators.simtest.model.spec import WindowSpec

MODULUS = 1 << 64


def is_available() -> bool:
    """Return whether the cryptography of crowds is installed (the extra `crowd`)."""
    try:
        from meteragent.crowd import seal  # noqa: F401, PLC0415 -- it needs the extra `crowd`
    except ImportError:
        return False
    return True


def group_text(slot_s: int, deadline_s: int) -> str:
    """Return the text of a group file; the slot length and the deadline also determine the group's name."""
    identities = {role: identity(role).public.hex() for role in ROLES}
    operators = "".join(
        f'[{role}]\nname = "The {role}"\nidentity = "{public}"\n' for role, public in identities.items()
    )
    return f"""version = 1
name = "street-{slot_s}-{deadline_s}"
slot_s = {slot_s}
quantum_wh = "{GROUP_QUANTUM_U / MICRO}"
level = 1
hide_wh = {GROUP_HIDE_WH}
lowest_wh = -5000
highest_wh = 900000
smallest_crowd = 3
deadline_s = {deadline_s}
answer_s = 86400
{operators}"""


@lru_cache(maxsize=64)
def make_group(slot_s: int, deadline_s: int) -> Group:
    """Return the group for a slot length and a deadline."""
    return groups.parse_group(group_text(slot_s, deadline_s))


@lru_cache(maxsize=8)
def identity(role: str) -> Any:
    """Return an operator's identity."""
    from meteragent.crowd.seal import Identity  # noqa: PLC0415 -- it needs the extra `crowd`

    return Identity(hashlib.sha256(role.encode()).digest())


@lru_cache(maxsize=1024)
def day_keys(role: str, group_id: bytes, day: int) -> Any:
    """Return an operator's keys for a day."""
    from meteragent.crowd.seal import DayKeys  # noqa: PLC0415 -- it needs the extra `crowd`

    return DayKeys(hashlib.sha256(f"{role} {day}".encode()).digest(), role, group_id)


def key_list(group: Group, role: str, serial: int, first_day: int, days: int, *, is_forged: bool) -> bytes:
    """Return the signed list of an operator's keys; a forged list is signed by the other operator."""
    keys = tuple((day, day_keys(role, group.id, day).public) for day in range(first_day, first_day + days))
    signer = identity(ROLES[1 - ROLES.index(role)] if is_forged else role)
    return KeyList(role, serial, keys).encode(group.id, signer.sign)


class CommittedList(NamedTuple):
    """A list of keys in the store: its serial, and the days that it covers."""

    serial: int
    days: range


class ShareCheck(NamedTuple):
    """The pad and the initial accumulator of a crowd's slot, computed from a stored window."""

    pad: int
    initial: int

    @classmethod
    def of(cls, on_disk: OpenWindow, spec: WindowSpec, energy: int) -> "ShareCheck":
        """Open a stored window's pad as the helper; the accumulator must be u - P L + S mod 2^64 L."""
        [slot], sealed = on_disk.slots, on_disk.sealed_pad
        check(sealed is not None, "a slot of a crowd has no pad", on_disk.start_ms)
        pad = _open("helper", spec, on_disk.public_id, on_disk.start_ms, sealed.pad)  # type: ignore[union-attr]
        check(pad is not None, "the helper cannot open a pad", on_disk.start_ms)
        lattice = spec.lattice(0)
        initial = (slot.accumulator - energy) % (MODULUS * lattice)
        dither = (initial + (pad or 0) * lattice) % (MODULUS * lattice)
        check(dither < lattice, "a slot of a crowd did not begin with its pad", on_disk.start_ms)
        check(
            0 <= slot.accumulator < MODULUS * lattice,
            "a share's accumulator is not within 2^64 quanta",
        )
        return cls(pad or 0, initial)

    def check_state(self, other: "ShareCheck", key: object) -> None:
        """Check that this share has the same pad and initial accumulator as `other`."""
        check(self == other, "a slot of a crowd has two pads, or holds energy that was not measured", key)


def check_report(row: Outgoing, slot: ClosedSlot, public_id: str, share_check: ShareCheck | None) -> None:
    """Check a report's slot and deadline, and that the report contains neither pad nor share unsealed.

    If the open window was ever on disk, the pad must be the one on disk, and the share plus the pad must be
    floor((u + S) / L) modulo 2^64.
    """
    spec = slot.spec
    report = Report.decode(bytes.fromhex(spec.group_id), row.payload)
    place = (public_id, slot.window_ms)
    check((report.label, report.slot_s * 1000) == place, "a report names another slot", place)
    pad = _open("helper", spec, public_id, slot.window_ms, report.pad)
    share = _open("leader", spec, public_id, slot.window_ms, report.share)
    check(pad is not None and share is not None, "an operator cannot open its part of a report", place)
    until_ms = slot.window_ms + spec.length_ms + spec.deadline_ms
    check(row.until_ms == until_ms, "a report does not expire at the deadline", place)
    for number in (pad, share):
        is_clear = (number or 0).to_bytes(8, "big") in row.payload
        check(not is_clear, "a report contains a pad or a share that is not sealed", place)
    if share_check is not None:
        check(pad == share_check.pad, "a slot of a crowd has two pads", place)
        quanta = (share_check.initial + (slot.energy or 0)) // spec.lattice(0)
        expected = (quanta + share_check.pad) % MODULUS
        check(
            ((share or 0) + (pad or 0)) % MODULUS == expected,
            "share and pad do not add up to the energy",
            place,
        )


def report_place(row: Outgoing) -> tuple[str, int]:
    """Return the label of a report of any group, and the start of its slot in ms."""
    report = Report.decode(row.payload[2:34], row.payload)
    return report.label, 1000 * report.slot_s


def has_days(lists: dict[tuple[str, str], CommittedList], group_id: str, start_ms: int) -> bool:
    """Return whether the committed lists of both operators have a key for the day on which a slot starts."""
    day = start_ms // DAY_MS
    return all((group_id, role) in lists and day in lists[group_id, role].days for role in ROLES)


def committed_list(payload: bytes, group: Group, role: str) -> CommittedList:
    """Return a list that the agent commits; the operator with `role` must have signed it."""
    from meteragent.crowd.seal import is_signed  # noqa: PLC0415 -- it needs the extra `crowd`

    signed = KeyList.decode(group.id, payload)
    is_own = is_signed(identity(role).public, signed.body, signed.signature)
    check(
        is_own and signed.message.role == role, "a list of keys that its operator did not sign is committed"
    )
    days = [day for day, _ in signed.message.keys]
    return CommittedList(signed.message.serial, range(min(days), max(days) + 1))


def _open(role: str, spec: WindowSpec, label: str, start_ms: int, sealed: bytes) -> int | None:
    """Open a sealed number as an operator of a window's group; return None if it cannot be opened."""
    from meteragent.crowd.seal import PAD, SHARE, seal_info  # noqa: PLC0415 -- it needs the extra `crowd`

    group_id, slot_s = bytes.fromhex(spec.group_id), start_ms // 1000
    keys = day_keys(role, group_id, slot_s // DAY_S)
    purpose = PAD if role == "helper" else SHARE
    number: int | None = keys.unseal_number(
        sealed, seal_info(purpose, group_id, slot_s, keys.id, label.encode())
    )
    return number
