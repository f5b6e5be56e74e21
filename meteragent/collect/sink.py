"""The sinks: the protocol of each, and the one that a configuration names."""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from meteragent.collect.configuration import Settings
from meteragent.collect.core import Batch, Key, Waiting
from meteragent.collect.outcome import Content, Outcome


class Sink(Protocol):
    """Durable tables.

    An operation that fails raises LinkError if another attempt may succeed, one of DATA_FAULTS if the data of
    a batch cannot be stored, and DatabaseError otherwise.
    """

    async def create_tables(self) -> bool:
        """Create the tables unless they exist, and return whether they were created."""
        ...

    async def begin_service(self, *, is_first: bool) -> Content:
        """Return the content of the tables; if `is_first`, reset the collector's counts to 0."""
        ...

    async def expire_waiting(self, wait_ms: int) -> Outcome:
        """Refuse the records that have waited for longer than `wait_ms`."""
        ...

    async def waiting_records(self, keys: Collection[Key]) -> list[Waiting]:
        """Return at most SLICE_MAX records that wait for one of these descriptors, in order of arrival."""
        ...

    async def write_batch(self, batch: Batch, messages: int, now_ms: int) -> Outcome:
        """Commit all effects of a batch of `messages` messages, or none; on return, they are on disk."""
        ...


def extra_of(settings: Settings) -> str:
    """Return the extra that the sink needs."""
    return "collect" if settings.dataset is None else "collect-parquet"


def sink_of(settings: Settings) -> AbstractAsyncContextManager[Sink]:
    """Return the sink that a configuration names. Raises ImportError or ConfigError."""
    name, database, dataset = settings.source.client_id, settings.database, settings.dataset
    if dataset is not None:
        from meteragent.collect.dataset_sink import ParquetSink  # noqa: PLC0415  needs an extra of its own

        return ParquetSink.connect(dataset.folder, name, dataset.partition, dataset.delay / 1000)
    if database is None:
        raise AssertionError("a configuration has one of the two tables")
    from meteragent.collect.database import Database  # noqa: PLC0415  needs an extra of its own

    return Database.connect(database.url, settings.read_password(), name, database.partition)
