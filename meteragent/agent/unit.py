"""One running stream: its parts, and the coroutines that keep its connections."""

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
from meteragent.agent.link.outlets import Outlet, Outlets, outlets_of
from meteragent.agent.link.source import Source
from meteragent.agent.runner import Runner
from meteragent.agent.watch import StreamWatch
from meteragent.config.source import has_times
from meteragent.core.charges import Spending
from meteragent.core.stream import Stream
from meteragent.domain.problem import connection_advice
from meteragent.domain.terms import Clock
from meteragent.domain.units import Kind
from meteragent.mqtt import WEEK_S, Entropy, Link, Serve, keep_connected
from meteragent.store import Store

_log = logging.getLogger("meteragent")


class Unit(NamedTuple):
    """The parts of one running stream."""

    stream: settings.Stream
    core: Stream
    runner: Runner
    watch: StreamWatch
    outlets: Outlets
    source_link: Link

    def keep_source(self, entropy: Entropy) -> Coroutine[Any, Any, None]:
        """Keep the connection to the source until cancelled."""
        return self._keep("source", self.stream.name, self.source_link, self.runner.source.serve, entropy)

    def keep_sink(self, outlet: Outlet, entropy: Entropy) -> Coroutine[Any, Any, None]:
        """Keep the connection to a receiver until cancelled."""
        link = replace(outlet.link, on_message=outlet.on_message)
        return self._keep("sink", outlet.receiver.queue, link, outlet.serve, entropy)

    async def _keep(self, side: str, queue: str, link: Link, serve: Serve, entropy: Entropy) -> None:
        """Keep a connection until cancelled, and watch it; `side` is "source" or "sink"."""
        link = replace(
            link,
            count=partial(self.watch.note_event, side, queue),
            on_failed=partial(self.watch.note_failure, side, queue),
            advice=partial(connection_advice, side=side),
        )
        await keep_connected(link, partial(self.watch.serve, side, queue, serve), entropy)


def assemble_unit(stream: settings.Stream, context: Context) -> Unit:
    """Return a stream's parts, restored from the store. Raises ConfigError if a file cannot be used."""
    store, environment, clock = context.store, context.environment, context.clock
    outlets = outlets_of(stream, context)
    core, counts = _core(stream, outlets, context), context.counts.make_part()
    spending = Spending(context.odometers.get(stream.name), tuple(context.odometers.values()))
    pipeline = environment.pipeline(core, store.snapshot(stream.name), spending, environment.bits, counts)
    # At the agent's stop, the stream's time was before the stream's first deadline. The store's time may be
    # later: it is also advanced by other streams, and by a run that stops before its catch-up ends.
    due_ms = pipeline.deadline_ms(includes_closings=True)
    resume_ms = clock.newest_ms if due_ms is None else min(store.clock_ms, due_ms - 1)
    pipeline.hold_messages_until(outlets.last_due_ms(store, resume_ms))
    _log.info("%s", banner.number_line(stream, core, pipeline, clock.newest_ms, environment.listen_s))
    first_minutes = FirstMinutes(stream, counts)
    watch = StreamWatch(stream, pipeline, outlets, context, first_minutes)
    source = _source(stream, core, context)
    runner = Runner(
        pipeline=pipeline,
        source=source,
        outlets=outlets,
        context=context,
        catch_up=CatchUp(resume_ms, stream.window.catch_up, waits=due_ms is not None),
        budget=parts.budget_of(stream),
        heartbeat=watch.heartbeat,
        on_commit=first_minutes.on_commit,
    )
    return Unit(stream, core, runner, watch, outlets, _source_link(stream, source, store))


def _core(stream: settings.Stream, outlets: Outlets, context: Context) -> Stream:
    """Return a stream's core settings; a stream on the event clock or in a crowd does not listen."""
    store, others_per_day = context.store, settings.other_charges_per_day(context.config, stream)
    key = parts.pseudonym_key(stream)
    core = parts.core_of(stream, others_per_day, key, store.secret, store.claim_key)
    listens = context.environment.listen_s > 0 and stream.window.clock is Clock.WALL and outlets.crowd is None
    receivers = tuple(outlet.receiver for outlet in outlets)
    return replace(core, receivers=receivers, listens=listens, crowd=outlets.crowd)


def _source(stream: settings.Stream, core: Stream, context: Context) -> Source:
    topic, prices = core.source, core.price_topic
    return Source(
        topic.filters if prices is None else (*topic.filters, prices),
        stream.source.inflight,
        stream.source.max_payload,
        context.clock.now_ms,
        context.counts,
        # A user who sets `inflight` knows how many unacknowledged messages the broker allows over MQTT 3.1.1.
        is_capped="inflight" not in stream.source.model_fields_set,
        unit_filters=() if topic.unit is None else topic.unit.filters,
    )


def _source_link(stream: settings.Stream, source: Source, store: Store) -> Link:
    """Return the link to the source, with a client id that differs between streams but not between starts."""
    client_id = stream.source.client_id or f"meteragent-{store.client_id}-source"
    # A register's old reading without a timestamp would be taken as current, and all energy used since then
    # as used at once, which no radius hides. No energy is lost, because the next reading includes it.
    keeps_session = stream.source.kind is not Kind.REGISTER or has_times(stream.source)
    return Link(
        parts.source_broker(stream),
        client_id if stream.name == "main" else f"{client_id}-{stream.name}",
        on_message=source.on_message,
        receive_maximum=source.receive_maximum,
        session_expiry_s=WEEK_S if keeps_session else 0,
        role=parts.connection_name(stream, "source"),
    )
