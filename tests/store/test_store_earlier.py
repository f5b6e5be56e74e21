"""Stores of earlier versions: what they lack has its default, and what they hold keeps its meaning."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import floor
from pathlib import Path
from typing import Any

import pytest

from meteragent.domain.commit import OpenWindow
from meteragent.domain.errors import StoreError
from meteragent.store import Store, file, generation, ledger, meta, schema
from tests.store import earlier
from tests.support.stores import TERMS, bytes_on_disk

FIXTURES = Path(__file__).parent / "earlier_store"
RELEASED, RELEASED_4 = (
    dict[str, Any](json.loads((FIXTURES / name / "released.json").read_text()))
    for name in ("version_3", "version_4")
)


def test_half_up_terms_keep_their_names() -> None:
    """Terms from before there was another rounding are half-up, and have the ids that stores know them by."""
    known = json.loads(schema.encode_terms(TERMS))
    without = {name: value for name, value in known.items() if name not in ("rounding", "crc")}
    assert schema.decode_terms(json.dumps(without)).rounding == "half-up"
    assert TERMS.id == "c4f314bc7aa9889a"
    assert replace(TERMS, rounding="dithered").id != TERMS.id
    with pytest.raises(StoreError):
        schema.decode_terms(json.dumps(without | {"rounding": "half-even"}))


def test_terms_of_the_first_version_are_read() -> None:
    """A store from before there were bands, zones and other streams: what its terms lack has its default."""
    later = {"space", "timezone", "bands", "others_per_day"}
    known = json.loads(schema.encode_terms(TERMS))
    assert later < known.keys()
    assert schema.decode_terms(json.dumps({k: v for k, v in known.items() if k not in later})) == TERMS


# --- a store of version 3 ---------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The store that an agent of version 3 left."""
    return left_by("version_3", tmp_path / "db")


def left_by(version: str, path: Path) -> Path:
    """Write the store that an agent of a version left; return its path."""
    folder = FIXTURES / version
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        connection.executescript((folder / "store.sql").read_text())
    path.with_name("db.gen").write_text(json.loads((folder / "released.json").read_text())["generation"])
    known = generation.read(path)
    if known is not None and known.releases is not None:
        generation.write(path, known)  # since version 4 the file names its inode
    return path


def opened(path: Path) -> Store:
    """The store as the agent opens it."""
    return Store.open(path, now_ms=earlier.STOP_MS, recovery_floor_ms=None)


def windows(path: Path) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """The open windows as the file has them, by channel and meter."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT channel, meter, state FROM state").fetchall()
    for stream, meter, state in rows:
        for window in json.loads(state.rstrip(b"\0"))["windows"]:
            yield (stream, meter), window


def test_accumulators_are_floored_and_radii_blanked_when_a_store_is_opened(path: Path) -> None:
    """Fractions are rounded down, of masked slots up, R is kept only for slots to come, and no copy stays."""
    before = list(windows(path))
    with opened(path) as store:
        disk = bytes_on_disk(store.path)
    after = list(windows(path))
    gone, fractions, n = set[bytes](), 0, {"power": 3, "energy": 1, "register": 1}
    for (where, old), (same, new) in zip(before, after, strict=True):
        assert where == same
        for (place, kept), (_, whole) in zip(old["slots"], new["slots"], strict=True):
            sign = -1 if place == old["masked"] else 1
            assert type(whole) is int
            assert sign * whole == floor(sign * Fraction(kept))
            if isinstance(kept, str):
                fractions += 1
                gone.add(kept.encode())
        assert new.get("radius") == (old["radius"] if old["drawn"] < n[where[0]] else None)
        if new.get("radius") is None:
            gone.add(b'"radius":%d,"drawn":1' % old["radius"])
        assert {**old, "slots": 0, "radius": 0} == {**new, "slots": 0, "radius": 0}
    assert fractions == 2
    assert len(gone) == 2 + 4  # energy and register drew from the same seed
    assert not [text for text in gone if text in disk]


@pytest.mark.slow("a thousand commits, each of which waits for the disk")
def test_windows_finish_as_they_began_and_new_ones_are_dithered(path: Path) -> None:
    """What was open is released byte for byte as the earlier version would; then windows are dithered."""
    expected = {(topic, json.loads(text)["t"]): text for topic, text in RELEASED["released"]}
    began = {"power": "2026-11-20T13:30", "energy": "2026-11-20T13:30", "register": "2026-11-20T13:30"}
    with opened(path) as store:
        running = earlier.cores(store, 2)
        actual = earlier.play(store, running, earlier.delivered_again())
        actual += earlier.play(store, running, earlier.steps(earlier.STOP_MS, earlier.END_MS))
        terms = {known.id: known for name in running for known in store.snapshot(name).terms.values()}
    old = [(topic, text) for topic, text in actual if json.loads(text)["t"] < began[topic.split("/")[2]]]
    assert len(old) == 12
    for topic, text in old:
        assert text == expected.pop((topic, json.loads(text)["t"]))
    assert min(t for _, t in expected) > began["power"]
    assert {known.rounding for known in terms.values()} == {"half-up", "dithered"}
    new = [(topic, text) for topic, text in actual if (topic, text) not in old]
    ids = {topic: json.loads(text)["d"] for topic, text in old}
    assert new
    assert all(json.loads(text)["d"] != ids[topic] for topic, text in new)


def test_an_earlier_version_refuses_what_it_would_misread(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that was opened once is refused by a version that knows of 3 schemas, with the reason."""
    opened(path).close()
    monkeypatch.setattr(file, "MIGRATIONS", schema.MIGRATIONS[:3])
    with pytest.raises(StoreError, match="written by a newer version"):
        opened(path)


