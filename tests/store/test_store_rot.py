"""One flipped bit of a store: all numbers are right, or what is damaged is named and held."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from meteragent.store import examine, file, outbox
from tests.support import rot
from tests.support.stores import in_memory

FLIPS = 600


def flip_some(files: rot.Files, folder: Path, count: int, seed: int) -> Counter[str]:
    """Flip bits, each in a copy of the store; return what became of the copies, with all that is wrong."""
    right = rot.flipped(files, None, folder / "right" / "db")
    assert not right.refusals
    return Counter(
        rot.verdict(rot.flipped(files, bit, folder / "flipped" / "db"), right)
        for bit in rot.sample(files, count, Random(seed))
    )


def test_a_flipped_bit_changes_no_number() -> None:
    """What the agent, `ledger` and `export` say is right, or the store is refused, or a message is held."""
    with in_memory() as folder:
        (folder / "new").mkdir()
        verdicts = flip_some(rot.written(folder / "new"), folder, FLIPS, 1)
    assert verdicts.keys() == rot.GOOD


def _without_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "_ROWS", {})


def _without_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "INTEGRITY_CHECK", "PRAGMA quick_check(1)")


def _without_holding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "damaged_rows", lambda *_, **__: {})


@pytest.mark.parametrize("mistake", [_without_sums, _without_index, _without_holding])
def test_the_search_finds_a_missing_check(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the sums of rows, the check of indexes, or held messages, another number is found."""
    with in_memory() as folder:
        (folder / "new").mkdir()
        files = rot.written(folder / "new")
        mistake(monkeypatch)
        verdicts = flip_some(files, folder, FLIPS // 3, 2)
    assert verdicts.keys() - rot.GOOD
