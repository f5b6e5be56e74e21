"""The sink that keeps a Parquet dataset: the steps of `dataset` in a thread, and flushes."""

import asyncio
import errno
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, NoReturn, Self, TypeVar

from meteragent.collect.core import Batch, Waiting
from meteragent.collect.dataset import Staging
from meteragent.collect.record_file import Length
from meteragent.collect.sink import Content, Outcome
from meteragent.domain.errors import DatabaseError, LinkError

STAGED_MAX: Final = 500_000
"""The number of staged rows at which they are moved, however recent they are."""
_AWAY = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
"""Errors of the system after which the same operation may succeed later."""

_log = logging.getLogger("meteragent")
T = TypeVar("T")


class ParquetSink:
    """A dataset, opened by `connect`. One thread does all the work on files, one step after the other."""

    def __init__(self, staging: Staging, executor: ThreadPoolExecutor, delay_s: float, folder: Path) -> None:
        self._staging, self._executor, self._delay_s, self._folder = staging, executor, delay_s, folder
        self._fault: LinkError | DatabaseError | None = None

    @classmethod
    @asynccontextmanager
    async def connect(cls, folder: Path, name: str, length: Length, delay_s: float) -> AsyncIterator[Self]:
        """Open a dataset; at the end, move what is staged into files, and close it.

        Raises:
            LinkError: the disk is full or fails; another attempt may succeed.
            DatabaseError: the folder cannot be used, or another process has it.
        """
        with _faults(folder):
            staging = Staging(folder, name, length)
        executor = ThreadPoolExecutor(1, "dataset")
        sink = cls(staging, executor, delay_s, folder)
        flusher = asyncio.create_task(sink._keep_flushing())
        try:
            yield sink
        finally:
            flusher.cancel()
            executor.submit(sink._close).result()  # waits for the step that may still run
            executor.shutdown()

    async def migrate(self) -> int:
        """Create the tables, if there are none; return the number of changes."""
        return await self._step(self._staging.migrate)

    async def begin(self, *, is_first: bool) -> Content:
        """Return the dataset's content."""
        await self.migrate()
        return await self._step(lambda: self._staging.begin(is_first=is_first))

    async def waiting(self, ids: Iterable[str]) -> list[Waiting]:
        """Return the records that wait for descriptors, in order of arrival."""
        return await self._step(lambda: self._staging.waiting(ids))

    async def write(
        self, batch: Batch, messages: int, now_ms: int, overlapping: Sequence[str] = ()
    ) -> Outcome:
        """Commit a batch; raises the error of a flush that has failed since the last one."""
        if self._fault is not None:
            raise self._fault
        outcome = await self._step(lambda: self._staging.write(batch, messages, now_ms, overlapping))
        if self._staging.staged >= STAGED_MAX:
            await self.flush()
        return outcome

    async def flush(self) -> None:
        """Move what is staged into files."""
        await self._step(self._staging.flush)

    async def _keep_flushing(self) -> NoReturn:
        while True:
            await asyncio.sleep(self._delay_s)
            try:
                await self.flush()
            except (LinkError, DatabaseError) as error:
                _log.warning("%s; received records stay staged", error)
                self._fault = error

    def _close(self) -> None:
        """Flush a last time, and close; a failure is only logged, because what is staged stays durable."""
        try:
            with _faults(self._folder):
                if self._fault is None:
                    self._staging.flush()
        except (LinkError, DatabaseError) as error:
            _log.warning("%s; received records stay staged", error)
        finally:
            self._staging.close()

    async def _step(self, step: Callable[[], T]) -> T:
        def attempt() -> T:
            """Run the step; raise its error as this package's."""
            with _faults(self._folder):
                return step()

        return await asyncio.get_running_loop().run_in_executor(self._executor, attempt)


@contextmanager
def _faults(folder: Path) -> Iterator[None]:
    """Translate errors of SQLite and of the system into this package's; no text holds a value."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise LinkError(f"the dataset: {folder}: {error}") from None
    except sqlite3.Error as error:
        raise DatabaseError(f"the dataset: {folder}: {error}") from None
    except OSError as error:
        text = f"the dataset: {error.filename or folder}: {(error.strerror or 'failed').lower()}"
        raise (LinkError if error.errno in _AWAY else DatabaseError)(text) from None
