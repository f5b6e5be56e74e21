"""What must hold of collected records, computed from the messages that were published.

Every acknowledged message is durable at the time of its acknowledgement: its row or its descriptor is in the
tables, its record waits there, or its refusal is counted under its reason. A row never changes, rows never
overlap, and a record stops waiting only if it becomes a row or is refused.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from simulators.invariant import check
from simulators.simtest.schedule import Announce, Record

BEGIN = datetime(2026, 11, 20, 12, tzinfo=UTC)
"""The time at which a world begins, and the start of slot 0."""
WAIT_S = 20
"""How long a record waits for its descriptor (`accept.wait`)."""
SLOT_MIN = (30, 10, 30)
"""The length of the slots under each of the terms, in minutes."""
_PROMISE: dict[str, Any] = {
    "v": 1, "metric": "linf", "epsilon": "1/220", "epsilon_unit": "1/W", "level": "1", "radius": "220",
    "quantum": "1", "mechanism": "linf-laplace", "kind": "power", "unit": "W",
    "unbiased": "of slot values after fill and clamp", "schedule": "wall", "noise": "os", "invariants": [],
    "rounding": "dithered", "space": "linf",
}  # fmt: skip
_HALF_HOURS = {"hides_wh": "110", "n": 1, "length": "PT30M", "step": "PT30M", "level_per_day": "48"}
_TERMS = [
    _PROMISE | _HALF_HOURS | {"sd": 311.1, "ci95": 659.5},
    _PROMISE | {"hides_wh": "110/3", "n": 6, "length": "PT1H", "step": "PT10M"}
    | {"level_per_day": "24", "sd": 950.5, "ci95": 1822.0},
    _PROMISE | _HALF_HOURS | {"sd": 311.1, "ci95": 659.5, "preset": "appliance"},
]  # fmt: skip
_DIGESTS = [
    hashlib.sha256(json.dumps(terms, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    for terms in _TERMS
]
_FLAWS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "unreadable": ("unreadable", {"value": "much"}),
    "other_meter": ("topic", {"meter": "m9"}),
    "unit": ("terms", {"unit": "kW"}),
    "grid": ("grid", {"t": "2026-11-20T12:07:00Z"}),
    "early": ("early", {"t": "2026-12-20T12:00:00Z"}),
    "old": ("old", {"t": "2024-11-20T12:00:00Z"}),
    "poison": ("unstorable", {"value": 666_666}),
    "id": ("descriptor", {"id": "00000000"}),
}
"""The reason for which a flawed message is refused, and the fields that make the flaw."""
POISON = 666_666
"""The value that the tables do not store."""

Message = tuple[str, bytes]
"""A topic and a payload."""


class Slot(NamedTuple):
    """The key of a row: a meter, and the slot's start in ms."""

    meter: str
    time_ms: int


class Value(NamedTuple):
    """The content of a row: the slot's end in ms, the value in quanta, and the digest of the terms."""

    until_ms: int
    quanta: int
    digest: str


class Meaning(NamedTuple):
    """What a message means: a reason for its refusal, a row, or (without a slot) terms of a meter."""

    meter: str
    digest: str
    reason: str = ""
    slot: Slot | None = None
    value: Value | None = None


@dataclass
class State:
    """The durable content of the tables; `staged` holds rows that are not yet in the files of a dataset."""

    rows: dict[Slot, Value] = field(default_factory=dict)
    staged: set[tuple[Slot, Value]] = field(default_factory=set)
    waiting: set[Message] = field(default_factory=set)
    terms: set[tuple[str, str]] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)


