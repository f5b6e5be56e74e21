"""Clocks that are set by hours and days, with a lying operator on the other side: nothing happens twice.

Each schedule follows from its seed. Both operators are honest in what is checked, and the messages that they
get are those of a lying other one: requests for any homes, cut and mixed; answers that reject any homes.
"""

import random
from collections import Counter, defaultdict

import pytest

from meteragent.crowd import home, machine, message, seal, share
from meteragent.crowd.group import DAY_S
from meteragent.crowd.machine import Effects
from meteragent.crowd.message import Answer, Batch, Chunk, Entry, Refusal, Report
from tests.support.crowd import HELPER, LATTICE, LEADER, SLOT_S, Street, fixed_entropy, make_group

_SLOT = 6 * 3600
_FIRST_S = SLOT_S - SLOT_S % DAY_S
_SLOTS = [_FIRST_S + place * _SLOT for place in range(4)]
_MOVES_S = (0, 1, 600, _SLOT, _SLOT, 2 * DAY_S, -3600, -_SLOT, -3 * DAY_S)
_LABELS = "abcd"
_STEPS = 100


class Schedule:
    """A street whose clock is set at random; `results` has what was answered, refused and totalled."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        answer_s = self.random.choice(("600", "86400", "604800"))
        group = make_group(smallest_crowd="2", slot_s=str(_SLOT), answer_s=answer_s)
        self.now_s = _FIRST_S
        self.street = Street(group, seed=str(seed))
        self.answer_key = self.street.keys().leader
        self.payloads: dict[tuple[int, str], bytes] = {}
        self.results: defaultdict[tuple[str, int], set[bytes]] = defaultdict(set)
        self.secrets: defaultdict[tuple[str, int], set[bytes]] = defaultdict(set)

    def run(self) -> Counter[str]:
        """Take random steps; return how many slots have a row of each result, and what happened twice."""
        steps = (self.tick, self.prepare, self.report, self.report, self.ask, self.ask, self.reply)
        for _ in range(_STEPS):
            self.now_s = max(_FIRST_S, self.now_s + self.random.choice(_MOVES_S))
            if self.random.random() < 0.5:
                group, slot_s = self.street.group, self.random.choice(_SLOTS)
                self.now_s = self.random.choice((group.end_s(slot_s), group.closing_s(slot_s) + 1))
            self.random.choice(steps)()
            if self.random.random() < 0.1:
                self.street.restart()
        counts = Counter(kind for kind, _ in self.results)
        counts["twice"] = sum(len(values) > 1 for values in [*self.results.values(), *self.secrets.values()])
        return counts

    def commit(self, operator: machine.Machine, effects: Effects) -> None:
        """Commit a step, and note each result and each secret."""
        street = self.street
        assert isinstance(operator, type(street.leader) | type(street.helper))
        street.commit(operator, effects)
        for key, value in effects.rows.items():
            if value is not None and key.table in ("answer", "closed"):
                self.results[key.table, key.at].add(value)
            if value is not None and key.table == "secret":
                self.secrets[operator.role, key.at].add(value)
        for sent in effects.messages:
            if sent.topic.startswith("keys/"):
                serial = street.lists[operator.role].serial
                street.lists[operator.role] = home.decode_key_list(
                    street.group, operator.role, sent.payload, serial
                )

    def tick(self) -> None:
        """Let both operators look at the clock."""
        for operator in (self.street.leader, self.street.helper):
            self.commit(operator, operator.tick(self.now_s))

    def prepare(self) -> None:
        """Let both operators make and destroy secrets."""
        for operator in (self.street.leader, self.street.helper):
            if operator.are_keys_due(self.now_s):
                entropy = fixed_entropy(str(self.random.random()))
                self.commit(operator, operator.renew_keys(self.now_s, entropy))

    def report(self) -> None:
        """Deliver each home's one report of a slot."""
        street, slot_s = self.street, self.random.choice(_SLOTS)
        keys = home.slot_keys(street.lists["leader"], street.lists["helper"], slot_s)
        for label in _LABELS:
            if keys is not None and (slot_s, label) not in self.payloads:
                slot = home.open_slot(street.group, label, slot_s, LATTICE, keys, street.bits)
                self.payloads[slot_s, label] = home.close_slot(
                    street.group.id, label, slot.with_energy(LATTICE)
                )
            if (payload := self.payloads.get((slot_s, label))) is not None:
                self.commit(street.leader, street.leader.take_report(label, payload, self.now_s))

    def ask(self) -> None:
        """Ask the helper for some homes, in chunks of any order and with any place."""
        slot_s, group = self.random.choice(_SLOTS), self.street.group
        labels = [label for label in _LABELS if (slot_s, label) in self.payloads]
        labels = sorted(self.random.sample(labels, self.random.randint(0, len(labels))))
        entries = [Report.decode(group.id, self.payloads[slot_s, label]).entry for label in labels]
        size = self.random.randint(1, 3)
        parts = [tuple(entries[first : first + size]) for first in range(0, len(entries), size)]
        digest = message.batch_digest(group.id, slot_s, entries)
        batch = Batch(slot_s, digest, self.answer_key, len(entries), len(parts))
        for place, part in self.random.sample(list(enumerate(parts)), len(parts)):
            mixed = self.random.randrange(len(parts)) if self.random.random() < 0.1 else place
            payload = Chunk(batch, mixed, part).encode(group.id, LEADER.sign)
            self.commit(self.street.helper, self.street.helper.take_request(payload, self.now_s))

    def reply(self) -> None:
        """Answer an open request, and reject any homes."""
        street, slot_s = self.street, self.random.choice(_SLOTS)
        batch, entries = street.leader._batch(slot_s)
        keys = street.leader.keys_of_slot(slot_s)
        if batch is None or keys is None:
            return
        rejected = tuple(sorted(self.random.sample(range(len(entries)), self.random.randint(0, 2))))
        counted = [entry for place, entry in enumerate(entries) if place not in rejected]
        digest = message.batch_digest(street.group.id, slot_s, counted)
        place = seal.seal_info(seal.TOTAL, street.group.id, slot_s, keys.id, digest)
        total = seal.seal_number(self.pads(slot_s, counted), keys.public, place)
        answer = Answer(slot_s, batch.digest, batch.homes, rejected, keys.id, total)
        payload = answer.encode(street.group.id, HELPER.sign)
        if self.random.random() < 0.1:
            payload = Refusal(slot_s, batch.digest, "too_few").encode(street.group.id, HELPER.sign)
        self.commit(street.leader, street.leader.take_answer(payload, self.now_s))

    def pads(self, slot_s: int, entries: list[Entry]) -> int:
        """Return the sum of the pads that the helper can open."""
        keys = self.street.helper.keys_of_slot(slot_s)
        opened = (
            [] if keys is None else [self.street.helper._open_pad(keys, slot_s, entry) for entry in entries]
        )
        return share.sum_modulo(pad for pad in opened if pad is not None)


def run(count: int) -> Counter[str]:
    """Run schedules; return the sums of their counts."""
    counts = Counter[str]()
    for seed in range(count):
        counts.update(Schedule(seed).run())
    return counts


def test_a_clock_that_is_set_reopens_nothing() -> None:
    """Each slot has one answer and one result, and each day one secret."""
    counts = run(80)
    assert counts["twice"] == 0
    assert min(counts["answer"], 2 * counts["closed"]) > 60


@pytest.mark.parametrize("mistake", ["forgets expired slots", "forgets destroyed days"])
def test_a_mistake_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedules find operators that forget too early."""
    real = machine.Machine._mark_value

    def forget(self: machine.Machine, effects: Effects, table: str, now_s: int) -> None:
        for slot_s in sorted(self._tables[table]):
            if now_s >= self.group.expiry_s(slot_s):
                self._delete(effects, table, slot_s)

    def highest(self: machine.Machine, name: str) -> int:
        return -1 if name == "destroyed" else real(self, name)

    if mistake == "forgets expired slots":
        monkeypatch.setattr(machine.Machine, "_delete_expired", forget)
    else:
        monkeypatch.setattr(machine.Machine, "_mark_value", highest)
    assert run(80)["twice"] > 0
