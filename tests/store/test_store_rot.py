"""One flipped bit of a store: all numbers are right, or what is damaged is named and held."""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from meteragent.store import examine, file, outbox
from tests.support import rot
from tests.support.stores import in_memory

FLIPS = 300


def verdicts_of(flips: Sequence[rot.Bit], files: rot.Files, folder: Path) -> set[str]:
    """Flip bits, each in a copy of the store; return what became of the copies, with all that is wrong."""
    right = rot.flipped(files, None, folder / "right" / "db")
    assert not right.refusals
    return {rot.verdict(rot.flipped(files, bit, folder / "flipped" / "db"), right) for bit in flips}


def test_a_flipped_bit_changes_no_number() -> None:
    """What the agent, `ledger` and `export` say is right, or the store is refused, or a message is held."""
    with in_memory() as folder:
        (folder / "new").mkdir()
        files = rot.written(folder / "new")
        assert verdicts_of(rot.sample(files, FLIPS, Random(1)), files, folder) <= rot.GOOD


def test_a_message_with_a_flipped_bit_is_held() -> None:
    """A bit of a message that waits holds that message alone."""
    with in_memory() as folder:
        (folder / "new").mkdir()
        files = rot.written(folder / "new", has_log=False)
        assert "held" in verdicts_of(rot.bits_of(b'"value":', files), files, folder) <= rot.GOOD


def _without_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "_ROWS", {})


def _without_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "INTEGRITY_CHECK", "PRAGMA quick_check(1)")


def _without_holding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "damaged_rows", lambda *_, **__: {})


MISTAKES = [(_without_sums, b"mqtt://app"), (_without_index, b"mainm1"), (_without_holding, b'"value":')]


@pytest.mark.parametrize(("mistake", "text"), MISTAKES)
def test_the_search_finds_a_missing_check(
    mistake: Callable[[pytest.MonkeyPatch], None], text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the sums of rows, the check of indexes, or held messages, another number is found."""
    with in_memory() as folder:
        (folder / "new").mkdir()
        files = rot.written(folder / "new", has_log=False)
        mistake(monkeypatch)
        assert verdicts_of(rot.bits_of(text, files), files, folder) - rot.GOOD
