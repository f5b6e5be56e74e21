"""The connections on which a stream's messages are sent: one for each of its receivers.

The sink of a stream is a receiver whose grant has no end. If one receiver is held back, the others are not.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from meteragent import config as settings
from meteragent.agent import parts
from meteragent.agent.clock import POLL_S
from meteragent.agent.environment import Context
from meteragent.agent.link import receivers
from meteragent.agent.link.other_agent import Listener
from meteragent.agent.link.refused_topics import Refusals
from meteragent.agent.link.sink import Presence, Sink
from meteragent.agent.store_thread import OutboxReader
from meteragent.domain import identity
from meteragent.domain.commit import Commit, Destination, Receiver
from meteragent.domain.errors import ConfigError, StoreError
from meteragent.mqtt import Endpoint, Link, Session, Token, keep_connected
from meteragent.store import Store, grants, outbox
from meteragent.store.grants import Grant
from meteragent.store.outbox import WaitingRow
from meteragent.wire.descriptor import described_topic
from meteragent.wire.home_assistant import Discovery

if TYPE_CHECKING:
    from meteragent.agent.link.crowd import OperatorKeys

BIRTH_DELAY_MS = 2000
"""The largest delay, in addition to one second, before an agent reacts to a start of Home Assistant."""

_log = logging.getLogger("meteragent")


class Outlet(NamedTuple):
    """A connection to a receiver, for records or reports; `crowd` takes the operators' keys from it."""

    receiver: Receiver
    sink: Sink
    listener: Listener
    link: Link
    crowd: "OperatorKeys | None" = None

    def on_message(self, topic: str, payload: bytes, qos: int, retain: bool, token: Token | None) -> None:
        """Pass a message to the keys and the listener, then to the sink."""
        if self.crowd is not None:
            self.crowd.keep_key_list(topic, payload)
        self.listener.hear_message(topic, payload, retain=retain)
        self.sink.on_message(topic, payload, qos, retain, token)

    async def serve(self, session: Session) -> None:
        """Send rows on a connection, and receive descriptors and keys, until it ends."""
        beside = [self.listener.serve(session), *([] if self.crowd is None else [self.crowd.serve(session)])]
        tasks = [asyncio.ensure_future(work) for work in beside]
        try:
            # Not in a task, which would start later: the sink must know its session before a message arrives.
            await self.sink.serve(session)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for task in tasks:
                if not task.cancelled():
                    task.result()  # raises the store's error


class Outlets:
    """The connections to a stream's receivers, in the order of the file; the runner uses them as one sink."""

    def __init__(self, outlets: Iterable[Outlet]) -> None:
        self._by_queue = {outlet.receiver.queue: outlet for outlet in outlets}

    def __iter__(self) -> Iterator[Outlet]:
        return iter(self._by_queue.values())

    @property
    def queues(self) -> Collection[str]:
        """The names of the receivers' queues in the outbox."""
        return self._by_queue.keys()

    @property
    def crowd(self) -> "OperatorKeys | None":
        """The keys of the operators of the group to which the stream reports; None if it sends records."""
        return next((outlet.crowd for outlet in self), None)

    def queue_rows(self, rows: Sequence[WaitingRow]) -> None:
        """Pass committed rows to the sinks of their receivers."""
        for queue, outlet in self._by_queue.items():
            if queue_rows := [row for row in rows if row.queue == queue]:
                outlet.sink.queue_rows(queue_rows)

    @property
    def unmarked_ids(self) -> frozenset[int]:
        """The ids of rows that are delivered or too late, but not yet marked in the outbox."""
        return frozenset().union(*(outlet.sink.unmarked_ids for outlet in self))

    @property
    def late_ids(self) -> frozenset[int]:
        """The unmarked ids of reports that are too late and so are never sent."""
        return frozenset().union(*(outlet.sink.late_ids for outlet in self))

    def note_marked(self, row_ids: Collection[int]) -> None:
        """Forget the ids of rows that are marked in the outbox."""
        for outlet in self:
            outlet.sink.note_marked(row_ids)

    @property
    def refused_destinations(self) -> Collection[Destination]:
        """The destinations whose messages a receiver's broker refuses."""
        topics = {queue: outlet.sink.refusals.held_topics for queue, outlet in self._by_queue.items()}
        return {Destination(queue, topic) for queue in topics for topic in topics[queue]}

    @property
    def refused_bytes(self) -> int:
        """The total size of the due messages for refused destinations, in bytes as counted by the outbox."""
        return sum(outlet.sink.refusals.waiting_bytes for outlet in self)

    @property
    def retains(self) -> bool:
        """Whether all receivers' brokers retain messages, as far as is known."""
        return all(outlet.sink.refusals.retains for outlet in self)

    def ask_about(self, destinations: Iterable[Destination]) -> None:
        """Start to find out at which of these destinations another store releases."""
        for queue, topic in destinations:
            self._by_queue[queue].listener.ask_about([topic])

    def take_free_destinations(self) -> list[Destination]:
        """Return the destinations that have been found free since the last call."""
        topics = {queue: outlet.listener.take_free_topics() for queue, outlet in self._by_queue.items()}
        return [Destination(queue, topic) for queue in topics for topic in topics[queue]]

    def last_due_ms(self, store: Store, after_ms: int) -> dict[Destination, int]:
        """Return when each destination's last message or descriptor is due, if that is after `after_ms`."""
        last_due_ms: dict[Destination, int] = {}
        for queue in self.queues:
            for topic, due_ms in outbox.last_due_ms(store.connection, queue, after_ms).items():
                destination = Destination(queue, described_topic(topic))
                last_due_ms[destination] = max(due_ms, last_due_ms.get(destination, 0))
        return last_due_ms


