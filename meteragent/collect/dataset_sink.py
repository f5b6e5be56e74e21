"""The sink that stores records in a Parquet dataset: it runs the steps of `staging` in a thread."""

import asyncio
import errno
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, NoReturn, Self, TypeVar

from meteragent.collect.core import Batch, Key, Waiting
from meteragent.collect.dataset_file import Length
from meteragent.collect.outcome import Content, Outcome, UnstorableError
from meteragent.collect.staging import Staging
from meteragent.domain.errors import DatabaseError, LinkError

STAGED_MAX: Final = 500_000
"""When this many rows are staged, they are moved into files without waiting for `delay`."""
_RETRYABLE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
"""The error numbers of failures after which the same operation may succeed later."""

_log = logging.getLogger("meteragent")
T = TypeVar("T")


class ParquetSink:
    """A dataset, opened by `connect`. A single thread runs all operations on files, one after the other."""

    def __init__(self, staging: Staging, executor: ThreadPoolExecutor, delay_s: float, folder: Path) -> None:
        self._staging, self._executor, self._delay_s, self._folder = staging, executor, delay_s, folder
        self._fault: LinkError | DatabaseError | None = None

    @classmethod
    @asynccontextmanager
    async def connect(cls, folder: Path, name: str, length: Length, delay_s: float) -> AsyncIterator[Self]:
        """Open a dataset; flush and close it at the end. Raises LinkError or DatabaseError."""
        with _translate_errors(folder):
            staging = Staging(folder, name, length)
        executor = ThreadPoolExecutor(1, "dataset")
        sink = cls(staging, executor, delay_s, folder)
        flusher = asyncio.create_task(sink._keep_flushing())
        try:
            yield sink
        finally:
            flusher.cancel()
            executor.submit(sink._close).result()  # also waits for a step that is still running
            executor.shutdown()

    async def create_tables(self) -> bool:
        """Create the tables unless they exist, and return whether they were created."""
        return await self._step(self._staging.create_tables)

    async def begin_service(self, *, is_first: bool) -> Content:
        """Create the tables unless they exist, and return the dataset's content."""
        await self.create_tables()
        return await self._step(lambda: self._staging.begin_service(is_first=is_first))

    async def waiting_records(self, keys: Collection[Key]) -> list[Waiting]:
        """Return the records that wait for one of the given descriptors, in order of arrival."""
        return await self._step(lambda: self._staging.waiting_records(keys))

    async def expire_waiting(self, wait_ms: int) -> Outcome:
        """Refuse the records that have waited for longer than `wait_ms`."""
        return await self._step(lambda: self._staging.expire_waiting(wait_ms))

    async def write_batch(self, batch: Batch, messages: int, now_ms: int) -> Outcome:
        """Commit a batch; return its outcome and that of the last flushes. Raises a failed flush's error."""
        if self._fault is not None:
            raise self._fault
        outcome = await self._step(lambda: self._staging.write_batch(batch, messages, now_ms))
        if self._staging.staged >= STAGED_MAX:
            await self.flush()
        return outcome

    async def flush(self) -> None:
        """Move the staged rows into files."""
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
        """Flush unless a periodic flush failed, and close; staged rows stay durable even if this fails."""
        try:
            with _translate_errors(self._folder):
                if self._fault is None:
                    self._staging.flush()
        except (LinkError, DatabaseError) as error:
            _log.warning("%s; received records stay staged", error)
        finally:
            self._staging.close()

    async def _step(self, step: Callable[[], T]) -> T:
        def attempt() -> T:
            """Run the step, and translate its errors."""
            with _translate_errors(self._folder):
                return step()

        return await asyncio.get_running_loop().run_in_executor(self._executor, attempt)


@contextmanager
def _translate_errors(folder: Path) -> Iterator[None]:
    """Translate errors of SQLite and of the system into ours, without values of records."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise LinkError(f"the dataset: {folder}: {error}") from None
    except (sqlite3.DataError, sqlite3.IntegrityError) as error:
        raise UnstorableError(f"the dataset: {folder}: {error}") from None
    except sqlite3.Error as error:
        raise DatabaseError(f"the dataset: {folder}: {error}") from None
    except OSError as error:
        text = f"the dataset: {error.filename or folder}: {(error.strerror or 'failed').lower()}"
        raise (LinkError if error.errno in _RETRYABLE else DatabaseError)(text) from None
