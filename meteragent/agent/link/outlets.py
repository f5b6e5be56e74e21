"""The connections on which a stream's messages are sent: one for each of its receivers.

The sink of a stream is a receiver without an end. What holds one receiver back holds back no other.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from meteragent.domain.commit import Commit, Destination
from meteragent.domain.errors import ConfigError, StoreError
from meteragent.mqtt import Endpoint, Link, Session, Token, keep_connected
from meteragent.store import Store, outbox
from meteragent.store.grants import Grant
from meteragent.store.outbox import WaitingRow
from meteragent.wire.home_assistant import Discovery

if TYPE_CHECKING:
    from meteragent.agent.link.crowd import OperatorKeys

BIRTH_DELAY_MS = 2000
"""The largest delay, in addition to one second, before an agent answers a start of Home Assistant."""

_log = logging.getLogger("meteragent")


class Outlet(NamedTuple):
    """A connection on which records or reports are sent, either to the sink of a stream or to one receiver.

    `queue` names its queue in the outbox, `topic` is the template of its topics, and `crowd` takes the
    operators' keys from it.
    """

    queue: str
    topic: str
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
            # Not in a task: a message may arrive after the first step, and the sink must know its session.
            await self.sink.serve(session)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for task in tasks:
                if not task.cancelled():
                    task.result()  # raises the store's error


class Outlets:
    """The sinks and listeners of a stream's receivers, by queue: to the runner, they are one sink."""

    def __init__(self, sinks: Mapping[str, Sink], listeners: Mapping[str, Listener] | None = None) -> None:
        self.sinks = sinks
        self._listeners = listeners or {}

    def queue_rows(self, rows: Sequence[WaitingRow]) -> None:
        """Pass committed rows to the sinks of their receivers."""
        for queue, sink in self.sinks.items():
            if queue_rows := [row for row in rows if row.queue == queue]:
                sink.queue_rows(queue_rows)

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
    def refused_destinations(self) -> Collection[Destination]:
        """The destinations whose messages a receiver's broker refuses."""
        items = self.sinks.items()
        return {Destination(queue, topic) for queue, sink in items for topic in sink.refusals.held_topics}

    @property
    def refused_bytes(self) -> int:
        """The total size of the due messages for these destinations, in bytes as counted by the outbox."""
        return sum(sink.refusals.waiting_bytes for sink in self.sinks.values())

    @property
    def retains(self) -> bool:
        """Whether all receivers' brokers retain messages, as far as is known."""
        return all(sink.refusals.retains for sink in self.sinks.values())

    def ask_about(self, destinations: Iterable[Destination]) -> None:
        """Start to find out at which of these destinations another store releases."""
        for queue, topic in destinations:
            self._listeners[queue].ask_about([topic])

    def take_free_destinations(self) -> list[Destination]:
        """Return the destinations that have been found free since the last call."""
        items = self._listeners.items()
        return [Destination(queue, name) for queue, item in items for name in item.take_free_topics()]

    def last_due_ms(self, store: Store) -> dict[Destination, int]:
        """Return, by destination, the latest due time of the messages due after the store's time."""
        return {
            destination: due_ms
            for queue in self.sinks
            for destination, due_ms in outbox.last_due_ms(store.connection, queue, store.clock_ms).items()
        }


def presence_of(stream: settings.Stream, secret: bytes, page: settings.Page | None) -> Presence:
    """Return the status and the devices that the sink sends besides records; devices require a status."""
    sink = stream.sink
    if sink.status is None or sink.home_assistant is None:
        return Presence(sink.status, retain=sink.retain)
    discovery = Discovery(sink.home_assistant, sink.status, sink.total, page.url if page else None)
    delay_ms = 1000 + identity.release_delay_ms(secret, stream.name, "home assistant", BIRTH_DELAY_MS)
    return Presence(sink.status, discovery, delay_ms / 1000, sink.retain)


def outlets_of(stream: settings.Stream, links: parts.Links, context: Context) -> tuple[Outlet, ...]:
    """Return the connections to a stream's receivers. Raises ConfigError or StoreError for a wrong broker."""
    if links.sink is not None:
        return (_outlet(stream, links.sink, None, context),)
    active = {grant.name: grant for grant in receivers.stream_grants(stream, context.store)}
    return tuple(
        _outlet(
            settings.receiver_link(stream, receiver),
            receivers.link_endpoint(grant.link, f"receiver {grant.name}"),
            grant,
            context,
        )
        for receiver in stream.receivers
        if (grant := active.get(receiver.name)) is not None
    )