def presence_of(stream: settings.Stream, secret: bytes, page: settings.Page | None) -> Presence:
    """Return the status and the devices that the sink sends besides records; devices require a status."""
    sink = stream.sink
    if sink.status is None or sink.home_assistant is None:
        return Presence(sink.status, retain=sink.retain)
    discovery = Discovery(sink.home_assistant, sink.status, sink.total, page.url if page else None)
    delay_ms = 1000 + identity.release_delay_ms(secret, stream.name, "home assistant", BIRTH_DELAY_MS)
    return Presence(sink.status, discovery, delay_ms / 1000, sink.retain)


def outlets_of(stream: settings.Stream, context: Context) -> Outlets:
    """Return the connections to a stream's receivers. Raises ConfigError if a file cannot be used."""
    granted = {"": parts.sink_receiver(stream)}
    for grant in grants.active_grants(context.store.connection, stream.name):
        granted[grant.name] = grant.receiver
    by_receiver = settings.streams_by_receiver(stream)
    names = [name for name in by_receiver if name in granted]
    return Outlets(_outlet(by_receiver[name], granted[name], name, context) for name in names)


def _outlet(stream: settings.Stream, receiver: Receiver, name: str, context: Context) -> Outlet:
    """Return the connection to a receiver, at the sink's broker of `stream`; `name` is empty for a sink."""
    section = f"receiver {name}" if name else "sink"
    endpoint = settings.read_endpoint(section, settings.sink_url(stream), settings.sink_broker(stream))
    presence = presence_of(stream, context.store.secret, context.config.page)
    reader, counts = OutboxReader(context.thread, receiver.queue), context.counts.make_part()
    sink = Sink(reader, context.clock.now_ms, counts, Refusals(stream.sink.topic), presence)
    link = replace(
        _link(endpoint, receiver.queue, sink, context.store),
        role=section if name else parts.connection_name(stream, section),
        will=presence.will,
        inflight=stream.sink.inflight,
    )
    listener = Listener(f"{stream.name} for {name}" if name else stream.name, context)
    return Outlet(receiver, sink, listener, link, _crowd_keys(stream, context))


def _link(endpoint: Endpoint, queue: str, sink: Sink, store: Store) -> Link:
    """Return the link of a sink, with a client id that is the same at every start.

    The id differs from queue to queue and does not contain a stream's name, so brokers cannot link streams. A
    broker ends the connection of an earlier client with the same id. So a stream with a name of its own adds
    a pseudonym to the client id in the configuration; a receiver's configured id is used unchanged.
    """
    alias, client_id = identity.pseudonym(store.secret, f"sink/{queue}"), endpoint.client_id
    if client_id is None:
        client_id = f"meteragent-{alias}-sink"
    elif queue != "main" and "@" not in queue:
        client_id = f"{client_id}-{alias}"
    return Link(endpoint, client_id, on_delivered=sink.on_delivered, on_refused=sink.on_refused)


def _crowd_keys(stream: settings.Stream, context: Context) -> "OperatorKeys | None":
    if stream.group is None:
        return None
    from meteragent.agent.link import crowd  # noqa: PLC0415 -- it needs the extra `crowd`

    return crowd.load_operator_keys(stream.group, context.thread)


async def withdraw_descriptors(grant: Grant, context: Context) -> None:
    """Withdraw a revoked receiver's descriptors; warn if the settings of its broker cannot be used."""
    try:
        endpoint = receivers.link_endpoint(grant.link, f"receiver {grant.name}")
    except (ConfigError, StoreError) as error:
        _log.warning("receiver %s was revoked, but its descriptors stay: %s", grant.name, error)
        return
    thread, clock = context.thread, context.clock
    sink = Sink(OutboxReader(thread, grant.queue), clock.now_ms, context.counts, Refusals(grant.topic))
    link = _link(endpoint, grant.queue, sink, context.store)
    client_id, role = f"{link.client_id}-revoked", f"revoked receiver {grant.name}"
    link = replace(link, client_id=client_id, role=role, session_expiry_s=0)
    async with asyncio.TaskGroup() as group:  # a connection that fails, as the store does, ends the agent
        connection_task = group.create_task(keep_connected(link, sink.serve, context.environment.entropy))
        while await thread.call(outbox.queue_depth, context.store.connection, grant.queue):
            await sink.idle.wait()
            if row_ids := sorted(sink.unmarked_ids):
                await thread.persist(Commit(grant.stream, clock.newest_ms), row_ids, None)
                sink.note_marked(row_ids)
            else:  # the clock shows no time, or the broker refuses the topics
                await asyncio.sleep(POLL_S)
            sink.reread_outbox()
        connection_task.cancel()
