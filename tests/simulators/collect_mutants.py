"""Collectors with one mistake each, which the simulation test must find."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import simulators.simtest.collect.tables  # noqa: F401  it knows statements by their texts, before one changes
from meteragent.collect import core, database, dataset_file, service
from meteragent.collect.core import Core, Message
from meteragent.collect.dataset_file import MergeResult
from meteragent.collect.outcome import DATA_FAULTS
from meteragent.collect.service import Service
from meteragent.collect.sink import Sink
from meteragent.domain.errors import LinkError

_build, _commit = Service._build_core, Service._commit_messages


def acknowledges_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """A crash between the two loses what was acknowledged."""

    async def commit(self: Service, core: Core, tables: Sink, messages: Sequence[Any]) -> Core:
        await self._source.acknowledge([item for item in messages if isinstance(item, Message)])
        return await _commit(self, core, tables, messages)

    patch.setattr(Service, "_commit_messages", commit)


def takes_a_failure_for_a_commit(patch: pytest.MonkeyPatch) -> None:
    """A batch that the tables did not get is acknowledged."""

    async def commit(self: Service, core: Core, tables: Sink, messages: Sequence[Any]) -> Core:
        try:
            return await _commit(self, core, tables, messages)
        except LinkError:
            return core

    patch.setattr(Service, "_commit_messages", commit)


def keeps_a_core_that_is_ahead(patch: pytest.MonkeyPatch) -> None:
    """After a failed commit, the core knows terms that the tables do not have."""
    cores: dict[Service, Core] = {}

    async def build(self: Service, tables: Sink, *, is_first: bool) -> Core:
        built = await _build(self, tables, is_first=is_first)
        return cores.setdefault(self, built)

    patch.setattr(Service, "_build_core", build)


def refuses_a_whole_batch(patch: pytest.MonkeyPatch) -> None:
    """One message that cannot be stored takes its neighbours with it."""

    async def halve(self: Service, core: Core, tables: Sink, messages: Sequence[Any]) -> Core:
        try:
            batch = core.take_messages(messages, self._now_ms())
            await tables.write_batch(batch, len(messages), self._now_ms())
        except DATA_FAULTS:
            core = await self._build_core(tables, is_first=False)
            batch = core.refuse_message(messages[0])
            await tables.write_batch(batch, len(messages), self._now_ms())
        return await self._write_waiting(core, tables, [link.key for link in batch.links])

    patch.setattr(Service, "_commit_messages", halve)


def forgets_what_waits(patch: pytest.MonkeyPatch) -> None:
    """Terms that come late are written, and the records that wait for them stay."""
    patch.setattr(Core, "awaited_descriptors", lambda _: [])

    async def write(_: Service, core: Core, *__: Any) -> Core:
        return core

    patch.setattr(Service, "_write_waiting", write)


def never_looks_for_the_others_terms(patch: pytest.MonkeyPatch) -> None:
    """Records wait at one collector for terms that another has written."""
    patch.setattr(service, "RELOAD_S", 1e9)


def takes_any_slot(patch: pytest.MonkeyPatch) -> None:
    """Slots of two grids are added up, though they share time."""
    keep = Core._keep_terms

    def keep_terms(self: Core, key: core.Meter, terms: core.AnnouncedTerms) -> None:
        keep(self, key, terms)
        self._mixed.clear()

    patch.setattr(Core, "_keep_terms", keep_terms)


def knows_only_its_own_terms(patch: pytest.MonkeyPatch) -> None:
    """Another collector's slots of another grid are added up with its own."""

    async def nobody(*_: object) -> set[core.Meter]:
        return set()

    patch.setattr(database.Database, "_mixed_by_others", nobody)


def believes_that_rows_arrived(patch: pytest.MonkeyPatch) -> None:
    """Rows that a trigger drops, or that differ, are taken for repeated ones."""
    patch.setattr(database, "_DIFFERENT", "SELECT WHERE false")


def keeps_duplicates(patch: pytest.MonkeyPatch) -> None:
    """A file has a record as often as it was delivered in different moves."""

    def merge(content: pa.Table, rows: pa.Table, _: object) -> MergeResult:
        return MergeResult(pa.concat_tables([content, rows]), rows.num_rows, 0, 0)

    patch.setattr(dataset_file, "merge_rows", merge)


def writes_files_later(patch: pytest.MonkeyPatch) -> None:
    """Staged rows are deleted before their file is on disk."""
    write, late = dataset_file.write_table, list[tuple[Any, ...]]()

    def write_late(*arguments: Any) -> None:
        late.append(arguments)
        if len(late) > 1:
            write(*late.pop(0))

    patch.setattr(dataset_file, "write_table", write_late)


MUTANTS = (
    (acknowledges_before_the_commit, "lost", 0),
    (takes_a_failure_for_a_commit, "lost", 0),
    (keeps_a_core_that_is_ahead, "lost", 0),
    (refuses_a_whole_batch, "lost", 0),
    (forgets_what_waits, "waits for known terms", 0),
    (never_looks_for_the_others_terms, "waits for known terms", 0),
    (takes_any_slot, "overlap", 0),
    (knows_only_its_own_terms, "overlap", 100),
    (believes_that_rows_arrived, "not counted", 0),
    (keeps_duplicates, "doubled", 0),
    (writes_files_later, "vanishes", 0),
)
