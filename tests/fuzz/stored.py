"""A store that was damaged: it opens as it was, or is set aside, or is refused under a name.

The first byte of an input says what is done to a store that a stream has used, the rest what with.
"""

import json
import sqlite3
import tempfile
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from meteragent import config
from meteragent.agent import parts
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.commit import Commit, Snapshot, TimelineState
from meteragent.domain.counters import Counts
from meteragent.domain.errors import MeteragentError, StoreError
from meteragent.domain.reading import Message
from meteragent.privacy import SeededBits
from meteragent.store import Store, commands, ledger, outbox
from meteragent.store.file import open_file
from simulators.simtest.store.disk import settle
from tests.support.configurations import written
from tests.support.stores import altering, persist

START_MS = 1_795_176_000_000
STEP_MS = 900_000
NOW_MS = START_MS + 5 * STEP_MS
METERS = ("m1", "m2", "m3")
CONFIGURATIONS = (
    written(window="length = '1h'\nstep = '15min'"),
    written(source="kind = 'register'\nunit = 'Wh'", window="length = '1h'\nstep = '30min'"),
)
"""Streams of power and of a register; of both, windows are open when the store is damaged."""


class Used(NamedTuple):
    """A store in use: its files, what it says, and what it holds for the sink."""

    files: Mapping[str, bytes]
    known: Snapshot
    waiting: list[outbox.WaitingRow]


def _core(at: int, known: Snapshot) -> Pipeline:
    [stream] = config.parse(CONFIGURATIONS[at]).stream
    core = parts.core_of(stream, Fraction(0), None, b"secret")
    return Pipeline(core, known, Spending(), SeededBits(5), Counts())


def _run(core: Pipeline, from_ms: int) -> list[Commit]:
    """What a stream commits of an hour of readings, and of the time after it."""
    messages = [
        Message(f"meters/{meter}/power", b"%d.5" % (500 + at), False, from_ms + at * 300_000, None)
        for at in range(15)
        for meter in METERS
    ]
    return [core.feed([message], message.received_ms, message.received_ms).commit for message in messages]


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)


@cache
def used(at: int) -> Used:
    """The store of a stream that has run for an hour and a quarter."""
    with _folder() as folder:
        path = Path(folder) / "db"
        with Store.open(path, now_ms=START_MS, recovery_floor_ms=START_MS) as store:
            for commit in _run(_core(at, store.snapshot("main")), START_MS):
                persist(store, commit)
            known = store.snapshot("main")
            waiting = outbox.pending_rows(store.connection, "main", 2**62, 1000)
        files = {name: (Path(folder) / name).read_bytes() for name in ("db", "db.gen")}
    assert any(state.windows for state in known.states.values())
    return Used(files, known, waiting)


# What is done ------------------------------------------------------------------------------------


def _flipped(path: Path, how: bytes) -> None:
    """Bits of up to eight bytes, by place (three bytes) and mask."""
    content = bytearray(path.read_bytes())
    for start in range(0, min(len(how) - 3, 32), 4):
        content[int.from_bytes(how[start : start + 3]) % len(content)] ^= how[start + 3]
    path.write_bytes(content)


def _cut(path: Path, how: bytes) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int.from_bytes(how[:3]) % (len(content) + 1)])


def _grown(path: Path, how: bytes) -> None:
    path.write_bytes(path.read_bytes() + how)


def _sealed(body: bytes) -> bytes:
    """With the sum that the store itself would give it."""
    return body[:-1] + b',"crc":%d}' % crc32(body) if body.endswith(b"}") else body


def _put(query: str, change: Callable[[bytes], object]) -> Callable[[Path, bytes], None]:
    def put(path: Path, how: bytes) -> None:
        with altering(path) as connection:
            connection.execute(query, (change(how),))

    return put


def _forge(query: str, change: Callable[[bytes], object]) -> Callable[[Path, bytes], None]:
    """Change a value, and its checksum with it."""

    def forge(path: Path, how: bytes) -> None:
        with closing(open_file(path, "rw")) as connection:
            connection.execute(query, (change(how),))

    return forge


def _text(how: bytes) -> str:
    return how.decode(errors="replace")


def _anything(how: bytes) -> object:
    """A whole number, a fraction, a text, bytes or nothing."""
    kinds: list[Callable[[bytes], object]] = [
        lambda one: int.from_bytes(one[:8], signed=True),
        lambda one: len(one) / 7,
        _text,
        bytes,
        lambda _: None,
    ]
    return kinds[how[0] % len(kinds)](how[1:]) if how else None


def _beside(suffix: str) -> Callable[[Path, bytes], None]:
    def write(path: Path, how: bytes) -> None:
        Path(f"{path}{suffix}").write_bytes(how)

    return write


def _meta(path: Path, how: bytes) -> None:
    with altering(path) as connection:
        keys = [key for (key,) in connection.execute("SELECT key FROM meta ORDER BY key")]
        key = keys[(how[0] if how else 0) % len(keys)]
        connection.execute("UPDATE OR IGNORE meta SET value = ? WHERE key = ?", (_anything(how[1:]), key))


