"""A group with two operators and homes, from fixed seeds, for tests of crowds."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from meteragent.crowd import group as groups
from meteragent.crowd import home
from meteragent.crowd.group import Group
from meteragent.crowd.helper import Helper
from meteragent.crowd.home import SlotKeys
from meteragent.crowd.leader import Leader
from meteragent.crowd.machine import Effects, Outgoing, RowKey
from meteragent.crowd.message import KeyList
from meteragent.crowd.seal import Identity
from meteragent.privacy.bits import Bits, SeededBits

LATTICE = 1_800_000
"""One quantum in the accumulator's units."""
SLOT_S = 1_795_000_200 - 1_795_000_200 % 1800


def secret(name: str) -> bytes:
    """Return 32 bytes that follow from a name."""
    return hashlib.sha256(name.encode()).digest()


LEADER, HELPER = Identity(secret("leader")), Identity(secret("helper"))


def group_text(**changes: str) -> str:
    """Return the file of a group, with changed values as TOML."""
    values = {
        "version": "1",
        "name": '"elm-street"',
        "slot_s": "1800",
        "quantum_wh": '"0.5"',
        "level": "1",
        "hide_wh": "110",
        "lowest_wh": "-5000",
        "highest_wh": "10000",
        "smallest_crowd": "3",
        "deadline_s": "1200",
        "answer_s": "86400",
    } | changes
    lines = [f"{name} = {value}" for name, value in values.items()]
    for role, identity in (("leader", LEADER), ("helper", HELPER)):
        lines += [f"[{role}]", f'name = "The {role}"', f'identity = "{identity.public.hex()}"']
    return "\n".join(lines)


def make_group(**changes: str) -> Group:
    """Return a group with changed values."""
    return groups.parse_group(group_text(**changes))


def fixed_entropy(seed: str) -> Callable[[int], bytes]:
    """Return a source of bytes that follow from a seed."""
    bits = SeededBits(int.from_bytes(secret(seed)[:4], "big"))
    return lambda size: bits.integer(8 * size).to_bytes(size, "big")


@dataclass
class Street:
    """Two operators and the stores that hold their committed rows."""

    group: Group
    leader: Leader = field(init=False)
    helper: Helper = field(init=False)
    leader_rows: dict[RowKey, bytes] = field(default_factory=dict)
    helper_rows: dict[RowKey, bytes] = field(default_factory=dict)
    lists: dict[str, KeyList] = field(default_factory=dict)
    bits: Bits = field(default_factory=lambda: SeededBits(1))
    seed: str = ""

    def __post_init__(self) -> None:
        self.restart()
        self.prepare(SLOT_S)

    def restart(self) -> None:
        """Make both machines of the committed rows."""
        self.leader = Leader(self.group, LEADER, self.leader_rows)
        self.helper = Helper(self.group, HELPER, self.helper_rows)

    def prepare(self, now_s: int) -> None:
        """Let both operators publish their keys."""
        for machine in (self.leader, self.helper):
            effects = machine.renew_keys(now_s, fixed_entropy(self.seed + machine.role))
            self.commit(machine, effects)
            self.lists[machine.role] = home.decode_key_list(
                self.group, machine.role, effects.messages[0].payload, 0
            )

    def commit(self, machine: Leader | Helper, effects: Effects) -> list[Outgoing]:
        """Commit the rows of a step; return its messages."""
        apply(self.leader_rows if machine is self.leader else self.helper_rows, effects.rows)
        return effects.messages

    def keys(self, slot_s: int = SLOT_S) -> SlotKeys:
        """Return both operators' keys of a slot, as a home takes them from the lists."""
        keys = home.slot_keys(self.lists["leader"], self.lists["helper"], slot_s)
        assert keys is not None
        return keys

    def report(self, label: str, quanta: int, slot_s: int = SLOT_S) -> bytes:
        """Return a report of a whole number of quanta."""
        slot = home.open_slot(self.group, label, slot_s, LATTICE, self.keys(slot_s), self.bits)
        return home.close_slot(self.group.id, label, slot.with_energy(quanta * LATTICE))

    def deliver(self, reports: Mapping[str, bytes], slot_s: int = SLOT_S) -> None:
        """Deliver reports to the leader right after the slot's end."""
        for label, payload in reports.items():
            effects = self.leader.take_report(label, payload, self.group.end_s(slot_s))
            assert effects.refusals == []
            self.commit(self.leader, effects)

    def deadline_s(self, slot_s: int = SLOT_S) -> int:
        """Return the first second after a slot's deadline."""
        return self.group.closing_s(slot_s) + 1

    def ask(self, slot_s: int = SLOT_S) -> list[bytes]:
        """Pass the deadline; return the leader's request."""
        effects = self.leader.tick(self.deadline_s(slot_s))
        return [message.payload for message in self.commit(self.leader, effects)]

    def answer(self, request: list[bytes], slot_s: int = SLOT_S) -> list[bytes]:
        """Give the helper a request; return its messages."""
        messages: list[Outgoing] = []
        for payload in request:
            effects = self.helper.take_request(payload, self.deadline_s(slot_s))
            messages += self.commit(self.helper, effects)
        return [message.payload for message in messages]

    def finish(self, answers: list[bytes]) -> list[bytes]:
        """Give the leader answers; return the totals that it publishes."""
        messages: list[Outgoing] = []
        for payload in answers:
            messages += self.commit(self.leader, self.leader.take_answer(payload, self.deadline_s()))
        return [message.payload for message in messages]

    def total(self, reports: Mapping[str, bytes], slot_s: int = SLOT_S) -> list[bytes]:
        """Run the protocol for a slot; return what is published."""
        self.deliver(reports, slot_s)
        return self.finish(self.answer(self.ask(slot_s), slot_s))


def apply(rows: dict[RowKey, bytes], changes: Mapping[RowKey, bytes | None]) -> None:
    """Commit changes to rows."""
    for key, value in changes.items():
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value
