"""The state of the running agent, for `health`, the page and systemd."""

import json
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from itertools import islice

from meteragent import config as settings
from meteragent.agent.clock import loop_s
from meteragent.agent.environment import Context
from meteragent.agent.first_minutes import FirstMinutes
from meteragent.agent.link import receivers
from meteragent.agent.link.outlets import Outlets
from meteragent.agent.runner import UNERASED_MAX_S
from meteragent.agent.vitals import METERS_MAX, AgentVitals, StreamVitals, intake_limits
from meteragent.core.arrivals import ArrivalRow
from meteragent.core.pipeline import Pipeline
from meteragent.domain.errors import LinkError
from meteragent.domain.grid import round_down
from meteragent.domain.problem import Problem, make_problem
from meteragent.domain.units import DAY_MS
from meteragent.mqtt import Serve, Session
from meteragent.service import health
from meteragent.service.vitals import as_json
from meteragent.store import Connection, ledger, outbox
from meteragent.store.disk import has_room

METERS_QUESTION = b"meters"
"""The question whose answer names the meters, with what has arrived from each."""


class StreamWatch:
    """The state of one stream: its rounds, connections and readings."""

    def __init__(
        self,
        stream: settings.Stream,
        pipeline: Pipeline,
        outlets: Outlets,
        context: Context,
        first_minutes: FirstMinutes,
    ) -> None:
        self.heartbeat_s = loop_s()
        self._down = {"source": {stream.name}, "sink": set(outlets.queues)}
        self.up = {side: not queues for side, queues in self._down.items()}
        self._faults: dict[tuple[str, str], str] = {}
        self._stream = stream
        self._pipeline = pipeline
        self._outlets = outlets
        self._limits = intake_limits(stream)
        self._context = context
        self._first_minutes = first_minutes

    def heartbeat(self) -> None:
        """Record progress of the runner, advance the intake's clock, and log the stream's first minutes."""
        self.heartbeat_s = loop_s()
        now_ms = self._context.clock.newest_ms
        self._pipeline.arrivals.advance_clock(now_ms, is_connected=self.up["source"])
        self._first_minutes.note_answers(self._outlets.unmarked_ids, self._outlets.late_ids)
        self._first_minutes.update(now_ms, self.problems)

    def problems(self) -> Iterator[Problem]:
        """Yield the intake's problems; none if the source is disconnected, or for a shard without meters."""
        if self.up["source"] and (self._stream.source.shard is None or self._pipeline.meters()):
            yield from self._pipeline.arrivals.problems(self._limits)

    def arrival_rows(self) -> tuple[ArrivalRow, ...]:
        """Return what has arrived from each of the first meters and phases, for queries on the device."""
        return tuple(islice(self._pipeline.arrivals.arrival_rows(self._limits), METERS_MAX))

    def note_event(self, side: str, queue: str, event: str) -> None:
        """Count an event of a connection; a side (source or sink) is up if all its queues are connected."""
        if event == "lost":
            self._down[side].add(queue)
            self.up[side] = False
        self._context.counts.add(f"{side}_lost" if event == "lost" else event)

    def note_failure(self, side: str, queue: str, reason: LinkError) -> None:
        """Record why a connection, or an attempt to connect, has ended."""
        self._faults[side, queue] = reason.code

    async def serve(self, side: str, queue: str, serve: Serve, session: Session) -> None:
        """Serve a new connection and record it as up: a sink's at once, a source's once it has subscribed."""
        if side == "source":
            await serve(session)
        self._down[side].discard(queue)
        self.up[side] = not self._down[side]
        self._faults.pop((side, queue), None)
        if side == "sink":
            await serve(session)

    async def vitals(self, now_ms: int | None, *, has_arrivals: bool) -> StreamVitals:
        """Return the stream's vitals; if `has_arrivals`, also what has arrived from each meter (law 4)."""
        stream, thread, connection = self._stream, self._context.thread, self._context.store.connection
        public_ids, crowd = self._pipeline.public_ids(), self._outlets.crowd
        queues, unmarked_ids = self._outlets.queues, self._outlets.unmarked_ids
        waiting_count, first_ms = await thread.call(_count_unconfirmed, connection, queues, unmarked_ids)
        epsilons: dict[str, Fraction] = {}
        if len(public_ids) <= METERS_MAX and now_ms is not None:
            epsilons = await thread.call(_spent_per_w, connection, public_ids, round_down(now_ms, DAY_MS))
        faults = {side: code for (side, _), code in self._faults.items() if code}
        if self.up["sink"] and not self._outlets.retains:
            faults["sink"] = "no_retain"
        return StreamVitals(
            name=stream.name,
            source_up=self.up["source"],
            sink_up=self.up["sink"],
            waiting=waiting_count,
            lag_s=0.0 if now_ms is None or first_ms is None else max(now_ms - first_ms, 0) / 1000,
            meters=len(public_ids),
            spent_per_w=epsilons,
            shard=None if stream.source.shard is None else str(stream.source.shard),
            refused_topics=len(self._outlets.refused_destinations),
            group=None if stream.group is None else stream.group.name,
            has_keys=crowd is None or now_ms is None or crowd.has_slot(now_ms),
            faults=faults,
            is_waiting=self._pipeline.arrivals.is_waiting(self._limits),
            arrivals=self.arrival_rows() if has_arrivals else (),
        )