class Judge:
    """The judge of one world; `is_late` says that a dataset counts some refusals only when it moves rows."""

    def __init__(self, *, is_late: bool) -> None:
        self.counts = Counter[str]()
        self._is_late = is_late
        self._meanings: dict[Message, Meaning] = {}
        self._acknowledged: dict[Message, None] = {}
        self._refused: defaultdict[str, set[Message]] = defaultdict(set)
        self._waits_since: dict[Message, float] = {}
        self._expired: set[Message] = set()
        self._state = State()

    def publish(self, event: Announce | Record) -> Message:
        """Return the message of an event, whose meaning is remembered."""
        meter, terms, digest = f"m{event.meter}", _TERMS[event.terms], _DIGESTS[event.terms]
        topic = f"private/{meter}/power"
        reason, changes = _FLAWS.get(event.flaw, ("", {}))
        if isinstance(event, Announce):
            names = {"id": digest[:8], "meter": meter, "valid_from": f"{BEGIN:%Y-%m-%dT%H:%M:%SZ}"}
            message = f"{topic}/privacy/{digest[:8]}", json.dumps({**terms, **names, **changes}).encode()
            self._meanings[message] = Meaning(meter, digest, reason)
            return message
        start = BEGIN + timedelta(minutes=SLOT_MIN[event.terms] * event.slot)
        facts = {"v": 1, "meter": meter, "t": f"{start:%Y-%m-%dT%H:%M:%SZ}", "for": terms["step"]}
        facts |= {"value": event.quanta, "unit": "W", "sd": terms["sd"], "d": digest[:8], **changes}
        message = topic, json.dumps(facts).encode()
        time_ms = round(start.timestamp() * 1000)
        value = Value(time_ms + 60_000 * SLOT_MIN[event.terms], event.quanta, digest)
        self._meanings[message] = Meaning(meter, digest, reason, Slot(meter, time_ms), value)
        return message

    def check_step(self, state: State, now_s: float) -> None:
        """Check that no durable content is lost, that no rows overlap, and why records stop waiting."""
        former, self._state = self._state, state
        for slot, value in former.rows.items():
            check(state.rows.get(slot) == value, "a row changes or vanishes", slot)
        check(former.terms <= state.terms, "terms vanish")
        check(all(state.refused[name] >= count for name, count in former.refused.items()), "a count falls")
        by_meter = sorted((slot.meter, slot.time_ms, value.until_ms) for slot, value in state.rows.items())
        for (meter, _, until_ms), (next_meter, next_ms, _) in pairwise(by_meter):
            check(meter != next_meter or until_ms <= next_ms, "two rows of a meter overlap", (meter, next_ms))
        for message in state.waiting - former.waiting:
            self._waits_since.setdefault(message, now_s)
        for message in former.waiting - state.waiting:
            waited_s = now_s - self._waits_since.pop(message)
            if state.refused["no_descriptor"] > former.refused["no_descriptor"]:
                check(waited_s > WAIT_S - 1, "a record waits too short", message)
                self._expired.add(message)
            self._fate(message, state)

    def acknowledge(self, messages: Iterable[Message], state: State) -> None:
        """Check that messages which are about to be acknowledged are durable."""
        for message in messages:
            self._acknowledged[message] = None
            self._check_durable(message, state)
        self._check_counted(state, is_end=not self._is_late)

    def check_end(self, state: State) -> None:
        """Check every message that was ever acknowledged, and that nothing waits for known terms."""
        check(not state.staged, "rows stay staged")
        for message in self._acknowledged:
            self._check_durable(message, state)
        self._check_counted(state, is_end=True)
        for message in state.waiting:
            meaning = self._meanings[message]
            check(
                (meaning.meter, meaning.digest) not in state.terms, "a record waits for known terms", message
            )
        reasons = {meaning.reason for meaning in self._meanings.values()} | {
            "twice",
            "overlap",
            "no_descriptor",
        }
        check(set(+state.refused) <= reasons, "a reason is counted that no message has", state.refused)
        published = {
            (meaning.slot, meaning.value) for meaning in self._meanings.values() if not meaning.reason
        }
        check(set(state.rows.items()) <= published, "a row stands that nobody published")
        self.counts.update(rows=len(state.rows), waiting=len(state.waiting), **{
            f"refused {reason}": count for reason, count in state.refused.items()
        })  # fmt: skip

    def _check_durable(self, message: Message, state: State) -> None:
        if reason := self._fate(message, state):
            self._refused[reason].add(message)

    def _check_counted(self, state: State, *, is_end: bool) -> None:
        counts = state.refused + Counter({"twice": state.refused["overlap"]})
        for reason, messages in self._refused.items():
            if is_end or reason != "twice":
                check(counts[reason] >= len(messages), "a refusal is not counted", reason)

    def _fate(self, message: Message, state: State) -> str:
        """Return the reason for which a message is refused, or "" if it is stored or waits; one must be true.

        `twice` is also the reason for refusing a record whose slot overlaps the slot of another record.
        """
        meaning = self._meanings[message]
        slot, value = meaning.slot, meaning.value
        if message in state.waiting:
            return ""
        if slot is None or value is None:
            stands = meaning.reason or (meaning.meter, meaning.digest) in state.terms
            check(stands, "acknowledged terms are lost", message)
            return meaning.reason
        if not meaning.reason and (state.rows.get(slot) == value or (slot, value) in state.staged):
            return ""
        if message in self._expired or meaning.reason:
            return "no_descriptor" if message in self._expired else meaning.reason
        overlaps = any(
            other.meter == slot.meter and other.time_ms < value.until_ms and slot.time_ms < until_ms
            for other, (until_ms, *_) in state.rows.items()
        )
        check(overlaps, "an acknowledged record is lost", message)
        return "twice"
