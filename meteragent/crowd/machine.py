"""An operator without I/O: its rows, the effects of a step, and the keys of each day.

A step returns `Effects`: the caller commits the rows in one transaction, and only then sends the messages. A
machine built from the committed rows continues where the last one stopped. After a failed commit the process
must exit, because the machine is ahead of the store (law 2).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, NamedTuple

from meteragent.crowd.draw import make_tables
from meteragent.crowd.group import DAY_S, Group, day_of
from meteragent.crowd.message import KeyList
from meteragent.crowd.seal import SECRET_BYTES, DayKeys, Identity

DAYS_AHEAD = 7
"""The number of days after today whose keys are published."""

_SEND_STEP_S = 60
"""Messages are sent at multiples of this time."""
_MARGIN_S, _MARGIN_HOMES = 60, 1000
"""The time reserved for a step: a minute, plus a second per 1,000 homes of the batch (crowd.md 4)."""


class RowKey(NamedTuple):
    """The key of a row: its table, its slot or day (0 for a mark), and its name there, if any."""

    table: str
    at: int
    name: str = ""


class Outgoing(NamedTuple):
    """A message to send after the commit, at `due_s`; `topic` is the part after `crowd/NAME/`."""

    topic: str
    payload: bytes
    retain: bool = False
    due_s: int = 0


@dataclass(slots=True)
class Effects:
    """The effects of a step: changed rows (None deletes a row), messages to send, and names of refusals."""

    rows: dict[RowKey, bytes | None] = field(default_factory=dict)
    messages: list[Outgoing] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


def response_due_s(now_s: int, homes: int) -> int:
    """Return when to answer a message that arrived at `now_s`: long after the work on its batch ends."""
    earliest = now_s + _MARGIN_S + homes // _MARGIN_HOMES
    return -(-earliest // _SEND_STEP_S) * _SEND_STEP_S


class Machine:
    """What both operators share, such as the tables `secret` (by day) and `mark` (`serial`, `destroyed`)."""

    role: ClassVar[str]
    topics: ClassVar[tuple[str, ...]]
    """The filters of the topics on which the operator's messages arrive, without `crowd/NAME/`."""

    def __init__(self, group: Group, identity: Identity, rows: Mapping[RowKey, bytes]) -> None:
        if identity.public != group.public_keys[self.role]:
            raise ValueError(f"the identity is not that of the {self.role} in the group's file")
        self.group, self.identity = group, identity
        self._tables: dict[str, dict[int, dict[str, bytes]]] = defaultdict(dict)
        for key, value in rows.items():
            self._tables[key.table].setdefault(key.at, {})[key.name] = value
        make_tables(group.loss_per_quantum)
        self._keys_of = lru_cache(maxsize=4 * DAYS_AHEAD)(self._derive)

    @property
    def rows(self) -> dict[RowKey, bytes]:
        """All rows, as a store would return them."""
        return {
            RowKey(table, at, name): value
            for table, places in self._tables.items()
            for at, names in places.items()
            for name, value in names.items()
        }

    def take_message(self, topic: str, payload: bytes, now_s: int) -> Effects:
        """Take a message that arrived on `crowd/NAME/` followed by `topic`; return the effects."""
        raise NotImplementedError

    def tick(self, now_s: int) -> Effects:
        """Apply the passage of time up to `now_s`, such as deadlines; return the effects."""
        raise NotImplementedError

    def messages_to_resend(self, now_s: int) -> list[Outgoing]:  # noqa: ARG002  the leader needs the time
        """Return the messages to send again after a restart, because they may not have been delivered."""
        return []

    def unanswered_requests(self, now_s: int) -> list[Outgoing]:  # noqa: ARG002  likewise
        """Return the chunks of all requests without an answer, to be sent again."""
        return []

    def oldest_request(self) -> int | None:
        """Return the earliest slot whose request has no answer; None if there is no such slot."""
        return min(self._tables["request"], default=None)

    def are_keys_due(self, now_s: int) -> bool:
        """Return whether `renew_keys` would create or destroy a secret."""
        today, secrets = day_of(now_s), self._tables["secret"]
        if any(self._is_finished(day, now_s) for day in secrets):
            return True
        days = range(max(today, self._mark_value("destroyed") + 1), today + DAYS_AHEAD + 1)
        return any(day not in secrets and not self._is_finished(day, now_s) for day in days)

    def renew_keys(self, now_s: int, entropy: Callable[[int], bytes]) -> Effects:
        """Erase the secrets of finished days, create missing ones from `entropy`, and publish the keys."""
        effects = Effects()
        today = day_of(now_s)
        for day in sorted(self._tables["secret"]):
            if self._is_finished(day, now_s):
                self._delete(effects, "secret", day)
                self._keys_of.cache_clear()
                self._set_mark(effects, "destroyed", max(day, self._mark_value("destroyed")))
        for day in range(max(today, self._mark_value("destroyed") + 1), today + DAYS_AHEAD + 1):
            if not (self._get("secret", day) or self._is_finished(day, now_s)):
                self._put(effects, RowKey("secret", day), entropy(SECRET_BYTES))
        # The clock makes serials grow even if the store is lost, and the mark even if the clock is set back.
        self._set_mark(effects, "serial", max(now_s, self._mark_value("serial") + 1))
        effects.messages.append(self._key_list(today))
        self._delay_messages(effects, now_s)
        return effects

    def _key_list(self, today: int) -> Outgoing:
        """Return the message with the signed list of public keys, from `today` to `DAYS_AHEAD` days later."""
        days = sorted(day for day in self._tables["secret"] if today <= day <= today + DAYS_AHEAD)
        keys = tuple((day, self._keys_of(day).public) for day in days)
        key_list = KeyList(self.role, self._mark_value("serial"), keys)
        payload = key_list.encode(self.group.id, self.identity.sign)
        return Outgoing(f"keys/{self.role}", payload, retain=True)

    def _mark_value(self, name: str) -> int:
        """Return the mark `serial` (of the newest list) or `destroyed` (the last day erased); -1 if unset."""
        value = self._get("mark", 0, name)
        return -1 if value is None else int.from_bytes(value, "big")

    def _set_mark(self, effects: Effects, name: str, value: int) -> None:
        self._put(effects, RowKey("mark", 0, name), value.to_bytes(8, "big"))

    def _delay_messages(self, effects: Effects, now_s: int, homes: int = 0) -> None:
        """Set when a step's messages are sent, which does not depend on how long the step takes."""
        at_s = response_due_s(now_s, homes)
        effects.messages = [message._replace(due_s=at_s) for message in effects.messages]

    def keys_of_slot(self, slot_s: int) -> DayKeys | None:
        """Return the keys of a slot's day; None if the day's secret does not exist yet or is destroyed."""
        day = day_of(slot_s)
        return self._keys_of(day) if self._get("secret", day) else None

    def is_closed(self, slot_s: int, now_s: int) -> bool:
        """Return whether nothing more that is sealed for the slot will be opened."""
        raise NotImplementedError

    def _delete_expired(self, effects: Effects, table: str, now_s: int) -> None:
        """Delete a table's rows for expired slots, once the secret of the slot's day is destroyed."""
        # While the secret exists, the slot would be open for a second batch if the clock were set back.
        for slot_s in sorted(self._tables[table]):
            if now_s >= self.group.expiry_s(slot_s) and not self._get("secret", day_of(slot_s)):
                self._delete(effects, table, slot_s)

    def _is_finished(self, day: int, now_s: int) -> bool:
        """Return whether every slot of a day is closed, so that the day's secret can be destroyed."""
        first = day * DAY_S
        if now_s < self.group.closing_s(first):
            return False
        return all(self.is_closed(slot_s, now_s) for slot_s in range(first, first + DAY_S, self.group.slot_s))

    def _derive(self, day: int) -> DayKeys:
        secret = self._get("secret", day)
        if secret is None:
            raise KeyError(day)
        return DayKeys(secret, self.role, self.group.id)

    def _get(self, table: str, at: int, name: str = "") -> bytes | None:
        return self._tables[table].get(at, {}).get(name)

    def _names(self, table: str, at: int) -> Mapping[str, bytes]:
        return self._tables[table].get(at, {})

    def _put(self, effects: Effects, key: RowKey, value: bytes) -> None:
        self._tables[key.table].setdefault(key.at, {})[key.name] = value
        effects.rows[key] = value

    def _delete(self, effects: Effects, table: str, at: int) -> None:
        for name in self._tables[table].pop(at, {}):
            effects.rows[RowKey(table, at, name)] = None
