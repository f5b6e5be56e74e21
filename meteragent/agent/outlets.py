"""The connections on which a stream's messages are sent: one to its sink, or one to each receiver.

The runner and the watch see the receivers' sinks as one sink (`SharedSink`), and their listeners as one
listener (`SharedListener`).

For a shared stream, the core uses the public id alone as a topic, and each receiver's topics are translated
to public ids. A meter is held if at least one receiver's broker refuses its topic. A meter is clear once it
is clear at every receiver.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from meteragent import config as settings
from meteragent.agent import parts, receivers
from meteragent.agent.clock import SteadyClock
from meteragent.agent.other_agent import Listener, OnMessage, Serve
from meteragent.agent.refused_topics import Refusals
from meteragent.agent.sink import POLL_S, Sink
from meteragent.domain import identity
from meteragent.domain.commit import Commit
from meteragent.domain.counters import Counts
from meteragent.domain.errors import ConfigError, StoreError
from meteragent.domain.problem import Alarms
from meteragent.mqtt import Endpoint, keep_connected
from meteragent.store import Store, grants, ledger, outbox
from meteragent.store.grants import Grant
from meteragent.store.outbox import WaitingRow

if TYPE_CHECKING:
    from meteragent.agent.crowd import Keys
    from meteragent.agent.runner import StoreThread

_log = logging.getLogger("meteragent")


class Outlet(NamedTuple):
    """A connection on which records or reports are sent, either to the sink of a stream or to one receiver.

    `queue` names the connection's queue in the outbox, and `stream` is the stream with this connection's
    sink. `crowd` takes the operators' keys from this connection; None if the stream has no group.
    """

    queue: str
    stream: settings.Stream
    sink: Sink
    listener: Listener
    endpoint: Endpoint
    client_id: str
    role: str
    crowd: "Keys | None" = None

    @property
    def serve(self) -> Serve:
        """The function that serves a session: it sends rows, and receives descriptors and keys."""
        serve = self.listener.wrap_serve(self.sink.serve)
        return serve if self.crowd is None else self.crowd.wrap_serve(serve)

    @property
    def on_message(self) -> OnMessage:
        """The function that handles the messages that the session receives."""
        on_message = self.listener.wrap_on_message(self.sink.on_message)
        return on_message if self.crowd is None else self.crowd.wrap_on_message(on_message)


class SharedRefusals:
    """The refused topics of several sinks, by public id."""

    def __init__(self, refusals: Sequence[tuple[str, Refusals]]) -> None:
        """Combine the refusals of several sinks; each pair begins with the template of the sink's topics."""
        self._refusals = refusals

    @property
    def held_topics(self) -> Collection[str]:
        """The public ids of the meters whose messages at least one receiver's broker refuses."""
        return {
            identity.public_id(template, topic)
            for template, refusals in self._refusals
            for topic in refusals.held_topics
        }

    @property
    def waiting_bytes(self) -> int:
        """The total size of the due messages on held topics, in bytes as counted by the outbox."""
        return sum(refusals.waiting_bytes for _, refusals in self._refusals)


class SharedSink:
    """The sinks of a stream's receivers."""

    def __init__(self, outlets: Sequence[Outlet]) -> None:
        self._sinks = {outlet.queue: outlet.sink for outlet in outlets}
        self.refusals = SharedRefusals(
            [(outlet.stream.sink.topic, outlet.sink.refusals) for outlet in outlets]
        )

    def take(self, rows: Iterable[WaitingRow]) -> None:
        """Pass committed rows to the sinks of their receivers."""
        by_queue: dict[str, list[WaitingRow]] = {}
        for row in rows:
            by_queue.setdefault(row.queue, []).append(row)
        for queue, queue_rows in by_queue.items():
            self._sinks[queue].take(queue_rows)

    @property
    def unmarked_ids(self) -> frozenset[int]:
        """The ids of rows that are delivered or too late, but not yet marked in the outbox."""
        return frozenset().union(*(sink.unmarked_ids for sink in self._sinks.values()))

    @property
    def late_ids(self) -> frozenset[int]:
        """Those of the unmarked ids whose reports are too late, and so never leave."""
        return frozenset().union(*(sink.late_ids for sink in self._sinks.values()))

    def note_marked(self, row_ids: Iterable[int]) -> None:
        """Forget the ids of rows that are marked in the outbox."""
        row_ids = list(row_ids)
        for sink in self._sinks.values():
            sink.note_marked(row_ids)


class SharedListener:
    """The listeners of a stream's receivers, which ask about each meter at each receiver."""

    def __init__(self, outlets: Sequence[Outlet]) -> None:
        self._listeners = {outlet.queue: outlet.listener for outlet in outlets}
        self._unclear: dict[str, set[str]] = {}

    def ask(self, public_ids: Iterable[str]) -> None:
        """Start to find out which of these meters another agent releases to any of the receivers."""
        for public_id in public_ids:
            self._unclear[public_id] = set(self._listeners)
            for listener in self._listeners.values():
                listener.ask([public_id])

    def clear(self) -> list[str]:
        """Return the meters that have become clear at every receiver since the last call."""
        for queue, listener in self._listeners.items():
            for public_id in listener.clear():
                self._unclear.get(public_id, set()).discard(queue)
        public_ids = [public_id for public_id, queues in self._unclear.items() if not queues]
        for public_id in public_ids:
            del self._unclear[public_id]
        return public_ids


