"""The key of archives: epochs by a window's start, a past that can be forgotten, and nothing without it."""

import copy
import os
import pickle
import stat
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from meteragent.archive.key import EpochKey, Key, create_key, expand, extract, forget_epochs, hkdf
from meteragent.domain.errors import KeyForgotten, KeyMissing, KeyRefused

SECRET = bytes(range(100, 132))
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2199, 12, 31))  # noqa: DTZ001  of UTC


def ms(text: str) -> int:
    """A time in UTC, in ms."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a key is, or will be."""
    return tmp_path / "acme.key"


# HKDF ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "salt", "info", "size", "made"),
    [
        (
            *(b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)), 42),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        ),
        (
            *(bytes(range(0x50)), bytes(range(0x60, 0xB0)), bytes(range(0xB0, 0x100)), 82),
            (
                "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e59"
                "0e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"
            ),
        ),
        (
            *(b"\x0b" * 22, b"", b"", 42),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        ),
    ],
)
def test_rfc_5869(secret: bytes, salt: bytes, info: bytes, size: int, made: str) -> None:
    """Test cases 1 to 3 of RFC 5869."""
    assert expand(extract(salt, secret), info, size).hex() == made


def test_rfc_4231() -> None:
    """HMAC-SHA-256, of which HKDF is made: test cases 1 and 2 of RFC 4231."""
    first = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    assert extract(b"\x0b" * 20, b"Hi There").hex() == first
    second = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert extract(b"Jefe", b"what do ya want for nothing?").hex() == second


@given(st.binary(min_size=1, max_size=64), st.lists(st.binary(max_size=9), max_size=3), st.integers(1, 100))
def test_another_implementation_agrees(secret: bytes, parts: list[bytes], size: int) -> None:
    """HKDF with the parts of its info, each after its length."""
    info = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    assert hkdf(secret, *parts, size=size) == HKDF(SHA256(), size, None, info).derive(secret)


# Epochs -------------------------------------------------------------------------------------------


@given(st.sampled_from(["month", "day"]), TIMES)
def test_the_epoch_is_that_of_the_start(every: str, start: datetime) -> None:
    """A window belongs to the UTC month or day in which it starts, to the millisecond."""
    key, start = Key("acme", every, 0, SECRET), start.replace(tzinfo=UTC)
    day = start.toordinal() - date(1970, 1, 1).toordinal()
    expected = day if every == "day" else (start.year - 1970) * 12 + start.month - 1
    start_ms = (start - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert key.epochs(np.array([start_ms])).tolist() == [expected]


def test_an_epoch_ends_with_its_last_millisecond() -> None:
    """A window that starts a millisecond before the month ends has its key, the next one another."""
    key = Key("acme", "month", 0, SECRET)
    assert key.at(ms("2026-02-01") - 1) is key.at(ms("2026-01-01"))
    assert key.at(ms("2026-02-01")).id != key.at(ms("2026-01-01")).id


def test_keys_of_epochs_tenants_and_lengths_are_apart() -> None:
    """No two keys and no two ids are equal over epochs, tenants, lengths of epochs, secrets and purposes."""
    made = [
        Key(tenant, every, 0, secret).epoch(epoch)
        for tenant in ("a", "b")
        for every in ("month", "day")
        for secret in (SECRET, bytes(32))
        for epoch in (0, 1, 2)
    ]
    secrets = [value for key in made for value in (key.tag, key.noise, key.run)]
    assert len(set(secrets)) == 72
    assert {len(value) for value in secrets} == {32}
    assert len({key.id for key in made}) == 24
    assert all(len(key.id) == 8 for key in made)


@given(st.integers(0, 400), st.integers(0, 400), st.integers(0, 400))
def test_what_is_kept_makes_the_same_keys(first: int, kept: int, asked: int) -> None:
    """A key without its past makes each later epoch's key as before, and no earlier one."""
    whole = Key("acme", "month", first, SECRET)
    start_ms = [int(np.datetime64(epoch, "M").astype("M8[ms]").astype(int)) for epoch in (kept, asked)]
    rest = whole.without(start_ms[0])
    assert rest.first == max(first, kept)
    if asked < rest.first:
        with pytest.raises(KeyForgotten):
            rest.at(start_ms[1])
    else:
        assert rest.at(start_ms[1]) == whole.at(start_ms[1])


def test_the_order_of_asking_is_nothing() -> None:
    """Epochs asked for backwards, or again, have the keys that they have forwards."""
    item, other = (Key("acme", "day", 0, SECRET) for _ in range(2))
    forwards = [item.epoch(epoch) for epoch in range(50)]
    assert [other.epoch(epoch) for epoch in reversed(range(50))] == forwards[::-1]
    assert [item.epoch(epoch) for epoch in range(50)] == forwards


def test_threads_that_ask_at_once_get_the_same_keys() -> None:
    """Eight threads that ask one key for many epochs at once get what one gets alone."""
    item, start, before = Key("acme", "day", 0, SECRET), Barrier(8), sys.getswitchinterval()

    def ask(thread: int) -> list[EpochKey]:
        start.wait()
        return [item.epoch(epoch) for epoch in range(thread % 3, 300)]

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(ask, range(8)))
    finally:
        sys.setswitchinterval(before)
    alone = Key("acme", "day", 0, SECRET)
    expected = [alone.epoch(epoch) for epoch in range(300)]
    assert all(keys == expected[thread % 3 :] for thread, keys in enumerate(made))


