"""The loop of `collect`: take a batch from the source, write its effects to the sink, then acknowledge it.

When the sink becomes unavailable, the service connects again and rebuilds the core from the tables, so the
core's state is never ahead of the tables. The core then checks the current batch again.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from meteragent.collect.configuration import Settings
from meteragent.collect.core import REASONS, Batch, Core, Key, Message, Waiting
from meteragent.collect.outcome import DATA_FAULTS, Outcome
from meteragent.collect.queue import BATCH_MAX
from meteragent.collect.sink import Sink, sink_of
from meteragent.collect.source import source_of
from meteragent.collect.vitals import CollectVitals
from meteragent.domain.errors import LinkError
from meteragent.domain.problem import Problem
from meteragent.mqtt import Backoff, Entropy
from meteragent.service import health
from meteragent.service.process import TOTALS_S, Notify
from meteragent.service.vitals import as_json

RELOAD_S: Final = 10.0
"""The interval, in seconds, at which the core is rebuilt if the source is shared with other collectors."""
EXPIRE_S: Final = 3600.0
"""The interval, in seconds, at which a lone collector's core is rebuilt, so that waiting records expire."""

_log = logging.getLogger("meteragent")


class Service:
    """A source, a sink, and the loop between them."""

    def __init__(
        self, settings: Settings, entropy: Entropy, now_ms: Callable[[], int], notify: Notify
    ) -> None:
        self._settings, self._entropy, self._now_ms, self._notify = settings, entropy, now_ms, notify
        self._topics = settings.topics
        self._limits = settings.read_limits()
        self._source = source_of(settings, Core(self._topics, self._limits).filters, entropy)
        self._messages: list[Message] = []
        self._size = BATCH_MAX
        """The size of the next transaction, smaller after a failure, which may be due to a lack of time."""
        self._backoff = Backoff(entropy)
        self._report, self._has_sink = _Report(), False

    async def run(self) -> None:
        """Collect until cancelled. Raises a DatabaseError in a group if the sink refuses an operation."""
        socket = None if self._settings.health is None else self._settings.health.socket
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._log_totals())
            if socket is not None:
                tasks.create_task(health.serve_socket(socket, self._reply))
            await self._keep_writing(tasks)

    async def _keep_writing(self, tasks: asyncio.TaskGroup) -> NoReturn:
        """Write to the sink, and connect again whenever it becomes unavailable."""
        is_first = True
        while True:
            try:
                async with sink_of(self._settings) as tables:
                    if is_first and await tables.create_tables():
                        _log.info("there were no tables: new ones were created")
                    core = await self._build_core(tables, is_first=is_first)
                    _log.info("%s: connected", "database" if self._settings.dataset is None else "dataset")
                    if is_first:
                        tasks.create_task(self._source.run())
                        tasks.create_task(health.notify_systemd(self._notify, self._problems, lambda: 0.0))
                    is_first, self._has_sink = False, True
                    await self._write_batches(core, tables)
            except LinkError as error:
                self._has_sink, self._size = False, max(1, self._size // 2)
                delay_s = self._backoff.delay_s(0.0)
                _log.warning("%s; messages stay unacknowledged; next attempt in %.1f s", error, delay_s)
                await asyncio.sleep(delay_s)

    async def _build_core(self, tables: Sink, *, is_first: bool) -> Core:
        """Return a core built from the tables, and write waiting records whose descriptor is now known."""
        content = await tables.begin_service(is_first=is_first)
        outcome = await tables.expire_waiting(self._settings.accept.wait)
        if outcome.refusal_counts:
            self._report.add(outcome, 0)
            content = await tables.begin_service(is_first=False)
        core = Core(self._topics, self._limits, *content)
        return await self._write_waiting(core, tables, core.awaited_descriptors())

    async def _write_waiting(self, core: Core, tables: Sink, keys: Sequence[Key]) -> Core:
        """Write the records that wait for any of these descriptors that the core knows."""
        while records := await tables.waiting_records([key for key in keys if core.knows(key)]):
            core = await self._commit_messages(core, tables, records)
        return core

    async def _commit_messages(self, core: Core, tables: Sink, messages: Sequence[Message | Waiting]) -> Core:
        """Commit the effects of messages, and return a core that includes them.

        If the data cannot be stored, commit each half of the messages by itself; refuse a single message.
        Before that, build another core from the tables, because the old core is ahead of the tables.
        """
        now_ms, count = self._now_ms(), sum(isinstance(message, Message) for message in messages)
        try:
            batch = core.take_messages(messages, now_ms)
            outcome = await tables.write_batch(batch, count, now_ms)
        except DATA_FAULTS:
            core = Core(self._topics, self._limits, *await tables.begin_service(is_first=False))
            if len(messages) > 1:
                middle = len(messages) // 2
                core = await self._commit_messages(core, tables, messages[:middle])
                return await self._commit_messages(core, tables, messages[middle:])
            batch = Batch() if not messages else core.refuse_message(messages[0])
            outcome = await tables.write_batch(batch, count, now_ms)
        self._report.add(outcome, count)
        return await self._write_waiting(core, tables, [link.key for link in batch.links])

    async def _write_batches(self, core: Core, tables: Sink) -> NoReturn:
        """Write batches until the sink is unavailable, which raises LinkError.

        Rebuild the core at intervals, because another collector may have written an awaited descriptor.
        """
        clock_s = asyncio.get_running_loop().time
        rebuild_s, pause_s = clock_s(), RELOAD_S if self._source.is_shared else EXPIRE_S
        while True:
            self._messages = self._messages or await self._source.take_batch(BATCH_MAX)
            if clock_s() - rebuild_s >= pause_s:
                core, rebuild_s = await self._build_core(tables, is_first=False), clock_s()
            if not self._messages:
                continue
            messages = self._messages[: self._size]
            core = await self._commit_messages(core, tables, messages)
            self._backoff = Backoff(self._entropy)
            await self._source.acknowledge(messages)
            self._messages, self._size = self._messages[len(messages) :], min(BATCH_MAX, 2 * self._size)

    def _vitals(self) -> CollectVitals:
        return self._report.vitals(source_up=self._source.is_up, sink_up=self._has_sink)

    async def _reply(self, question: bytes) -> str:
        return as_json(self._vitals(), question)

    async def _problems(self) -> Sequence[Problem]:
        return self._vitals().problems

    async def _log_totals(self) -> NoReturn:
        while True:
            await asyncio.sleep(TOTALS_S)
            _log.info("%s", self._report)


class _Report:
    """The totals since the start. The first refusal for each stream and reason is logged at once."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()
        self._counts, self._refused = Counter[str](), Counter[tuple[str, str]]()
        self._refused_s: dict[str, float] = {}
        """When a message was last refused, by reason."""

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {reason}" for (_, reason), count in sorted(self._refused.items()))
        new, old = self._counts["written"], self._counts["repeated"]
        return f"records written: {new}, repeated: {old}; refused: {counts or 'none'}"

    def vitals(self, *, source_up: bool, sink_up: bool) -> CollectVitals:
        """Return the collector's state."""
        refusals, now_s = Counter[str](), time.monotonic()
        for (_, reason), count in self._refused.items():
            refusals[reason] += count
        return CollectVitals(
            service="collect",
            running_s=now_s - self._start_s,
            counts=self._counts | {"refused": refusals.total()},
            source_up=source_up,
            sink_up=sink_up,
            refusals=dict(refusals),  # `asdict` would make the items of a Counter its keys
            refused_ago={reason: now_s - refused_s for reason, refused_s in self._refused_s.items()},
        )

    def add(self, outcome: Outcome, messages: int) -> None:
        """Add the results of a transaction of `messages` messages to the totals, and log refusals."""
        self._counts.update(messages=messages, written=outcome.written, repeated=outcome.repeated)
        for refusal in outcome.refusals:
            detail = f": {refusal.detail}" if refusal.detail else ""
            _log.debug("refused (%s): %s%s", refusal.reason, refusal.origin, detail)
        for (stream, reason), count in outcome.refusal_counts.items():
            if not self._refused[stream, reason]:
                place = f"stream {stream}: " if stream else ""
                _log.warning("%sa message is refused (%s): %s", place, reason, REASONS[reason])
            self._refused[stream, reason] += count
            self._refused_s[reason] = time.monotonic()


async def create_tables(settings: Settings) -> bool:
    """Create the tables unless they exist, and return whether they were. Raises as `Sink` does."""
    async with sink_of(settings) as tables:
        return await tables.create_tables()