class Outlets(NamedTuple):
    """All connections of a stream; `is_shared` says whether they lead to receivers or to its own sink."""

    all: tuple[Outlet, ...]
    is_shared: bool

    @property
    def queues(self) -> list[str]:
        """The queues of the connections' rows in the outbox."""
        return [outlet.queue for outlet in self.all]

    @property
    def sink(self) -> Sink | SharedSink:
        """The sink, as the runner sees it."""
        return SharedSink(self.all) if self.is_shared else self.all[0].sink

    @property
    def listener(self) -> Listener | SharedListener:
        """The listener for other agents, as the runner sees it."""
        return SharedListener(self.all) if self.is_shared else self.all[0].listener

    @property
    def crowd(self) -> "Keys | None":
        """The keys of the group whose total includes the stream; None if the stream sends records."""
        return self.all[0].crowd if self.all else None

    def last_due_ms(self, store: Store) -> dict[str, int]:
        """Return, by the core's topic, the latest due time of the messages due after the store's time."""
        last_ms: dict[str, int] = {}
        for outlet in self.all:
            rows = outbox.last_due_ms(store.connection, outlet.queue, store.clock_ms)
            for topic, due_ms in rows.items():
                name = identity.public_id(outlet.stream.sink.topic, topic) if self.is_shared else topic
                last_ms[name] = max(due_ms, last_ms.get(name, 0))
        return last_ms


@dataclass(frozen=True, slots=True)
class OutletMaker:
    """The maker of the connections to sinks and receivers; `listen_s` and `entropy` are the environment's."""

    thread: "StoreThread"
    clock: SteadyClock
    counts: Counts
    alarms: Alarms
    listen_s: float
    entropy: Callable[[int], bytes]
    page: settings.Page | None = None

    def of(self, stream: settings.Stream, links: parts.Links) -> Outlets:
        """Return a stream's connections: one to its sink, or one to each receiver that is admitted.

        Raises ConfigError or StoreError if the settings of a receiver's broker cannot be used.
        """
        store = self.thread.store
        if links.sink is not None:
            _, client_id = parts.client_ids(store, stream.name)
            return Outlets((self._outlet(stream.name, stream, links.sink, client_id, None),), is_shared=False)
        active = {
            grant.name: grant for grant in grants.active(store.connection) if grant.stream == stream.name
        }
        outlets = [
            self._outlet(
                grant.queue,
                settings.receiver_link(stream, receiver),
                receivers.endpoint(grant.link, f"receiver {grant.name}"),
                parts.receiver_client_id(store, grant.queue),
                grant,
            )
            for receiver in stream.receivers
            if (grant := active.get(receiver.name)) is not None
        ]
        return Outlets(tuple(outlets), is_shared=True)

    def _outlet(
        self, queue: str, stream: settings.Stream, endpoint: Endpoint, client_id: str, grant: Grant | None
    ) -> Outlet:
        """Return a connection with its sink and its listener."""
        store, template = self.thread.store, stream.sink.topic
        role = parts.role(stream, "sink") if grant is None else f"receiver {grant.name}"
        presence, refusals = (
            parts.presence(stream, store.secret, self.page),
            Refusals(template.count("/") + 1),
        )
        reader, counts = self.thread.outbox_reader(queue), self.counts.part()
        sink = Sink(reader, self.clock.now_ms, counts, presence, refusals)
        taken_over_ms = ledger.taken_over_ms(store.connection)
        listener = Listener(
            stream.name if grant is None else f"{stream.name} for {grant.name}",
            store.claim_key,
            taken_over_ms,
            self.listen_s,
            self.counts,
            self.alarms,
            template=None if grant is None else template,
        )
        return Outlet(queue, stream, sink, listener, endpoint, client_id, role, self._crowd(stream))

    def _crowd(self, stream: settings.Stream) -> "Keys | None":
        """Return the keys of a stream's group; None if it has no group."""
        if stream.group is None:
            return None
        from meteragent.agent import crowd  # noqa: PLC0415 -- it needs the extra `crowd`

        return crowd.keys(stream.group, self.thread)

    async def withdraw(self, grant: Grant) -> None:
        """Send the messages that wait for a revoked receiver, which only withdraw its descriptors.

        If the settings of the receiver's broker cannot be used, a warning is logged and the descriptors stay.
        """
        try:
            endpoint = receivers.endpoint(grant.link, f"receiver {grant.name}")
        except (ConfigError, StoreError) as error:
            _log.warning("receiver %s was revoked, but its descriptors stay: %s", grant.name, error)
            return
        sink = Sink(self.thread.outbox_reader(grant.queue), self.clock.now_ms, self.counts)
        connection_task = asyncio.create_task(
            keep_connected(
                endpoint,
                parts.receiver_client_id(self.thread.store, grant.queue),
                sink.serve,
                on_message=sink.on_message,
                on_delivered=sink.on_delivered,
                on_refused=sink.on_refused,
                session_expiry_s=0,
                entropy=self.entropy,
                role=f"revoked receiver {grant.name}",
            )
        )
        try:
            while await self.thread.call(outbox.depth, self.thread.store.connection, grant.queue):
                await sink.idle.wait()
                if row_ids := sorted(sink.unmarked_ids):
                    await self.thread.persist(Commit(grant.stream, self.clock.newest_ms), row_ids, None)
                    sink.note_marked(row_ids)
                else:  # the clock shows no time, or the broker refuses the topics
                    await asyncio.sleep(POLL_S)
                sink.wake()
        finally:
            connection_task.cancel()
            await asyncio.wait({connection_task})
