"""One life of `collect`: messages that a source delivers, a sink, and the loop between them."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NoReturn

from meteragent.collect import configuration
from meteragent.collect.core import Message
from meteragent.collect.service import Service
from meteragent.collect.vitals import CollectVitals
from meteragent.service.process import Notify
from tests.support.collecting import NOW_MS, TEMPLATE

SILENT = Notify(None, None)


class Played:
    """A source that delivers messages and keeps those that are acknowledged."""

    is_shared, is_up = False, True

    def __init__(self, messages: Iterable[Message]) -> None:
        self._messages = iter(messages)
        self.acknowledged: list[Message] = []
        self.all_done = asyncio.Event()
        self.vitals: CollectVitals | None = None
        """The state of the collector at its end."""

    async def run(self) -> NoReturn:
        """Wait until cancelled."""
        await asyncio.Event().wait()
        raise AssertionError

    async def take_batch(self, size: int) -> list[Message]:
        """Return the messages that were not delivered yet; wait if there are none."""
        batch = list(islice(self._messages, size))
        if not batch:
            self.all_done.set()
            await asyncio.Event().wait()
        return batch

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """Keep what is acknowledged."""
        self.acknowledged += messages


async def life(sink: str, messages: Sequence[Message], more: str = "") -> Played:
    """Deliver messages to `collect` with the given table of its sink, and stop it when it asks for more.

    `more` is appended to the configuration. Raises an exception group if it ends by itself.
    """
    return await life_of(Played(messages), sink, more)


async def life_of(
    source: Played, sink: str, more: str = "", limit_s: float = 60, notify: Notify = SILENT
) -> Played:
    """Run `collect` until its source has delivered everything, and return the source."""
    settings = configuration.parse(f"[[stream]]\ntopic = '{TEMPLATE}'\n{sink}\n{more}\n")
    service = Service(settings, bytes, lambda: NOW_MS, notify)
    service._source = source
    running = asyncio.create_task(service.run())
    finished = asyncio.create_task(source.all_done.wait())
    await asyncio.wait([running, finished], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        finished.cancel()
        await running
    running.cancel()
    await asyncio.wait([running])
    source.vitals = service._report.vitals(source_up=True, sink_up=True)
    return source


def database_table(url: str) -> str:
    """Return the table of the configuration for a database."""
    return f'[database]\nurl = "{url}"'


def dataset_table(folder: Path) -> str:
    """Return the table of the configuration for a dataset."""
    return f'[dataset]\nfolder = "{folder}"'
