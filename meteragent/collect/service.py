"""The loop of `collect`: take a batch from the source, write its effects to the sink, then acknowledge it.

When the sink becomes unavailable, the service connects again and rebuilds the core from the tables, so the
core's state is never ahead of the tables. The core then checks the current batch again.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, NoReturn

from meteragent.agent.notify import Notify
from meteragent.collect import sink, source
from meteragent.collect.configuration import Settings
from meteragent.collect.core import REASONS, Core, Limits, Message
from meteragent.collect.sink import Outcome, Sink
from meteragent.domain.errors import LinkError
from meteragent.mqtt import Backoff
from meteragent.mqtt.reconnect import Entropy

BATCH: Final = 5_000
"""The largest number of messages in a transaction."""
REPORT_S: Final = 3600.0
"""The interval between log lines with the totals, in seconds."""
LOOK_S: Final = 10.0
"""The interval, in seconds, at which the core is rebuilt if the source is shared with other collectors."""

_log = logging.getLogger("meteragent")


class Service:
    """A source, a sink, and the loop between them."""

    def __init__(
        self, settings: Settings, entropy: Entropy, now_ms: Callable[[], int], notify: Notify
    ) -> None:
        self._settings, self._entropy, self._now_ms, self._notify = settings, entropy, now_ms, notify
        self._topics = settings.topics
        self._limits = Limits(settings.accept.oldest, settings.accept.ahead, settings.meters())
        self._source = source.make(settings, Core(self._topics, self._limits).filters, entropy)
        self._messages: list[Message] = []
        self._backoff = Backoff(entropy)
        self._report = _Report()

    async def run(self) -> None:
        """Collect until cancelled.

        Raises an exception group with a DatabaseError if the sink refuses an operation.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_alive())
            await self._keep_writing(tasks)

    async def _keep_writing(self, tasks: asyncio.TaskGroup) -> NoReturn:
        """Write to the sink, and connect again whenever it becomes unavailable."""
        is_first = True
        while True:
            try:
                async with sink.connect(self._settings) as tables:
                    if is_first:
                        await tables.migrate()
                    core = await self._begin(tables, is_first=is_first)
                    _log.info("%s: connected", "database" if self._settings.dataset is None else "dataset")
                    if is_first:
                        tasks.create_task(self._source.run())
                        self._notify.send("READY=1")
                    is_first = False
                    await self._write(core, tables)
            except LinkError as error:
                delay_s = self._backoff.delay_s(0.0)
                _log.warning("%s; messages stay unacknowledged; next attempt in %.1f s", error, delay_s)
                await asyncio.sleep(delay_s)

    async def _begin(self, tables: Sink, *, is_first: bool) -> Core:
        """Return a core built from the tables, and write waiting records whose descriptor is now known."""
        content = await tables.begin(is_first=is_first)
        core = Core(self._topics, self._limits, *content)
        records = await tables.waiting(descriptor.id for descriptor in content.descriptors)
        now_ms = self._now_ms()
        self._report.add(await tables.write(core.release(records, now_ms), 0, now_ms, core.mixed))
        return core

    async def _write(self, core: Core, tables: Sink) -> NoReturn:
        """Write batches until the sink is unavailable, which raises LinkError.

        If collectors share a source, another collector may have written the descriptor for which a record
        waits. The core is therefore rebuilt from the tables about every LOOK_S seconds.
        """
        clock_s = asyncio.get_running_loop().time
        rebuild_s = clock_s()
        while True:
            self._messages = self._messages or await self._source.batch(BATCH)
            if self._source.is_shared and clock_s() - rebuild_s >= LOOK_S:
                core, rebuild_s = await self._begin(tables, is_first=False), clock_s()
            if not self._messages:
                continue
            now_ms = self._now_ms()
            batch = core.take(self._messages, now_ms)
            if batch.descriptors:
                batch.add(core.release(await tables.waiting(batch.descriptors), now_ms))
            self._report.add(await tables.write(batch, len(self._messages), now_ms, core.mixed))
            self._backoff = Backoff(self._entropy)
            await self._source.acknowledge(self._messages)
            self._messages = []

    async def _keep_alive(self) -> NoReturn:
        """Report to systemd that the event loop is alive, and log the totals every REPORT_S seconds."""
        watchdog_s = self._notify.watchdog_s
        pause_s = REPORT_S if watchdog_s is None else min(REPORT_S, watchdog_s / 2)
        clock_s = asyncio.get_running_loop().time
        report_s = clock_s()
        while True:
            self._notify.send("WATCHDOG=1")
            await asyncio.sleep(pause_s)
            if clock_s() - report_s >= REPORT_S:
                report_s = clock_s()
                _log.info("%s", self._report)


class _Report:
    """The totals since the start. The first refusal for each stream and reason is logged at once."""

    def __init__(self) -> None:
        self._written = self._repeated = 0
        self._refused = Counter[tuple[str, str]]()

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {reason}" for (_, reason), count in sorted(self._refused.items()))
        return f"records written: {self._written}, repeated: {self._repeated}; refused: {counts or 'none'}"

    def add(self, outcome: Outcome) -> None:
        """Add the results of a transaction to the totals, and log refusals."""
        self._written += outcome.written
        self._repeated += outcome.repeated
        for refusal in outcome.refusals:
            detail = f": {refusal.detail}" if refusal.detail else ""
            _log.debug("refused (%s): %s%s", refusal.reason, refusal.origin, detail)
        for (stream, reason), count in outcome.refused.items():
            if not self._refused[stream, reason]:
                place = f"stream {stream}: " if stream else ""
                _log.warning("%sa message is refused (%s): %s", place, reason, REASONS[reason])
            self._refused[stream, reason] += count


async def migrate(settings: Settings) -> int:
    """Create or update the tables, and return the number of migrations applied.

    Raises:
        LinkError: the sink is unavailable.
        DatabaseError: the sink refuses the change.
    """
    async with sink.connect(settings) as tables:
        return await tables.migrate()