def _count_unconfirmed(
    connection: Connection, queues: Collection[str], unmarked_ids: frozenset[int]
) -> tuple[int, int | None]:
    """Return the number of unconfirmed messages, and when the first is due (None if there is none)."""
    firsts_ms = list[int]()
    for queue in queues:
        rows = outbox.pending_rows(connection, queue, 2**62, len(unmarked_ids) + 1)
        firsts_ms += [row.due_ms for row in rows if row.id not in unmarked_ids][:1]
    waiting_count = sum(outbox.queue_depth(connection, queue) for queue in queues)
    return max(waiting_count - len(unmarked_ids), 0), min(firsts_ms, default=None)


def _spent_per_w(connection: Connection, public_ids: dict[str, str], day_ms: int) -> dict[str, Fraction]:
    return {
        public_id: ledger.sum_charges(connection, meter, day_ms, DAY_MS)
        for meter, public_id in public_ids.items()
    }


class Watch:
    """The state of the whole agent: its streams and its store."""

    def __init__(self, streams: Sequence[StreamWatch], context: Context) -> None:
        self._streams = streams
        self._context = context
        self._start_s = loop_s()

    async def vitals(self, *, has_arrivals: bool = False) -> AgentVitals:
        """Return the vitals of the agent; if `has_arrivals`, also what has arrived from each meter."""
        thread, path = self._context.thread, self._context.store.path
        now_ms = self._context.clock.now_ms()
        has_space = await thread.has_space()
        unerased_s = thread.unerased_s
        pause_reason = "no usable clock" if now_ms is None else None if has_space else "no room in the store"
        if pause_reason is None and unerased_s >= UNERASED_MAX_S:
            pause_reason = "the log is not erased"
        problems = [item for stream in self._streams for item in stream.problems()] * (pause_reason is None)
        if not has_room(path):
            problems.append(make_problem("disk_full"))
        return AgentVitals(
            service="agent",
            running_s=loop_s() - self._start_s,
            store_bytes=path.stat().st_size,
            stands=pause_reason,
            counts=dict(self._context.counts),
            streams=tuple([await item.vitals(now_ms, has_arrivals=has_arrivals) for item in self._streams]),
            raised=(*self._context.alarms.problems, *problems),
            unerased_s=unerased_s,
        )

    async def problems(self) -> tuple[Problem, ...]:
        """Return the problems that require human attention."""
        return (await self.vitals()).problems

    async def serve_socket(self) -> None:
        """Answer connections to the socket, and act on receivers, until cancelled."""
        await health.serve_socket(health.socket_path(self._context.store.path), self._reply)

    async def _reply(self, question: bytes) -> str:
        verb, _, name = question.decode("utf-8", "replace").partition(" ")
        if name:
            return json.dumps({"refused": await receivers.act(self._context, verb, name, "command")})
        return as_json(await self.vitals(has_arrivals=question == METERS_QUESTION), question)

    async def notify_systemd(self) -> None:
        """Report readiness and the status to systemd and, while all runners make progress, liveness."""
        await health.notify_systemd(self._context.environment.notify, self.problems, self._silent_s)

    def _silent_s(self) -> float:
        """Return how long ago the runner that has been silent the longest last reported progress."""
        return loop_s() - min((stream.heartbeat_s for stream in self._streams), default=loop_s())
