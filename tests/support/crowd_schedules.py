"""A street in virtual time: homes, leader, helper and a broker, with everything that can go wrong.

A schedule follows from its seed. Homes are absent or late, or repeat or contradict themselves; the broker
delays, repeats and replays; operators crash before or after a commit, are restored from copies and begin
anew; and one of them may lie. What left is compared with what must hold whatever happens (`Street.faults`).

Each home uses a number of quanta of its own, a power of two, and the noise is far below one of them. So the
value of a total shows which homes it counts. (Where homes are many, they use multiples instead, and the value
must be that of all homes that reported in time.)
"""

import heapq
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from meteragent.crowd import home, message
from meteragent.crowd.codec import Malformed
from meteragent.crowd.group import Group
from meteragent.crowd.helper import Helper
from meteragent.crowd.leader import Leader
from meteragent.crowd.machine import Machine, RowKey
from meteragent.crowd.message import ANSWER, Answer, Batch, Chunk, KeyList, Report
from meteragent.crowd.seal import TOTAL, Identity, key_id, seal_info, seal_number
from meteragent.domain.grid import parse_time
from meteragent.operators.departures import Departures
from meteragent.operators.desk import Arrival, Desk, Step
from meteragent.privacy.bits import SeededBits
from tests.support.crowd import HELPER, LATTICE, LEADER, SLOT_S, make_group, secret

QUANTA = 64
"""The energy of the first home, in quanta."""
POWERS_MAX = 30
"""The largest number of homes that use powers of two."""
_SLOTS, _STEP_S, _TICK_S, _ANSWER_S = 2, 60, 300, 3600
_MACHINES: dict[str, type[Machine]] = {"leader": Leader, "helper": Helper}
_IDENTITIES = {"leader": LEADER, "helper": HELPER}
_STRANGER = Identity(secret("stranger"))


def label(number: int) -> str:
    """Return the label of a home."""
    return f"h{number:04}"


def energy(number: int, homes: int) -> int:
    """Return the energy of a home, in quanta."""
    return QUANTA << number if homes <= POWERS_MAX else QUANTA * (1 + number)


def street_group(homes: int, smallest_crowd: int = 3) -> Group:
    """Return a group whose noise is below half of the first home's energy, but for e^-512."""
    return make_group(
        quantum_wh="1",
        level="16",
        hide_wh="1",
        lowest_wh="0",
        highest_wh=str(energy(homes, homes)),
        smallest_crowd=str(smallest_crowd),
        answer_s=str(_ANSWER_S),
    )


@dataclass
class Copy:
    """A copy of an operator's store, and the number of its counted commits."""

    rows: dict[RowKey, bytes]
    commits: int


class Operator:
    """A desk, its committed rows, and what has not left. `down_s` is when a crashed one starts again."""

    def __init__(self, group: Group, role: str, rng: random.Random, mistakes: "Mistakes") -> None:
        self.group, self.role, self.rng, self.mistakes = group, role, rng, mistakes
        self.bits = SeededBits(rng.randrange(1 << 32))
        self.rows: dict[RowKey, bytes] = {}
        self.lines: list[tuple[int, str, int]] = []
        self.commits = 0
        self.copies: list[Copy] = []
        self.down_s = 0
        self.steps_factor = 1.0
        self.backlog: list[Arrival] = []
        self.desk, self.departures = self._desk(), Departures()

    def _desk(self) -> Desk:
        machine = _MACHINES[self.role](self.group, _IDENTITIES[self.role], self.rows)
        return Desk(machine, lambda size: self.bits.integer(8 * size).to_bytes(size, "big"))

    def start(self, now_s: int) -> None:
        """Start from the committed rows."""
        self.desk, self.departures = self._desk(), Departures()
        self.finish(self.desk.first_step(now_s), now_s)

    def crash(self, now_s: int) -> None:
        """Lose everything but the committed rows."""
        self.departures = Departures()
        self.down_s = now_s + self.rng.choice((60, 600, 3600))

    def restore(self, now_s: int) -> None:
        """Put an older copy in the place of the store; the check of `Store` refuses it, so it begins anew."""
        copy = self.rng.choice(self.copies)
        is_newest = copy.commits == self.commits
        self.rows = dict(copy.rows) if is_newest or self.mistakes.trusts_copies else {}
        self.crash(now_s)

    def finish(self, step: Step, now_s: int) -> bool:
        """Commit a step, then let its messages leave; return False if the operator crashed before that."""
        fate = self.rng.random()
        if self.mistakes.sends_first:
            self.departures.add_messages(step.messages, now_s)
        if fate < 0.02 * self.mistakes.crashes * self.steps_factor:
            if not self.mistakes.sends_first:
                self.crash(now_s)
            self.desk = self._desk()
            return False
        self._commit(step)
        if fate < 0.04 * self.mistakes.crashes * self.steps_factor:
            self.crash(now_s)
        elif not self.mistakes.sends_first:
            self.departures.add_messages(step.messages, now_s)
        return True

    def _commit(self, step: Step) -> None:
        for key, value in step.rows.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        self.lines += [(line.slot_s, line.result, line.homes) for line in step.lines]
        self.commits += any(key.table != "report" for key in step.rows)
        if self.rng.random() < 0.1:
            self.copies.append(Copy(dict(self.rows), self.commits))


