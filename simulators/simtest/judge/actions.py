"""The check of actions on receivers: which are refused, and what paused or ended receivers must not get.

The rules are those of docs/sharing.md. An end is final, and only the file can resume what the file pauses.
From an action on, at once, a receiver gets no record until it is resumed, and none ever of a window that
began between its pause and its resumption. The other receivers of the stream get every slot.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sqlite3 import Connection
from typing import NamedTuple

from simulators.invariant import check
from simulators.simtest.judge import stored
from simulators.simtest.judge.history import History
from simulators.simtest.judge.opened import MessageKey
from simulators.simtest.model.clock_text import parse_time
from simulators.simtest.model.names import PLACEHOLDER
from simulators.simtest.model.receivers import Action
from simulators.simtest.model.setting import Setting

EVER_MS = 2**62
_PLACE = re.compile(r"(?:sink|outside)/([a-z]+)\d*/[^/]+")


def after_actions(settings: Sequence[Setting], actions: Sequence[Action]) -> tuple[Setting, ...]:
    """Return the settings; receivers last paused or ended by an action are paused as if by the file."""
    held_names = {name for name, verb in last_verbs(actions).items() if verb != "resume"}
    return tuple(_without(setting, held_names) if held_names else setting for setting in settings)


def _without(setting: Setting, held_names: Collection[str]) -> Setting:
    peers = (item._replace(is_paused=True) if item.name in held_names else item for item in setting.peers)
    return replace(setting, receivers=",".join(map(str, peers)))


def last_verbs(actions: Sequence[Action]) -> Mapping[str, str]:
    """Return what was done last to each receiver, by its name."""
    return {action.name: action.verb for action in actions}


def pauses(actions: Sequence[Action], name: str) -> Iterator[tuple[int, int]]:
    """Yield from when until when a receiver was paused or had ended, by the newest time then read."""
    since_ms = None
    for action in actions:
        if action.name == name and action.verb != "resume":
            since_ms = action.newest_ms if since_ms is None else since_ms
        elif action.name == name and since_ms is not None:
            yield since_ms, action.newest_ms
            since_ms = None
    if since_ms is not None:
        yield since_ms, EVER_MS


class Question(NamedTuple):
    """What a person asks for: to pause, resume or end a receiver."""

    name: str
    verb: str


@dataclass
class ActionChecker:
    """The check of actions; `doubts` may or may not be on disk, because a process died or a disk failed."""

    history: History
    doubts: list[Action] = field(default_factory=list)

    def begin(self, action: Action) -> None:
        """Begin the transaction of an action."""
        self.doubts.append(action)

    def end(self, refusal: str | None) -> None:
        """End the transaction, which is on disk unless the action was refused."""
        action, expected = self.doubts.pop(), self.history.expected
        has_ended = last_verbs(expected.actions).get(action.name) == "end"
        check(refusal == ("ended" if has_ended else None), "an action is refused wrongly", action)
        if not has_ended:
            expected.actions += (action,)

    def settle(self, store: Connection) -> None:
        """Check that a store holds every action, and no other; one in doubt may be missing."""
        expected, rows = self.history.expected, stored.actions(store)
        doubts, self.doubts = tuple(self.doubts), []
        if rows != _rows(expected.actions):
            expected.actions += doubts
        check(rows == _rows(expected.actions), "an action is lost, or was never taken", rows[-1:])

    def check_answer(self, settings: Sequence[Setting], question: Question, refusal: str | None) -> None:
        """Check that a process refuses what the configuration forbids, and other actions only as ended."""
        receivers = {receiver.name: receiver for setting in settings for receiver in setting.peers}
        expected = None
        if question.name not in receivers:
            expected = "unknown"
        elif question.verb == "resume" and receivers[question.name].is_paused:
            expected = "in_file"
        check(expected == (None if refusal == "ended" else refusal), "an action is refused wrongly", question)

    def check_publication(self, message: MessageKey, now_s: float) -> None:
        """Check that receivers get no records while paused or ended, and later no records of that time."""
        match, actions = _PLACE.fullmatch(message.topic), self.history.expected.actions
        mine = [action for action in actions if match and action.name == match[1]]
        if not mine:
            return
        is_silent = mine[-1].verb != "resume" and now_s > mine[-1].at_s
        check(not is_silent, "a record leaves to a receiver that is paused or has ended", message.topic)
        start_ms = parse_time(json.loads(message.payload)["t"])
        is_old = any(since_ms <= start_ms < until_ms for since_ms, until_ms in pauses(mine, mine[0].name))
        check(not is_old, "a window of a pause leaves to its receiver", message.topic)

    def check_others(self, configurations: Iterable[Sequence[Setting]]) -> None:
        """Check that an admitted receiver has got every slot that another receiver of the stream got.

        A receiver with an end in some configuration is left out, because its last slot is not known here.
        """
        peers = [peer for settings in configurations for setting in settings for peer in setting.peers]
        ending = {peer.name for peer in peers if peer.end is not None}
        grants = [grant for grant in self.history.expected.active() if grant.name not in ending]
        for key, window in self.history.windows.items():
            topics = {
                grant.topic.replace(PLACEHOLDER, window.public_id)
                for grant in grants
                if grant.stream == key.stream and grant.gets(key.start_ms, key.start_ms)
            }
            for messages in window.records.values() if not window.is_lost else ():
                missing = topics - {message.topic for message in messages} if messages else ()
                check(not missing, "a receiver misses a slot that another receiver got", missing)


def _rows(actions: Sequence[Action]) -> list[tuple[str, str]]:
    return [(action.name, action.verb) for action in actions]