def _outlet(stream: settings.Stream, endpoint: Endpoint, grant: Grant | None, context: Context) -> Outlet:
    """Return a connection with its sink and its listener; `stream` has this connection's sink."""
    store = context.store
    if grant is None:
        queue, name, role = stream.name, stream.name, parts.connection_name(stream, "sink")
        client_id = _sink_client_id(store, queue, endpoint)
    else:
        queue, name, role = grant.queue, f"{stream.name} for {grant.name}", f"receiver {grant.name}"
        client_id = _receiver_client_id(store, queue, endpoint)
    presence = presence_of(stream, store.secret, context.config.page)
    reader, counts = OutboxReader(context.thread, queue), context.counts.make_part()
    sink = Sink(reader, context.clock.now_ms, counts, Refusals(stream.sink.topic), presence)
    link = replace(_link(endpoint, client_id, sink, role), will=presence.will, inflight=stream.sink.inflight)
    return Outlet(queue, stream.sink.topic, sink, Listener(name, context), link, _crowd_keys(stream, context))


def _link(endpoint: Endpoint, client_id: str, sink: Sink, role: str) -> Link:
    return Link(endpoint, client_id, sink.on_message, sink.on_delivered, sink.on_refused, role=role)


def _crowd_keys(stream: settings.Stream, context: Context) -> "OperatorKeys | None":
    if stream.group is None:
        return None
    from meteragent.agent.link import crowd  # noqa: PLC0415 -- it needs the extra `crowd`

    return crowd.load_operator_keys(stream.group, context.thread)


def _sink_client_id(store: Store, name: str, endpoint: Endpoint) -> str:
    """Return the client id at the broker of a stream's sink, which is the same at every start.

    It differs from stream to stream and does not contain the stream's name, so brokers cannot link streams. A
    broker ends the connection of an earlier client with the same id, so a stream with a name of its own adds
    its pseudonym to a configured id.
    """
    if name == "main":
        return endpoint.client_id or f"meteragent-{store.client_id}-sink"
    alias = identity.pseudonym(store.secret, f"sink/{name}")
    return f"meteragent-{alias}-sink" if endpoint.client_id is None else f"{endpoint.client_id}-{alias}"


def _receiver_client_id(store: Store, queue: str, endpoint: Endpoint) -> str:
    """Return the client id at a receiver's broker; receivers cannot link their streams by it."""
    return endpoint.client_id or f"meteragent-{identity.pseudonym(store.secret, f'sink/{queue}')}-sink"


async def withdraw_descriptors(grant: Grant, context: Context) -> None:
    """Withdraw a revoked receiver's descriptors; warn if the settings of its broker cannot be used."""
    try:
        endpoint = receivers.link_endpoint(grant.link, f"receiver {grant.name}")
    except (ConfigError, StoreError) as error:
        _log.warning("receiver %s was revoked, but its descriptors stay: %s", grant.name, error)
        return
    thread, clock = context.thread, context.clock
    sink = Sink(OutboxReader(thread, grant.queue), clock.now_ms, context.counts, Refusals(grant.topic))
    client_id = f"{_receiver_client_id(context.store, grant.queue, endpoint)}-revoked"
    link = replace(_link(endpoint, client_id, sink, f"revoked receiver {grant.name}"), session_expiry_s=0)
    connection_task = asyncio.create_task(keep_connected(link, sink.serve, context.environment.entropy))
    try:
        while await thread.call(outbox.queue_depth, context.store.connection, grant.queue):
            await sink.idle.wait()
            if row_ids := sorted(sink.unmarked_ids):
                await thread.persist(Commit(grant.stream, clock.newest_ms), row_ids, None)
                sink.note_marked(row_ids)
            else:  # the clock shows no time, or the broker refuses the topics
                await asyncio.sleep(POLL_S)
            sink.reread_outbox()
    finally:
        connection_task.cancel()
        await asyncio.wait({connection_task})