@dataclass
class Mistakes:
    """Mistakes of the service that a mutant makes, and how often operators crash."""

    sends_first: bool = False
    trusts_copies: bool = False
    crashes: int = 1


@dataclass
class Street:
    """One schedule. `lies` is the operator that lies; `faulty` says whether a total may be missing."""

    seed: int
    homes: int = 6
    mistakes: Mistakes = field(default_factory=Mistakes)
    smallest_crowd: int = 3

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.group = street_group(self.homes, self.smallest_crowd)
        self.bits = SeededBits(self.seed)
        self.lies = self.rng.choice(("", "", "", "leader", "helper"))
        self.is_restored = False
        self.operators = {role: Operator(self.group, role, self.rng, self.mistakes) for role in _MACHINES}
        for operator in self.operators.values():  # a step for each report: crash as often with many homes
            operator.steps_factor = min(1, 10 / self.homes)
        self.lists: dict[str, KeyList] = {}
        self.received_lists: dict[str, list[bytes]] = {}
        self.left: list[tuple[str, bytes]] = []
        self.arrived: dict[int, set[str]] = defaultdict(set)
        self.stood: dict[int, set[str]] = defaultdict(set)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self.now_s = SLOT_S

    def run(self) -> "Street":
        """Run the schedule until every slot has expired; return the street."""
        for operator in self.operators.values():
            operator.start(self.now_s)
        for place in range(_SLOTS):
            self._plan_slot(SLOT_S + place * self.group.slot_s)
        self._plan_restores()
        end_s = self.group.expiry_s(SLOT_S + _SLOTS * self.group.slot_s) + 4200
        for second in range(SLOT_S, end_s, _STEP_S):
            self._at(second, self._pump)
        while self._events:
            self.now_s, _, event = heapq.heappop(self._events)
            event()
        return self

    def _at(self, at_s: int, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at_s, next(self._order), event))

    def _plan_slot(self, slot_s: int) -> None:
        """Let homes report a slot: most in time, some late, some twice, some never."""
        absent = self.rng.choice((0, 0, 0.2, 0.6))
        end_s, rng = self.group.end_s(slot_s), self.rng
        for number in range(self.homes):
            if rng.random() >= absent:
                late_s = self.group.deadline_s if rng.random() < 0.1 else 0
                at_s = end_s + late_s + rng.randrange(self.group.deadline_s - 60)
                self._at(at_s, partial(self._report, number, slot_s))
                if rng.random() < 0.1:  # a home whose store was restored reports once more
                    self._at(at_s + 30, partial(self._report, number, slot_s))
        for _ in range(2):
            at_s = self.group.closing_s(slot_s) + rng.randrange(60, _ANSWER_S)
            self._at(at_s, partial(self._attack, slot_s))

    def _plan_restores(self) -> None:
        if self.rng.random() < 0.15:
            at_s = self.group.closing_s(SLOT_S) + self.rng.randrange(_ANSWER_S)
            self._at(at_s, self._restore)

    def _restore(self) -> None:
        operator = self.operators[self.rng.choice(("leader", "helper"))]
        if operator.copies:
            self.is_restored = True
            operator.restore(self.now_s)
            for topic, payload in self.left:  # whoever restores a store sends again what it has answered
                if topic == "request":
                    self._at(operator.down_s + 120, partial(self._deliver, topic, payload))

    def _report(self, number: int, slot_s: int) -> None:
        lists = [self._key_list(role) for role in _MACHINES]
        if lists[0] is None or lists[1] is None:
            return
        keys = home.slot_keys(lists[0], lists[1], slot_s)
        if keys is None:
            return
        name = label(number)
        slot = home.open_slot(self.group, name, slot_s, LATTICE, keys, self.bits)
        payload = home.close_slot(self.group.id, name, slot.with_energy(energy(number, self.homes) * LATTICE))
        self._send(f"report/{name}", payload)

    def _send(self, topic: str, payload: bytes) -> None:
        """Give a message to the broker, which delays it and may deliver it twice or replay it much later."""
        rng = self.rng
        delays_s = [rng.randrange(20)]
        if rng.random() < 0.1:
            delays_s.append(rng.choice((5, 300, 2000, 5000)))
        for delay_s in delays_s:
            self._at(self.now_s + delay_s, partial(self._deliver, topic, payload))

    def _deliver(self, topic: str, payload: bytes) -> None:
        kind = topic.partition("/")[0]
        if kind == "keys":
            self.received_lists[topic.removeprefix("keys/")] = [payload]
            return
        receiver = {"report": "leader", "answer": "leader", "request": "helper"}.get(kind)
        if receiver is None:
            return
        operator, arrival = self.operators[receiver], Arrival(topic, payload, self.now_s)
        if operator.down_s > self.now_s:
            if kind == "report":  # the broker keeps what is not acknowledged
                operator.backlog.append(arrival)
        else:
            self._take(operator, arrival)

    def _take(self, operator: Operator, arrival: Arrival) -> None:
        is_taken = operator.finish(operator.desk.take_messages([arrival], self.now_s), self.now_s)
        if not is_taken and arrival.kind == "report":
            operator.backlog.append(arrival)
        if is_taken and arrival.kind == "report":
            report = Report.decode(self.group.id, arrival.payload)
            key = RowKey("report", report.slot_s, report.label)
            if operator.rows.get(key) == arrival.payload:
                self.stood[report.slot_s].add(report.label)

    def _key_list(self, role: str) -> KeyList | None:
        """Return the newest list of a role: homes take those with a higher serial only."""
        for payload in self.received_lists.pop(role, []):
            before = self.lists.get(role)
            with suppress(Malformed):
                self.lists[role] = home.decode_key_list(
                    self.group, role, payload, before.serial if before else 0
                )
        return self.lists.get(role)

    def _pump(self) -> None:
        """Let a minute pass at both operators, and let due messages leave."""
        for operator in self.operators.values():
            if operator.down_s > self.now_s:
                continue
            if operator.down_s:
                operator.down_s = 0
                operator.start(self.now_s)
                backlog, operator.backlog = operator.backlog, []
                for arrival in backlog:
                    self._deliver(arrival.topic, arrival.payload)
            if self.now_s % _TICK_S == 0:
                operator.finish(operator.desk.tick(self.now_s), self.now_s)
            for outgoing in operator.departures.due_messages(self.now_s):
                operator.departures.on_sent(outgoing, 0)
                operator.departures.on_delivered(0)
                self.left.append((outgoing.topic, outgoing.payload))
                if not (outgoing.topic in ("request", "answer") and self.rng.random() < 0.1):
                    self._send(outgoing.topic, outgoing.payload)

    def _attack(self, slot_s: int) -> None:
        """Send what a liar or a stranger sends: a second set, a forged set, a set of few, a false answer."""
        rows = self.operators["leader"].rows
        reports = [value for key, value in sorted(rows.items()) if key[:2] == ("report", slot_s)]
        entries = [Report.decode(self.group.id, payload).entry for payload in reports]
        leader = self.operators["leader"].desk.machine
        keys = leader.keys_of_slot(slot_s)
        if len(entries) < 2 or keys is None:
            return
        signer = LEADER if self.lies == "leader" else _STRANGER
        dropped = self.rng.randrange(1, len(entries))
        subset = entries[:dropped] + entries[dropped + 1 :] if self.rng.random() < 0.7 else entries[:1]
        digest = message.batch_digest(self.group.id, slot_s, subset)
        batch = Batch(slot_s, digest, keys.public, len(subset), 1)
        self._send("request", Chunk(batch, 0, tuple(subset)).encode(self.group.id, signer.sign))
        signer = HELPER if self.lies == "helper" else _STRANGER
        digest = message.batch_digest(self.group.id, slot_s, entries)
        place = seal_info(TOTAL, self.group.id, slot_s, key_id(keys.public), digest)
        sealed = seal_number(QUANTA, keys.public, place)
        answer = Answer(slot_s, digest, len(entries), (), key_id(keys.public), sealed)
        self._send("answer", answer.encode(self.group.id, signer.sign))

    def faults(self) -> Iterator[str]:
        """Yield what is wrong with what left."""
        yield from self._faults_of_answers()
        yield from self._faults_of_totals()
        for operator in self.operators.values():
            slots = [line[0] for line in operator.lines]
            if len(slots) != len(set(slots)) and not self.is_restored:
                yield f"the {operator.role} finished a slot twice"
        if not (self.lies or self.is_restored or self.operators["leader"].down_s):
            yield from self._missing()

    def _faults_of_answers(self) -> Iterator[str]:
        requests = {
            Chunk.decode(self.group.id, payload).message.batch.digest
            for topic, payload in self.left
            if topic == "request"
        }
        answers: dict[int, set[bytes]] = defaultdict(set)
        for topic, payload in self.left:
            if topic == "answer" and message.message_type(payload) == ANSWER:
                answer = Answer.decode(self.group.id, payload).message
                answers[answer.slot_s].add(payload)
                if answer.homes - len(answer.rejected) < self.smallest_crowd:
                    yield "an answer of fewer homes than the smallest crowd"
                if answer.digest not in requests and self.lies != "leader":
                    yield "an answer to a set that the leader never sent"
        if any(len(payloads) > 1 for payloads in answers.values()):
            yield "two answers for a slot"

    def _faults_of_totals(self) -> Iterator[str]:
        totals: dict[int, set[bytes]] = defaultdict(set)
        for topic, payload in self.left:
            if topic == "total":
                totals[parse_time(json.loads(payload)["t"]) // 1000].add(payload)
        for slot_s, payloads in totals.items():
            if len(payloads) > 1:
                yield "two totals for a slot"
            record = json.loads(min(payloads))
            if record["homes"] < self.smallest_crowd:
                yield "a total of fewer homes than the smallest crowd"
            if self.lies != "helper" and not self._is_sum(record, self.stood[slot_s]):
                yield "a total that is not the sum of the homes that it counts"

    def _is_sum(self, record: dict[str, Any], stood: set[str]) -> bool:
        """Return whether a total is the sum of as many homes as it says, which reported in time."""
        units = round(record["value"] / QUANTA)
        if self.homes <= POWERS_MAX:
            labels = {label(number) for number in range(self.homes) if units >> number & 1}
            return labels <= stood and len(labels) == int(record["homes"])
        return len(stood) == int(record["homes"]) and units == sum(1 + int(name[1:]) for name in stood)

    def _missing(self) -> Iterator[str]:
        """Yield the slots that should have a total: enough reports, and operators that ran in time."""
        totals = {slot_s for slot_s, result, _ in self.operators["leader"].lines if result == "total"}
        for slot_s, labels in self.stood.items():
            results = [result for at_s, result, _ in self.operators["leader"].lines if at_s == slot_s]
            if len(labels) >= self.smallest_crowd and slot_s not in totals and results != ["expired"]:
                yield f"no total of {len(labels)} homes: {results}"
