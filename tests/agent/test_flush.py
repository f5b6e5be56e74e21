"""`store.flush`: readings of long slots are collected before they are written."""

from pathlib import Path

import pytest

from meteragent.agent import runner as module
from tests.support.line import LENGTH_MS, START_MS, Line
from tests.support.stores import open_store


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is looked at every 2 ms: it is a test's, and shows nothing by itself."""
    monkeypatch.setattr(module, "POLL_S", 0.002)


async def test_readings_are_collected_and_nothing_is_late(tmp_path: Path) -> None:
    """With `flush`, readings are written together, by their slot's end at the latest; values stay equal."""
    with open_store(tmp_path / "db") as store:
        line = Line(store, flush_ms=600_000)
        async with line.running():
            line.send(100)
            await line.pass_to(START_MS + LENGTH_MS - 1)
            assert (line.opened, line.store.commits) == (0, [])
            await line.pass_to(START_MS + LENGTH_MS)
            written = len(line.store.commits)
            for quarter in range(1, 4):
                line.now_ms = START_MS + LENGTH_MS + quarter * LENGTH_MS // 4
                line.send(100 * quarter)
                await line.turn()
            assert len(line.store.commits) == written
            assert line.session.acknowledged == []
            await line.pass_to(START_MS + 2 * LENGTH_MS)
            assert line.session.acknowledged == [b"100", b"100", b"200"]
        assert line.released == [(0, 100), (1, 175)]


async def test_readings_do_not_wait_longer_than_flush(tmp_path: Path) -> None:
    """Readings are written after `flush`, or when they would fill half of the permitted number."""
    with open_store(tmp_path / "db") as store:
        line = Line(store, flush_ms=200)
        async with line.running():
            line.send(100)
            await line.pass_to(START_MS + LENGTH_MS)
            line.send(100)
            await line.turn()
            written = len(line.store.commits)
            line.now_ms += 199
            line.send(200)
            await line.turn()
            assert len(line.store.commits) == written
            line.now_ms += 1
            await line.until(lambda: line.session.acknowledged[-1:] == [b"100"])
            line.now_ms += 100
            for _ in range(51):
                line.send(300)
            await line.until(lambda: b"200" in line.session.acknowledged)