# Nothing without a key ----------------------------------------------------------------------------


def test_before_the_first_epoch_there_is_no_key() -> None:
    """A window before the key's range is refused, whatever its length; no other key is used instead."""
    key = Key("acme", "month", 0, SECRET).without(ms("2026-01-20"))
    assert key.at(ms("2026-01-01")).tenant == "acme"
    for start in ("2025-12-31T23:59:59.999", "1969-12-31", "0001-01-01"):
        with pytest.raises(KeyForgotten, match="no key: this key begins with 2026-01, set by"):
            key.at(ms(start))


@pytest.mark.parametrize("every", ["month", "day"])
def test_times_beyond_belief_have_no_key(every: str) -> None:
    """A window that starts after 2199 is refused at once, without going through the epochs."""
    key = Key("acme", every, 0, SECRET)
    for start_ms in (ms("2200-01-01"), 2**63 - 1):
        with pytest.raises(KeyRefused, match="check the unit of their times"):
            key.at(start_ms)
    assert key.at(ms("2199-12-31")).tenant == "acme"


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_key_stays_where_it_is(take: Callable[[Any], Any]) -> None:
    """A key is neither pickled (into a task, a spill, a log) nor copied."""
    key = Key("acme", "month", 600, SECRET)
    for secret in (key, key.epoch(601)):
        with pytest.raises(TypeError, match="a key cannot be pickled"):
            take(secret)


def test_nothing_shows_a_secret(path: Path) -> None:
    """No repr and no error holds a byte of a secret, in hexadecimal or as it is."""
    key = Key("acme", "month", 600, SECRET)
    told = [repr(key), str(key), repr(key.epoch(601)), str(key.epoch(601))]
    path.write_text(key.text().replace("month", "year"))
    path.chmod(0o600)
    calls: list[Callable[[], Any]] = [
        lambda: Key.load(path),
        lambda: key.at(0),
        lambda: pickle.dumps(key),
        lambda: Key("acme", "year", 0, SECRET),
        lambda: Key("acme", "day", 0, SECRET[:31]),
    ]
    for call in calls:
        with pytest.raises((KeyRefused, TypeError, ValueError)) as caught:
            call()
        told += map(repr, (caught.value, caught.value.__cause__, caught.value.__context__))
    for secret in (SECRET, key.epoch(600).tag, key.epoch(601).noise):
        for i in range(len(secret) - 4):
            piece = secret[i : i + 4]
            assert not any(piece.hex() in text or repr(piece)[2:-1] in text for text in told)


# The file -----------------------------------------------------------------------------------------


def test_a_new_key_is_random_and_its_owner_s(path: Path) -> None:
    """The file is its owner's alone, holds what `load` reads, and is never written over."""
    made = create_key(path, "acme", begin=date(2026, 1, 31))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    loaded = Key.load(path)
    assert (loaded.tenant, loaded.epoch_unit, loaded.first_epoch) == ("acme", "month", "2026-01")
    assert loaded.at(ms("2026-05-05")) == made.at(ms("2026-05-05"))
    assert (
        create_key(path.with_name("other"), "acme").text()
        != create_key(path.with_name("third"), "acme").text()
    )
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        create_key(path, "acme")
    assert path.read_bytes() == before


def test_a_key_of_an_unknown_epoch_is_refused(path: Path) -> None:
    """Nothing is written for a length of epochs that does not exist."""
    with pytest.raises(ValueError, match="an epoch is one of month, day"):
        create_key(path, "acme", "week")
    assert not path.exists()


