"""The loop of an operator: messages from the link, a step of the desk, a commit, then acknowledgements.

The desk and the store run in a thread of their own, so that the connection, the health socket and the sending
of messages do not wait for a draw. Any failure of the store or the machine ends the process, because the
machine would then be ahead of the store. The next start rebuilds the machine from the rows.
"""

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, NoReturn

from meteragent.crowd.helper import Helper
from meteragent.crowd.leader import Leader
from meteragent.crowd.machine import Machine, RowKey
from meteragent.domain.grid import iso_time
from meteragent.domain.problem import Problem, make_service_problem
from meteragent.mqtt import Entropy
from meteragent.operators import published
from meteragent.operators.clock import Clock, StepWatch, Ticks
from meteragent.operators.configuration import Operation
from meteragent.operators.desk import REPORT, Arrival, Desk, Step, order_by_time, split_arrivals
from meteragent.operators.link import Link
from meteragent.operators.silence import SilenceWatch
from meteragent.operators.store import Store
from meteragent.operators.vitals import PROBLEMS, OperatorVitals
from meteragent.service import health
from meteragent.service.health import socket_path
from meteragent.service.process import Notify
from meteragent.service.vitals import as_json

BATCH_MAX: Final = 5_000
"""The largest number of reports in a transaction."""
SLOTS_KEPT: Final = 48
"""The number of finished slots that the vitals show."""

_MACHINES: dict[str, type[Machine]] = {"leader": Leader, "helper": Helper}

_log = logging.getLogger("meteragent")


class _HeldReports(NamedTuple):
    """Committed reports to release at an instant: their number, and their tokens (none at QoS 0)."""

    instant_s: int
    reports: int
    tokens: list[Any]


