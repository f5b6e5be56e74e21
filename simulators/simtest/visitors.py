"""The part of a world in which others open the agent's store: a second agent, and a person's command."""

import json
from functools import partial

from meteragent.cli import receivers
from meteragent.domain.errors import StoreError, StoreInUse
from meteragent.store import Store
from meteragent.store.grants import Action
from simulators.invariant import check
from simulators.simtest import schedule as s
from simulators.simtest.configuration import parse
from simulators.simtest.judge.actions import Question
from simulators.simtest.process_environment import ProcessEnvironment
from simulators.simtest.store import disk

_TRIES, _PAUSE_S, _NOTICED_S = 100, 0.2, 0.002
"""How often `meteragent receivers` tries, its pause after each try, and when it notices a missing answer."""


class Visitors(ProcessEnvironment):
    """A world's side of the other programs that open its store."""

    def _start_second(self) -> None:
        """Start another agent on the store of a process: it must be refused, and must change nothing."""
        if not self.is_alive or self._store is None:
            return
        files = disk.read_files(self._versions.folder)
        try:
            Store.open(self._versions.folder / "db", now_ms=self.wall_ms(), recovery_floor_ms=None)
        except StoreInUse:
            with self.guard:
                unchanged = disk.read_files(self._versions.folder) == files
                check(unchanged, "a second agent changes the store of the first")
        else:
            self._store = None  # it belongs to the second agent now
            with self.guard:
                check(holds=False, invariant="a second agent opens the store of the first")

    def _act(self, event: s.Act, tries: int = _TRIES) -> None:
        """Act on a receiver as `meteragent receivers` does: ask the process, or else write the store."""
        if self._loop.time() * 1000 < self.plan.end_ms and tries:
            self._loop.ask(f"{event.verb} {event.name}".encode(), partial(self._take_answer, event, tries))

    def _take_answer(self, event: s.Act, tries: int, answer: bytes) -> None:
        if not answer:  # wait until the files are those that a crash has left
            self._loop.call_later(_NOTICED_S, self._act_on_file, event, tries)
            return
        self._check_refusal(event, json.loads(answer)["refused"])

    def _check_refusal(self, event: s.Act, refusal: str | None) -> None:
        self.counts["actions refused"] += refusal is not None
        with self.guard:
            question = Question(event.name, event.verb)
            self._oracle.actions.check_answer(self._written_configuration, question, refusal)

    def _act_on_file(self, event: s.Act, tries: int) -> None:
        """Act in place of the agent; do nothing if it is not known what the store holds."""
        path = self._versions.folder / "db"
        if not path.exists() or self._versions.is_unknown or self._oracle.actions.doubts:
            return
        config = parse(self._written_configuration, self._pace, self._keys, path, keeps_tables=True)
        action = Action(0, event.name, event.verb, "command", self.wall_ms())
        act = partial(receivers.act_on_file, path, config, action)
        trap = None if self.is_alive else self._traps.spring("act")
        try:
            if trap is None:
                refusal = act()
            else:
                refusal, states = disk.run_with_states(self._versions.folder, act)
        except StoreInUse:  # the agent starts, stops, or opens the store again
            self._loop.call_later(_PAUSE_S, self._act, event, tries - 1)
            return
        except StoreError:  # it was set aside, restored or damaged, as the message says
            return
        self.counts["actions on the file"] += 1
        self._check_refusal(event, refusal)
        if refusal in {None, "ended"}:
            self._oracle.actions.begin(self._noted(action))
        if trap is not None:  # the command was killed
            self.counts["crash act"] += 1
            self._versions.leave(states[len(states) * trap.part // 1000], "")
        elif self._oracle.actions.doubts:
            with self.guard:
                self._oracle.actions.end(refusal)
