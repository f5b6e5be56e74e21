"""The connections on which a stream's messages are sent: one for each of its receivers.

The sink of a stream is a receiver without an end. What holds one receiver back (its broker is away or refuses
a topic, or another store has released on its topic) holds back that receiver only.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from meteragent import config as settings
from meteragent.agent import parts, receivers
from meteragent.agent.clock import POLL_S, SteadyClock
from meteragent.agent.other_agent import Listener
from meteragent.agent.refused_topics import Refusals
from meteragent.agent.sink import Sink
from meteragent.agent.store_thread import StoreThread
from meteragent.domain.commit import Commit, Destination
from meteragent.domain.counters import Counts
from meteragent.domain.errors import ConfigError, StoreError
from meteragent.domain.problem import Alarms
from meteragent.mqtt import Endpoint, Entropy, Link, OnMessage, Serve, keep_connected
from meteragent.store import Store, grants, ledger, outbox
from meteragent.store.grants import Grant
from meteragent.store.outbox import WaitingRow

if TYPE_CHECKING:
    from meteragent.agent.crowd import Keys

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


class Outlets:
    """The sinks and listeners of a stream's receivers, by queue: to the runner, they are one sink."""

    def __init__(self, sinks: Mapping[str, Sink], listeners: Mapping[str, Listener] | None = None) -> None:
        self.sinks = sinks
        self._listeners = listeners or {}

    def take(self, rows: Sequence[WaitingRow]) -> None:
        """Pass committed rows to the sinks of their receivers."""
        for queue, sink in self.sinks.items():
            if queue_rows := [row for row in rows if row.queue == queue]:
                sink.take(queue_rows)

    @property
    def unmarked_ids(self) -> frozenset[int]:
        """The ids of rows that are delivered or too late, but not yet marked in the outbox."""
        return frozenset().union(*(sink.unmarked_ids for sink in self.sinks.values()))

    @property
    def late_ids(self) -> frozenset[int]:
        """Those of the unmarked ids whose reports are too late, and so never leave."""
        return frozenset().union(*(sink.late_ids for sink in self.sinks.values()))

    def note_marked(self, row_ids: Collection[int]) -> None:
        """Forget the ids of rows that are marked in the outbox."""
        for sink in self.sinks.values():
            sink.note_marked(row_ids)

    @property
    def refused(self) -> Collection[Destination]:
        """The destinations whose messages a receiver's broker refuses."""
        return {
            Destination(queue, topic)
            for queue, sink in self.sinks.items()
            for topic in sink.refusals.held_topics
        }

    @property
    def refused_bytes(self) -> int:
        """The total size of the due messages for these destinations, in bytes as counted by the outbox."""
        return sum(sink.refusals.waiting_bytes for sink in self.sinks.values())

    @property
    def retains(self) -> bool:
        """Whether all receivers' brokers retain messages, as far as is known."""
        return all(sink.refusals.retains for sink in self.sinks.values())

    def ask(self, destinations: Iterable[Destination]) -> None:
        """Start to find out at which of these destinations another store releases."""
        for queue, topic in destinations:
            self._listeners[queue].ask([topic])

    def clear(self) -> list[Destination]:
        """Return the destinations that have become clear since the last call."""
        return [
            Destination(queue, topic)
            for queue, listener in self._listeners.items()
            for topic in listener.clear()
        ]

    def last_due_ms(self, store: Store) -> dict[Destination, int]:
        """Return, by destination, the latest due time of the messages due after the store's time."""
        return {
            destination: due_ms
            for queue in self.sinks
            for destination, due_ms in outbox.last_due_ms(store.connection, queue, store.clock_ms).items()
        }


@dataclass(frozen=True, slots=True)
class OutletMaker:
    """The maker of the connections to sinks and receivers; `listen_s` and `entropy` are the environment's."""

    thread: StoreThread
    clock: SteadyClock
    counts: Counts
    alarms: Alarms
    listen_s: float
    entropy: Entropy
    page: settings.Page | None = None

    def of(self, stream: settings.Stream, links: parts.Links) -> tuple[Outlet, ...]:
        """Return a stream's connections: one to its sink, or one to each receiver that is admitted.

        Raises ConfigError or StoreError if the settings of a receiver's broker cannot be used.
        """
        store = self.thread.store
        if links.sink is not None:
            _, client_id = parts.client_ids(store, stream.name, links)
            return (self._outlet(stream.name, stream, links.sink, client_id, None),)
        active = {
            grant.name: grant for grant in grants.active(store.connection) if grant.stream == stream.name
        }
        return tuple(
            self._outlet(
                grant.queue,
                settings.receiver_link(stream, receiver),
                endpoint := receivers.endpoint(grant.link, f"receiver {grant.name}"),
                parts.receiver_client_id(store, grant.queue, endpoint),
                grant,
            )
            for receiver in stream.receivers
            if (grant := active.get(receiver.name)) is not None
        )

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
        link = Link(
            endpoint,
            f"{parts.receiver_client_id(self.thread.store, grant.queue, endpoint)}-revoked",
            on_message=sink.on_message,
            on_delivered=sink.on_delivered,
            on_refused=sink.on_refused,
            session_expiry_s=0,
            role=f"revoked receiver {grant.name}",
        )
        connection_task = asyncio.create_task(keep_connected(link, sink.serve, self.entropy))
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
