"""A dataset of `collect` on a disk whose power is cut between any two steps of a flush."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from meteragent.collect import dataset_file
from meteragent.collect.core import Core, Limits
from meteragent.collect.staging import Staging
from meteragent.collect.topic import StreamTopic
from meteragent.service import whole_file
from tests.integration.block_device import MIB, ext4, mounted
from tests.integration.collecting_files import table_of
from tests.support.collecting import NOW_MS, TEMPLATE, record_messages, terms_message
from tests.support.stores import TERMS

BATCHES = [
    record_messages(TERMS, list(range(20)), f"m{number}", first=-48 + 7 * number) for number in range(6)
]
"""Batches over two days, so that each flush makes a new file or replaces one."""
TOLD = [terms_message(TERMS, f"m{number}") for number in range(len(BATCHES))]
"""The descriptors of all meters."""


class Cut(NamedTuple):
    """The device when its power is cut: what was on it, and how many batches had been acknowledged."""

    image: Path
    acknowledged: int


class Power:
    """Copies of a device, as it is at a moment, without what waits in memory to be written."""

    def __init__(self, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cuts: list[Cut] = []
        self.acknowledged = 0
        self._image = image
        for owner, name in (
            (os, "fsync"),
            (dataset_file, "sync_folder"),
            (whole_file, "sync_folder"),
            (Path, "replace"),
            (Staging, "_count"),
        ):
            monkeypatch.setattr(owner, name, self._followed_by_a_cut(getattr(owner, name)))

    def cut(self) -> None:
        """Keep a copy of the device."""
        path = self._image.with_name(f"cut{len(self.cuts)}")
        shutil.copyfile(self._image, path)
        self.cuts.append(Cut(path, self.acknowledged))

    def _followed_by_a_cut(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            """Take the step, and then cut the power."""
            result = step(*arguments)
            self.cut()
            return result

        return call


def opened(folder: Path) -> tuple[Staging, Core]:
    """Open a dataset as a life of `collect` does."""
    staging = Staging(folder, "test", "day")
    staging.create_tables()
    return staging, Core(
        [StreamTopic.parse("main", TEMPLATE)], Limits(), *staging.begin_service(is_first=True)
    )


def test_a_power_cut_between_any_two_steps_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each step, what the disk has is enough: every acknowledged record is there, once.

    A cut disk is mounted anew and opened, and gets all batches again; then it has every record once. The
    journal of ext4 commits a rename with any later fsync, so whether folders are flushed is not tested.
    """
    with ext4(tmp_path / "disk", size_bytes=16 * MIB) as device:
        staging, core = opened(device.mount / "records")
        with monkeypatch.context() as patch:
            power = Power(device.image, patch)
            for messages in BATCHES:
                batch = core.take_messages([*TOLD, *messages], NOW_MS)
                staging.write_batch(batch, len(messages), NOW_MS)
                power.acknowledged += 1
                power.cut()
                if power.acknowledged % 2 == 0:
                    staging.flush()
        staging.close()
        everything = table_of(device.mount / "records")
    assert len(everything) == sum(map(len, BATCHES))
    assert len(power.cuts) > 20
    for number, cut in enumerate(power.cuts):
        with mounted(cut.image, tmp_path / f"cut{number}") as folder:
            staging, core = opened(folder / "records")
            staging.flush()
            meters = {row.meter for row in table_of(folder / "records")}
            assert meters >= {f"m{batch}" for batch in range(cut.acknowledged)}, f"after step {number}"
            for messages in BATCHES:
                staging.write_batch(core.take_messages([*TOLD, *messages], NOW_MS), len(messages), NOW_MS)
            staging.flush()
            staging.close()
            assert table_of(folder / "records") == everything, f"after step {number}"
