"""What fuzzing found, and what every input must keep: see `targets` and tests/README.md."""

from collections.abc import Callable
from pathlib import Path

import pytest

from meteragent import config, consume
from meteragent.domain.errors import ConfigError, RecordError, StoreError
from meteragent.store import schema
from tests.fuzz import stored
from tests.fuzz.seeds import SEEDS, corpus
from tests.fuzz.targets import TARGETS, measured
from tests.support.configurations import written
from tests.support.stores import altering, open_store, opening, persist, sending

FILES = [path for name in TARGETS for path in corpus(name)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_of_the_corpus(path: Path) -> None:
    """What fuzzing found to be different is read or refused under a name, at once, and not repeated."""
    assert measured(path.parent.name, path.read_bytes())


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in {"store", "profiles", "mqtt"}])
def test_where_fuzzing_begins(name: str) -> None:
    """A target takes what it is there for: of its seeds one is not refused."""
    became = {measured(name, seed) for seed in SEEDS[name]()}
    accepted = {"read", "accepted", "series", "number", "time", "found", "200"}
    assert became & accepted, became


# Configuration ------------------------------------------------------------------------------------

REFUSED = {
    "a number of thousands of digits": "a = " + "9" * 5000,
    "brackets without end": "a = " + "[" * 100_000,
    "an expression without end": written(source=f"profile = 'json'\nvalue = '{'(' * 5000}'"),
    "a text that is a huge number": written(privacy="level = '1e99999999'"),
    "a text that is a tiny number": written(privacy="level = '1e-99999999'"),
    "a long fraction": written(privacy=f"radius = '1/{'9' * 4000}'"),
    "a long integer": written(privacy=f"level = {'9' * 4000}"),
    "a day of minutes, for ten years": written(
        window="length = '1d'\ntimezone = 'Europe/Amsterdam'\nblocks = 1440", privacy="space = 'profile'"
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_no_setting_stalls_the_check(what: str) -> None:
    """What would take minutes, or all memory, or end in another exception, is refused as a setting."""
    assert measured("config", REFUSED[what].encode()) != "accepted"
    with pytest.raises(ConfigError):
        config.parse(REFUSED[what])


def test_many_bands_are_checked_at_once() -> None:
    """A week of quarters of an hour, over ten years of calendar, takes less than a second."""
    text = written(
        window="length = '1w'\ntimezone = 'Europe/Madrid'\nblocks = 96", privacy="space = 'profile'"
    )
    assert measured("config", text.encode()) == "accepted"


@pytest.mark.parametrize("zone", ["Europe/Amsterdam", "Africa/Casablanca", "Australia/Lord_Howe"])
def test_the_windows_that_differ_are_found_by_their_days(zone: str) -> None:
    """Of ten years' windows those with days of other lengths stand for all: no terms are missed."""
    [stream] = config.parse(written(window=f"timezone = '{zone}'", privacy="preset = 'typical-day'")).stream
    windows, found = config.schedule(stream), set()
    start_ms = windows.first_start_ms(1_735_689_600_000)
    for _ in range(36):
        found.add(windows.terms_at(start_ms))
        start_ms = windows.grid.end_ms(start_ms)
    assert found <= set(config.distinct_terms(stream))


# Recordings ---------------------------------------------------------------------------------------


LONG = {b"/AAA5x\n": 200_000, b'"': 30_000, b"\\": 30_000, b"1-": 30_000, b"1.1.": 30_000, b"\xff": 30_000}
"""What repeats, and how often: headers of telegrams without an end took as the square of their number."""


@pytest.mark.parametrize("piece", LONG)
def test_a_long_recording_takes_no_longer_than_its_length(piece: bytes) -> None:
    """Headers without an end, quotes, and whatever else repeats, are redacted within a second."""
    assert measured("redact", piece * (LONG[piece] // len(piece)))


# Records ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [b"1e99999999999999999999", b'{"v":1e99999999999999999999}', b'[{"bver":1e999999999999999999999}]'],
)
def test_a_number_beyond_all_numbers_is_no_record(message: bytes) -> None:
    """A decimal that Python cannot hold is refused as what it is: no record."""
    with pytest.raises(RecordError):
        consume.Record.parse(message)


# Store --------------------------------------------------------------------------------------------


def _changed(path: Path, table: str, column: str, change: Callable[[str], object]) -> None:
    """Change a value that a table has once."""
    with altering(path) as connection:
        [(found,)] = connection.execute(f"SELECT {column} FROM {table} LIMIT 1").fetchall()
        text = found.decode() if isinstance(found, bytes) else str(found)
        connection.execute(f"UPDATE {table} SET {column} = ?", (change(text),))


def _digit(text: str) -> bytes:
    """Return the state with another first digit of its slots."""
    at = next(at for at, one in enumerate(text) if one in "123456789" and at > text.index("slots"))
    return (text[:at] + str(int(text[at]) % 9 + 1) + text[at + 1 :]).encode()


NO_TIME = schema.seal(
    '{"integrated_until_ms":"x","standing_ms":null,"newest_ms":null,"next_ms":0,"idle_windows":0,"windows":[]}'
).encode()


def _by_nothing(text: str) -> str:
    return text.replace('"level":"1"', '"level":"1/0"')


DAMAGED: dict[str, tuple[str, str, Callable[[str], object]]] = {
    "a digit of a state": ("state", "state", _digit),
    "a digit of terms": ("terms", "terms", lambda text: text.replace('"220"', '"120"')),
    "a state that is a text": ("state", "state", lambda text: text),
    "a state without its sum": ("state", "state", lambda text: schema.unseal(text.rstrip("\0")).encode()),
    "a time that is no number": ("state", "state", lambda _: NO_TIME),
    "terms that divide by nothing": ("terms", "terms", _by_nothing),
    "a mark that is a text": ("mark", "end_ms", lambda _: "later"),
    "a mark before the end of the open window": ("mark", "end_ms", lambda _: 0),
    "a charge that is no fraction": ("charge", "epsilon", lambda _: "much"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_what_sqlite_does_not_see_is_seen(tmp_path: Path, what: str) -> None:
    """A store whose pages are sound and whose content is not is set aside: nothing of it is used."""
    path = tmp_path / "db"
    with open_store(path) as store:
        persist(store, opening(1, "m"))
        persist(store, sending(0))
    _changed(path, *DAMAGED[what])
    with open_store(path, now_ms=77) as store:
        assert store.damage
        assert store.snapshot("main").states == {}


@pytest.mark.parametrize(("table", "column"), [("mark", "meter"), ("state", "meter"), ("charge", "stream")])
def test_a_text_that_is_none_is_seen(tmp_path: Path, table: str, column: str) -> None:
    """A name with a byte that is not UTF-8 would crash every reader, so the store is set aside."""
    path = tmp_path / "db"
    with open_store(path) as store:
        persist(store, opening(1, "m"))
        persist(store, sending(0))
    with altering(path) as connection:
        connection.execute(f"UPDATE {table} SET {column} = CAST(x'6dff' AS TEXT)")
    with open_store(path, now_ms=77) as store:
        assert store.damage


@pytest.mark.parametrize("at", range(len(stored.CONFIGURATIONS)))
def test_every_digit_of_a_state_is_covered_by_its_sum(at: int) -> None:
    """No single digit of a kept state can change unseen."""
    known = stored.used(at).known
    found = [schema.encode_state(known.states[meter]).decode() for meter in stored.METERS[:1]]
    for text in found:
        for place in (place for place, one in enumerate(text) if one.isdigit()):
            other = text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
            with pytest.raises(StoreError):
                schema.decode_state(other.encode())
