"""One running stream: its parts, and what keeps its connections."""

import logging
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from meteragent import config as settings
from meteragent.agent import banner, parts
from meteragent.agent.clock import CatchUp
from meteragent.agent.environment import Context
from meteragent.agent.first_minutes import FirstMinutes
from meteragent.agent.link import receivers
from meteragent.agent.link.outlets import Outlet, Outlets, outlets_of
from meteragent.agent.link.source import Source
from meteragent.agent.runner import Runner
from meteragent.agent.watch import StreamWatch
from meteragent.config.source import has_times
from meteragent.core.charges import Spending
from meteragent.core.stream import Crowd, Stream
from meteragent.domain.problem import connection_advice
from meteragent.domain.terms import Clock
from meteragent.domain.units import Kind
from meteragent.mqtt import WEEK_S, Endpoint, Entropy, Link, Serve, keep_connected
from meteragent.store import Store

_log = logging.getLogger("meteragent")


class Unit(NamedTuple):
    """The parts of one running stream."""

    stream: settings.Stream
    links: parts.Links
    runner: Runner
    watch: StreamWatch
    outlets: tuple[Outlet, ...]
    source_id: str

    def keep_source(self, entropy: Entropy) -> Coroutine[Any, Any, None]:
        """Keep the connection to the source until cancelled."""
        source = self.runner.source
        # A register's old reading without a timestamp would be taken as current, and all energy used since
        # as used at once, which no radius hides. No energy is lost, because the next reading includes it.
        keeps_session = self.stream.source.kind is not Kind.REGISTER or has_times(self.stream.source)
        link = Link(
            self.links.source,
            self.source_id,
            on_message=source.on_message,
            receive_maximum=source.receive_maximum,
            session_expiry_s=WEEK_S if keeps_session else 0,
            role=parts.connection_name(self.stream, "source"),
        )
        return self._keep("source", self.stream.name, link, source.serve, entropy)

    def keep_sink(self, outlet: Outlet, entropy: Entropy) -> Coroutine[Any, Any, None]:
        """Keep the connection to the sink or to a receiver until cancelled."""
        link = replace(outlet.link, on_message=outlet.on_message)
        return self._keep("sink", outlet.queue, link, outlet.serve, entropy)

    async def _keep(self, side: str, queue: str, link: Link, serve: Serve, entropy: Entropy) -> None:
        """Keep a connection until cancelled, and watch it; `side` is "source" or "sink"."""
        link = replace(
            link,
            count=partial(self.watch.note_event, side, queue),
            on_failed=partial(self.watch.note_failure, side, queue),
            advice=partial(connection_advice, side=side),
        )
        await keep_connected(link, partial(self.watch.serve, side, queue, serve), entropy)


def assemble_unit(stream: settings.Stream, links: parts.Links, context: Context) -> Unit:
    """Return a stream's parts as the store left them. Raises ConfigError or StoreError for a wrong broker."""
    store, environment, clock = context.store, context.environment, context.clock
    connections = outlets_of(stream, links, context)
    outlets = Outlets(
        {outlet.queue: outlet.sink for outlet in connections},
        {outlet.queue: outlet.listener for outlet in connections},
    )
    crowd = connections[0].crowd if connections else None
    core, counts = _core(stream, links, context, crowd), context.counts.make_part()
    spending = Spending(context.odometers.get(stream.name), tuple(context.odometers.values()))
    pipeline = environment.pipeline(core, store.snapshot(stream.name), spending, environment.bits, counts)
    pipeline.hold_records_until(outlets.last_due_ms(store))
    # At the stop, the stream's time was before its first deadline. The store's time may be later, because
    # other streams advance it, and so does a run that stops before the end of its catch-up.
    due_ms = pipeline.deadline_ms(includes_closings=True)
    resume_ms = clock.newest_ms if due_ms is None else min(store.clock_ms, due_ms - 1)
    _log.info("%s", banner.number_line(stream, core, pipeline, clock.newest_ms, environment.listen_s))
    first_minutes = FirstMinutes(stream, counts)
    watch = StreamWatch(stream, pipeline, outlets, context, first_minutes, crowd)
    runner = Runner(
        pipeline=pipeline,
        source=_source(stream, core, context),
        outlets=outlets,
        context=context,
        catch_up=CatchUp(resume_ms, stream.window.catch_up, waits=due_ms is not None),
        budget=parts.budget_of(stream),
        heartbeat=watch.heartbeat,
        on_commit=first_minutes.on_commit,
    )
    source_id = _source_client_id(store, stream.name, links.source)
    return Unit(stream, links, runner, watch, connections, source_id)


def _core(stream: settings.Stream, links: parts.Links, context: Context, crowd: Crowd | None) -> Stream:
    """Return a stream's core settings; a stream on the event clock or in a crowd does not listen."""
    store, others_per_day = context.store, settings.other_charges_per_day(context.config, stream)
    granted = receivers.granted_receivers(stream, store)
    core = parts.core_of(stream, others_per_day, links, store.secret, store.claim_key, receivers=granted)
    listens = context.environment.listen_s > 0 and stream.window.clock is Clock.WALL and crowd is None
    return replace(core, listens=listens, crowd=crowd)


def _source(stream: settings.Stream, core: Stream, context: Context) -> Source:
    topic, prices = core.source, core.price_topic
    return Source(
        topic.filters if prices is None else (*topic.filters, prices),
        stream.source.inflight,
        stream.source.max_payload,
        context.clock.now_ms,
        context.counts,
        # Who sets it knows how many unacknowledged messages the broker allows over MQTT 3.1.1.
        is_capped="inflight" not in stream.source.model_fields_set,
        unit_filters=() if topic.unit is None else topic.unit.filters,
    )


def _source_client_id(store: Store, name: str, endpoint: Endpoint) -> str:
    """Return the client id at the source's broker: the same at every start, another for each stream."""
    client_id = endpoint.client_id or f"meteragent-{store.client_id}-source"
    return client_id if name == "main" else f"{client_id}-{name}"