class Service:
    """One operator of one group."""

    def __init__(self, operation: Operation, entropy: Entropy, clock: Clock, notify: Notify) -> None:
        self._operation, self._entropy = operation, entropy
        self._clock, self._notify = clock, notify
        machine, name = _MACHINES[operation.role], operation.group.name
        client_id = operation.endpoint.client_id or f"meteragent-crowd-{operation.role}-{name}"
        self._link = Link(operation.endpoint, f"crowd/{name}/", client_id, machine.topics, entropy, clock)
        self._counts, self._refusals = Counter[str](), Counter[str]()
        self._slots = deque[tuple[int, str, int]](maxlen=SLOTS_KEPT)
        self._held_reports, self._wake = deque[_HeldReports](), asyncio.Event()
        self._may_draw = False
        self._quiet_s = self._unanswered_s = 0
        self._steps, self._ahead_s = StepWatch(clock), 0
        self._signs_from_s, self._has_begun = 0, False
        self._overload_s: int | None = None
        self._started_s = self._round_s = clock.now_s()
        self._silence = SilenceWatch(operation.role, operation.group, self._started_s)

    async def run(self) -> NoReturn:
        """Serve until cancelled. Raises StoreError if the store cannot be used."""
        operation, group = self._operation, self._operation.group
        with (
            Store.open(operation.store, operation.role, group.id) as store,
            ThreadPoolExecutor(1, "operator") as thread,
        ):
            machine = _MACHINES[operation.role](group, operation.identity, store.read_rows())
            worker = _Worker(thread, Desk(machine, self._entropy), store)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(health.serve_socket(socket_path(operation.store), self._reply))
                tasks.create_task(health.notify_systemd(self._notify, self._problems, self._idle_s))
                if RowKey("mark", 0, "serial") not in machine.rows:
                    await self._wait_past_published()
                self._compare(self._clock.now_s())
                self._finish(await worker.call(worker.begin, self._clock.now_s()), [])
                tasks.create_task(self._link.run())
                tasks.create_task(self._release_when_due())
                _log.info("%s of the group %s, id %s", operation.role, group.name, group.id.hex())
                await self._work(worker)
        raise AssertionError

    async def _wait_past_published(self) -> None:
        """Wait until the clock has passed the serial of the key list that was published before this store."""
        operation = self._operation
        serial = await published.fetch_newest_serial(
            operation.endpoint, operation.group, operation.role, self._entropy
        )
        self._signs_from_s = serial + 1  # homes ignore another list with the same serial
        if lead_s := self._lead_s():
            _warn("keys_ahead", lead_s)
        while self._lead_s():  # noqa: ASYNC110  a clock cannot set an event
            await asyncio.sleep(self._clock.pause_s(self._signs_from_s))

    def _lead_s(self) -> int:
        """Return the seconds until the clock passes the serial of the list that preceded this store, or 0."""
        return max(0, self._signs_from_s - self._clock.now_s())

    async def _work(self, worker: "_Worker") -> NoReturn:
        self._round_s, self._has_begun = self._clock.now_s(), True
        ticks = Ticks(self._round_s)
        while True:
            wait_s = self._clock.pause_s(ticks.next_s)
            arrivals = await self._link.take_batch(BATCH_MAX, wait_s)
            now_s = self._clock.now_s()
            self._compare(now_s)
            await self._round(worker, arrivals, ticks.take_due(now_s, self._link.oldest_s(now_s)))

    def _compare(self, now_s: int) -> None:
        """Compare the wall clock with the boot clock, and log a warning when a jump begins."""
        ahead_s = self._steps.ahead_s(now_s)
        if ahead_s and not self._ahead_s:
            _warn("clock_ahead", ahead_s)
        self._ahead_s = ahead_s

    async def _round(self, worker: "_Worker", arrivals: list[Arrival], instants_s: list[int]) -> None:
        """Take messages and ticks in the order of their times; commit each piece and each tick separately."""
        for earlier_arrivals, instant_s in order_by_time(arrivals, instants_s):
            for piece in split_arrivals(earlier_arrivals):
                self._may_draw = piece[0].kind != REPORT
                step = await worker.call(worker.take, piece, self._clock.now_s())
                self._may_draw = False
                self._finish(step, piece)
            if instant_s is not None:
                self._finish(await worker.call(worker.tick, instant_s, not self._ahead_s), [])
                self._unanswered_s = await worker.call(worker.unanswered_s, instant_s)
        self._round_s = self._clock.now_s()

    def _finish(self, step: Step, arrivals: list[Arrival]) -> None:
        """Send the messages of a committed step at their instants, and release its reports or hold them."""
        now_s = self._clock.now_s()
        self._counts.update(step.counts)
        self._refusals.update(step.refusals)
        self._silence.note_rows(step.rows)
        for line in step.lines:
            self._slots.append((line.slot_s, line.result, line.homes))
            _log.info("slot %s: %s, homes: %d", iso_time(line.slot_s * 1000), line.result, line.homes)
        if self._link.send_messages(step.messages) or step.counts["dropped"]:
            self._overload_s = now_s
        self._quiet_s = max(self._quiet_s, step.quiet_s)
        reports = [arrival for arrival in arrivals if arrival.kind == REPORT]
        tokens = [arrival.token for arrival in reports if arrival.token is not None]
        self._held_reports.append(_HeldReports(self._quiet_s, len(reports), tokens))
        self._wake.set()
        self._release(now_s)

    def _release(self, now_s: int) -> None:
        """Release the reports whose instant has come, and resume reading unless that could reveal a draw.

        While an answer is processed, reading does not resume: `_quiet_s` is set only after the answer's draw,
        so resumed reading would reveal how long the draw took.
        """
        while self._held_reports and self._held_reports[0].instant_s <= now_s:
            _, reports, tokens = self._held_reports.popleft()
            self._link.release_reports(reports, tokens)
        if self._quiet_s <= now_s and not self._may_draw:
            self._link.resume_reading()

    async def _release_when_due(self) -> NoReturn:
        """Release reports at their instants, even while the thread is working on another draw."""
        while True:
            self._wake.clear()
            self._release(self._clock.now_s())
            wait_s = self._clock.pause_s(self._held_reports[0].instant_s) if self._held_reports else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    async def _problems(self) -> tuple[Problem, ...]:
        return self.vitals().problems

    def _idle_s(self) -> float:
        """Return how long ago the last round ended; 0 before the first."""
        return self._clock.now_s() - self._round_s if self._has_begun else 0

    def vitals(self) -> OperatorVitals:
        """Return the current state."""
        now_s, link, operation = self._clock.now_s(), self._link, self._operation
        return OperatorVitals(
            service=operation.role,
            group=operation.group.name,
            group_id=operation.group.id.hex(),
            running_s=now_s - self._started_s,
            is_connected=link.is_up,
            waiting=len(link.departures),
            unanswered_s=self._unanswered_s,
            loaded_s=None if self._overload_s is None else now_s - self._overload_s,
            ahead_s=self._ahead_s,
            published_s=self._lead_s(),
            refused_topics=tuple(sorted(link.departures.refused_topics)),
            counts=dict(self._counts + link.counts),
            refusals=dict(self._refusals),
            silent_slot_s=self._silence.silent_slot_s(now_s),
            slots=tuple(self._slots),
        )

    async def _reply(self, question: bytes) -> str:
        return as_json(self.vitals(), question)


def _warn(code: str, ahead_s: int) -> None:
    """Log a problem of the clock when it begins."""
    item = make_service_problem(PROBLEMS, code, {"ahead_ms": ahead_s * 1000})
    _log.warning("%s; %s", item.text, item.cure)


class _Worker:
    """The desk and the store, which run in a thread of their own."""

    def __init__(self, thread: ThreadPoolExecutor, desk: Desk, store: Store) -> None:
        self._thread, self._desk, self._store = thread, desk, store

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the thread; if cancelled, it still finishes, but its messages are not sent."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def begin(self, now_s: int) -> Step:
        """Commit and return the first step after a start."""
        return self._commit(self._desk.first_step(now_s))

    def take(self, arrivals: list[Arrival], now_s: int) -> Step:
        """Take messages; commit and return the step."""
        return self._commit(self._desk.take_messages(arrivals, now_s))

    def tick(self, now_s: int, is_confirmed: bool) -> Step:
        """Run a tick; commit and return the step."""
        return self._commit(self._desk.tick(now_s, is_confirmed=is_confirmed))

    def unanswered_s(self, now_s: int) -> int:
        """Return how long, in seconds, the oldest open request has had no answer."""
        return self._desk.unanswered_s(now_s)

    def _commit(self, step: Step) -> Step:
        self._store.commit_step(step.rows, step.lines)
        return step
