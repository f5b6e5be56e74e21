"""Operators with one mistake each, which the simulation test must find."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from meteragent.crowd import leader
from meteragent.crowd.group import Group
from meteragent.crowd.leader import Leader
from meteragent.crowd.machine import Machine, RowKey
from meteragent.crowd.share import sum_modulo
from meteragent.operators.desk import REPORT, LedgerLine, Step
from meteragent.operators.link import Link
from meteragent.operators.service import _Worker
from meteragent.operators.store import Store

_commit_step = Store.commit_step


def acknowledges_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """A report whose acknowledgement left before a crash is missing in the total."""
    take = Link.on_message

    def on_message(self: Link, topic: str, payload: bytes, qos: int, retain: bool, token: Any) -> None:
        take(self, topic, payload, qos, retain, token)
        if REPORT in topic and token is not None and self._session is not None:
            self._session.acknowledge([token])

    patch.setattr(Link, "on_message", on_message)


def commits_a_step_later(patch: pytest.MonkeyPatch) -> None:
    """Messages leave before the commit that they follow from."""
    late: dict[_Worker, Step] = {}

    def commit(self: _Worker, step: Step) -> Step:
        if (former := late.get(self)) is not None:
            self._store.commit_step(former.rows, former.lines)
        late[self] = step
        return step

    patch.setattr(_Worker, "_commit", commit)


def forgets_its_answers(patch: pytest.MonkeyPatch) -> None:
    """A helper that has forgotten an answer draws noise for the slot again."""

    def commit(self: Store, rows: Mapping[RowKey, bytes | None], lines: Iterable[LedgerLine] = ()) -> None:
        slots_s = {slot_s for (slot_s,) in self.connection.execute("SELECT slot_s FROM ledger")}
        remaining = {key: None if key.table == "answer" else value for key, value in rows.items()}
        _commit_step(self, remaining, [line for line in lines if line.slot_s not in slots_s])

    patch.setattr(Store, "commit_step", commit)


def publishes_any_crowd(patch: pytest.MonkeyPatch) -> None:
    """The total of two homes says to each what the other used."""
    patch.setattr(Group, "smallest_crowd", property(lambda _: 1, lambda *_: None), raising=False)


def never_asks_again(patch: pytest.MonkeyPatch) -> None:
    """A lost request leaves its slot without a total."""
    patch.setattr(Leader, "unanswered_requests", lambda *_: [])


def forgets_what_it_was_to_publish(patch: pytest.MonkeyPatch) -> None:
    """A total whose commit was the last before a crash is never published."""
    patch.setattr(Leader, "messages_to_resend", lambda self, now_s: self.unanswered_requests(now_s))


def forgets_the_day_at_midnight(patch: pytest.MonkeyPatch) -> None:
    """The last slots of a day are opened by nobody."""
    patch.setattr(Machine, "_is_finished", lambda _, day, now_s: now_s >= (day + 1) * 86_400)


def adds_noise_to_nothing(patch: pytest.MonkeyPatch) -> None:
    """A total is not the sum of what was reported."""
    patch.setattr(leader, "sum_modulo", lambda numbers: sum_modulo([*numbers, 1]))


MUTANTS = (
    (acknowledges_before_the_commit, "report", 0),
    (commits_a_step_later, "report", 0),
    (forgets_its_answers, "two answers", 0),
    (publishes_any_crowd, "fewer homes than the smallest crowd", 0),
    (never_asks_again, "has no total", 0),
    (forgets_what_it_was_to_publish, "has no total", 50),
    (forgets_the_day_at_midnight, "has no total", 0),
    (adds_noise_to_nothing, "not a sum of reports", 0),
)