# --- a store of version 4 ---------------------------------------------------------------------------


def content(path: Path) -> dict[str, list[Any]]:
    """What version 4 knows of a store: the rows of its tables, without what each start changes."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
            for table in ("mark", "terms", "state", "charge", "descriptor", "total", "outbox_total")
        }
        rows["outbox"] = connection.execute(
            "SELECT id, channel, due_ms, topic, payload, retain, delivered_ms FROM outbox ORDER BY id"
        ).fetchall()
        return rows


def test_a_store_of_version_4_gets_new_tables_and_nothing_else_changes(tmp_path: Path) -> None:
    """Not a byte of its states, rows and charges; version 4 could still use it."""
    path = left_by("version_4", tmp_path / "db")
    before = content(path)
    assert all(before[table] for table in ("mark", "terms", "state", "charge", "descriptor", "outbox"))
    with opened(path) as store:
        assert not store.set_aside
        for table in ("receiver", "announced", "sent", "crowd_keys"):
            assert store.connection.execute(f"SELECT * FROM {table}").fetchall() == []
        slots = store.connection.execute("SELECT DISTINCT id_of_terms, from_ms, to_ms FROM outbox")
        assert slots.fetchall() == [(None, None, None)]
        [(version,)] = store.connection.execute("PRAGMA user_version")
        assert version == 6
        assert meta(store.connection, "compatible_from") == 4
    assert content(path) == before


@pytest.mark.slow("hundreds of commits, each of which waits for the disk")
def test_version_4_goes_on_as_it_began(tmp_path: Path) -> None:
    """Its open windows, and the next, are released byte for byte as version 4 would; charged once."""
    path = left_by("version_4", tmp_path / "db")
    until_ms = earlier.STOP_MS + 36 * earlier.MINUTE_MS  # all open windows have closed
    with opened(path) as store:
        charged = charged_windows(store)
        began = {(key, window.start_ms) for key, window in open_windows(store)}
        assert len(began) == 8  # the lateness of registers keeps a second one open
        running = earlier.cores(store, 2)
        actual = earlier.play(store, running, earlier.delivered_again())
        actual += earlier.play(store, running, earlier.steps(earlier.STOP_MS, until_ms))
        assert began.isdisjoint((key, window.start_ms) for key, window in open_windows(store))
        assert charged_windows(store) == charged + 6  # the next window of each
    expected = [tuple(row) for row in RELEASED_4["released"]]
    assert actual == expected[: len(actual)]
    assert len(actual) >= 10


def open_windows(store: Store) -> Iterator[tuple[tuple[str, str], OpenWindow]]:
    """The open windows of a store, by stream and meter."""
    for stream in earlier.EVERY_MS:
        for meter, state in store.snapshot(stream).states.items():
            for window in state.windows:
                yield (stream, meter), window


def charged_windows(store: Store) -> int:
    """The number of windows that were ever charged."""
    return sum(line.windows for line in ledger.report(store.connection))


def test_flooring_changes_no_release() -> None:
    """For every even L, fraction and whole addition, the floored accumulator is rounded as the exact one."""
    for lattice, under, more in product((2, 4, 10), (2, 3, 7), range(-11, 12)):
        for over in range(-3 * lattice * under, 3 * lattice * under):
            exact, register = Fraction(over, under), 5
            kept = schema._round_down(f"{over}/{under}", is_masked=False)
            masked = (
                schema._round_down(str(register - exact), is_masked=True) if over % under else register - kept
            )
            right = floor((exact + more) / lattice + Fraction(1, 2))
            assert (2 * (kept + more) + lattice) // (2 * lattice) == right
            assert register - masked == kept
