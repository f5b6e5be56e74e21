"""One life of `collect`: messages that a source delivers, a sink, and the loop between them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from meteragent.collect import configuration
from meteragent.collect.core import Message
from meteragent.collect.service import Service
from meteragent.service.notify import Notify
from tests.support.collecting import NOW_MS, TEMPLATE


class Played:
    """A source that delivers messages and keeps those that are acknowledged."""

    is_shared, is_up = False, True

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = list(messages)
        self.acknowledged: list[Message] = []
        self.all_done = asyncio.Event()

    async def run(self) -> NoReturn:
        """Wait until cancelled."""
        await asyncio.Event().wait()
        raise AssertionError

    async def batch(self, size: int) -> list[Message]:
        """Return the messages that were not delivered yet; wait if there are none."""
        if not self._messages:
            self.all_done.set()
            await asyncio.Event().wait()
        batch, self._messages = self._messages[:size], self._messages[size:]
        return batch

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """Keep what is acknowledged."""
        self.acknowledged += messages


async def life(sink: str, messages: Sequence[Message]) -> Played:
    """Deliver messages to `collect` with the given table of its sink, and stop it when it asks for more.

    Raises an exception group if it ends by itself.
    """
    settings = configuration.parse(f"[[stream]]\ntopic = '{TEMPLATE}'\n{sink}\n")
    service = Service(settings, bytes, lambda: NOW_MS, Notify(None, None))
    source = Played(messages)
    service._source = source
    running = asyncio.create_task(service.run())
    finished = asyncio.create_task(source.all_done.wait())
    await asyncio.wait([running, finished], timeout=60, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        finished.cancel()
        await running
    running.cancel()
    await asyncio.wait([running])
    return source


def database_table(url: str) -> str:
    """Return the table of the configuration for a database."""
    return f'[database]\nurl = "{url}"'


def dataset_table(folder: Path) -> str:
    """Return the table of the configuration for a dataset."""
    return f'[dataset]\nfolder = "{folder}"'