_STATE, _TERMS = "UPDATE state SET state = ?", "UPDATE OR IGNORE terms SET terms = ?"
DAMAGES: tuple[Callable[[Path, bytes], None], ...] = (
    _flipped,
    _cut,
    _grown,
    _put(_STATE, bytes),
    _put(_STATE, _sealed),
    _put(_TERMS, _text),
    _forge(_TERMS, _text),
    _beside(".gen"),
    _beside("-wal"),
    _meta,
    _put("UPDATE OR IGNORE mark SET end_ms = ?", _anything),
    _put("UPDATE OR IGNORE charge SET epsilon = ?", _anything),
    _put("UPDATE OR IGNORE outbox SET payload = ?", _anything),
    _put("UPDATE OR IGNORE state SET stream = ?", _anything),
    _put("UPDATE OR IGNORE descriptor SET id = ?", _anything),
)
RANDOM = (_flipped, _cut, _grown)
"""What no mind does: after these nothing may be released that is not as it was."""


# What becomes of it ------------------------------------------------------------------------------


def opened(data: bytes) -> str:
    """Damage a store and start on it."""
    first = data[0] if data else 0
    damage, at = DAMAGES[first % len(DAMAGES)], first // len(DAMAGES) % len(CONFIGURATIONS)
    before = used(at)
    with _folder() as folder:
        path = Path(folder) / "db"
        for name, content in before.files.items():
            (path.parent / name).write_bytes(content)
        settle(path.parent)
        try:
            damage(path, data[1:])
        except sqlite3.Error:
            return "not done"
        return _start(path, at, before, sound=damage in RANDOM)


def _start(path: Path, at: int, before: Used, *, sound: bool) -> str:
    try:
        store = Store.open(path, now_ms=NOW_MS, recovery_floor_ms=NOW_MS)
    except StoreError as error:
        refusal = error
    else:
        return _used(store, at, before, sound=sound)
    assert "canary" not in "".join(traceback.format_exception(refusal))
    return type(refusal).__name__


def _used(store: Store, at: int, before: Used, *, sound: bool) -> str:
    try:
        with store:
            if store.damage:
                assert not store.snapshot("main").marks
                return "set aside"
            return _went_on(store, at, before, sound=sound)
    except StoreError:
        return "StoreError at work"
    except MeteragentError:
        assert not sound  # somebody has written a state that contradicts itself, and its sum: nothing leaves
        return "stopped"


def _went_on(store: Store, at: int, before: Used, *, sound: bool) -> str:
    """The stream goes on as the store says."""
    known = store.snapshot("main")
    ledger.unknown_before_ms(store.connection)
    list(commands.day_charges(store.connection))
    outbox.latest_descriptors(store.connection, "main")
    outbox.hold_damaged(store)
    waiting = outbox.pending_rows(store.connection, "main", 2**62, 1000)
    if sound:
        _assert_alike(before, known, waiting)
    if _stands_far_off(known):
        return "far off"
    for commit in _run(_core(at, known), NOW_MS):
        persist(store, commit)
    return "opened as it was" if known == before.known and waiting == before.waiting else "opened"


def _assert_alike(before: Used, known: Snapshot, waiting: list[outbox.WaitingRow]) -> None:
    """States and terms are as they were, for all that are there; what leaves may have lost its name only."""
    for meter, state in known.states.items():
        assert state in before.known.states.values(), f"a state of {meter} is another"
    for id_, terms in known.terms.items():
        assert terms in before.known.terms.values(), f"terms {id_} are others"


def _stands_far_off(known: Snapshot) -> bool:
    """A time in a state or a mark days off: every window since would be opened, one by one."""
    times = [*known.marks.values(), *(_oldest_ms(state) for state in known.states.values())]
    return any(not START_MS - 10**8 < time_ms < NOW_MS + 10**8 for time_ms in times)


def _oldest_ms(state: TimelineState) -> int:
    return min(state.integrated_until_ms, state.next_ms)


def seeds() -> list[bytes]:
    """Inputs to begin with: what the store itself writes, and a little damage."""
    found = [bytes([0, 0, 40, 100, 1]), bytes([1, 0, 40, 0]), bytes([2]) + b"\0" * 64]
    for at in range(len(CONFIGURATIONS)):
        files = used(at).files
        with _folder() as folder:
            path = Path(folder) / "db"
            path.write_bytes(files["db"])
            with closing(sqlite3.connect(path)) as connection:
                [(state,), *_] = connection.execute("SELECT state FROM state").fetchall()
                [(terms,), *_] = connection.execute("SELECT terms FROM terms").fetchall()
        base = at * len(DAMAGES)
        plain = {name: json.loads(one) for name, one in (("s", state.rstrip(b"\0")), ("t", terms))}
        for one in plain.values():
            one.pop("crc", None)
        found += [
            bytes([base + 3]) + json.dumps(plain["s"]).encode(),
            bytes([base + 4]) + json.dumps(plain["s"]).encode(),
            bytes([base + 5]) + json.dumps(plain["t"]).encode(),
            bytes([base + 6]) + json.dumps(plain["t"]).encode(),
            bytes([base + 7]) + files["db.gen"],
        ]
        found += [bytes([base + kind, 0, 2]) + b"canary" for kind in range(8, len(DAMAGES))]
    return found