def test_a_new_key_is_of_the_entropy_given(path: Path) -> None:
    """32 bytes of it, asked for once."""
    asked: list[int] = []

    def entropy(size: int) -> bytes:
        asked.append(size)
        return SECRET

    assert SECRET.hex() in create_key(path, "acme", "day", date(2026, 1, 31), entropy).text()
    assert asked == [32]
    assert Key.load(path).first_epoch == "2026-01-31"


GOOD = f'tenant = "acme"\nepoch = "month"\nbegins = "2026-01"\nsecret = "{SECRET.hex()}"\n'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tenant = ",
        GOOD.replace("acme", "a b"),
        GOOD.replace("acme", ""),
        GOOD.replace("month", "year"),
        GOOD.replace("2026-01", "2026-13"),
        GOOD.replace("2026-01", "NaT"),
        GOOD.replace("2026-01", ""),
        GOOD.replace("64", "6", 1),
        GOOD.replace("6465", "646"),
        GOOD.replace("6465", "646g"),
        GOOD.replace("6465", "646\N{LATIN SMALL LETTER E WITH ACUTE}"),
        GOOD.replace("secret", "seecret"),
        GOOD + 'more = "1"\n',
        GOOD + " " * 5000,
        GOOD.replace("2026-01", "2026-01-31"),
        GOOD.replace("month", "day"),
        GOOD.replace("month", "day").replace("2026-01", "2026-02-30"),
        GOOD + GOOD,
        "\0" * 200,
        "a = " + "[" * 3000,
        "#" + " #" * 1500,
    ],
)
def test_what_is_no_key_is_none(path: Path, text: str) -> None:
    """A file that lacks a part, holds more, or what cannot be is refused, without a word of what is in it."""
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(KeyMissing, match="not a key made by") as caught:
        Key.load(path)
    assert caught.value.__context__ is None


def test_a_key_that_is_not_there_is_none(path: Path) -> None:
    """A missing or unreadable file gives no key."""
    with pytest.raises(KeyMissing, match="no such file"):
        Key.load(path)
    with pytest.raises(KeyMissing, match="directory"):
        Key.load(path.parent)


@pytest.mark.parametrize(("mode", "read"), [(0o600, True), (0o640, True), (0o400, True), (0o644, False)])
def test_a_key_that_everybody_can_read_is_refused(path: Path, mode: int, read: bool) -> None:
    """A group may read it, as services do; everybody on the machine may not."""
    path.write_text(GOOD)
    path.chmod(mode)
    if read:
        assert Key.load(path).first_epoch == "2026-01"
    else:
        with pytest.raises(KeyMissing, match="chmod 600"):
            Key.load(path)


# Forgetting ---------------------------------------------------------------------------------------


def test_what_is_forgotten_is_in_no_file(path: Path) -> None:
    """The file begins later and keeps its mode; programs that have it open cannot read the old bytes."""
    created = create_key(path, "acme", begin=date(2025, 11, 1))
    path.chmod(0o640)
    old, was = path.open("rb"), path.read_text()
    kept = forget_epochs(path, ms("2026-01-20"))
    with old:
        assert old.read() == bytes(len(was))
    assert Key.load(path).text() == kept.text() == path.read_text()
    assert kept.first_epoch == "2026-01"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert kept.at(ms("2026-02-02")) == created.at(ms("2026-02-02"))
    assert was[-65:] not in path.read_text()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_forgetting_goes_one_way(path: Path) -> None:
    """An earlier date moves nothing back, and a second time changes nothing."""
    create_key(path, "acme", begin=date(2026, 1, 1))
    kept = forget_epochs(path, ms("2026-03-01")).text()
    assert (
        forget_epochs(path, ms("2025-01-01")).text() == forget_epochs(path, ms("2026-03-31")).text() == kept
    )


@pytest.mark.parametrize("step", ["open", "fchown", "replace"])
def test_cut_short_the_old_key_is_still_there(path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the new file has its name the old one is whole; a rest of the attempt does not stop the next."""
    create_key(path, "acme", begin=date(2025, 1, 1))
    before = path.read_bytes()

    def fails(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path if step == "replace" else os, step, fails)
        with pytest.raises(OSError, match="No space"):
            forget_epochs(path, ms("2026-01-01"))
    assert path.read_bytes() == before
    assert forget_epochs(path, ms("2026-01-01")).first_epoch == "2026-01"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_link_stays_one(path: Path) -> None:
    """Where the name is a link, the file that it leads to is what changes."""
    create_key(path, "acme", begin=date(2025, 1, 1))
    link = path.with_name("link")
    link.symlink_to(path)
    forget_epochs(link, ms("2026-01-01"))
    assert link.is_symlink()
    assert Key.load(path).first_epoch == Key.load(link).first_epoch == "2026-01"
