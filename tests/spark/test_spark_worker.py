"""What Spark's workers do, without Spark: which key they take, what a reading touches, what they say."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import RecordBatch

from meteragent.archive import layout
from meteragent.archive.key import Key
from meteragent.archive.policy import Policy
from meteragent.domain.errors import KeyForgotten, KeyMissing, KeyRotated
from meteragent.spark import worker
from meteragent.spark.worker import KeyFingerprint, WorkerError, key_of, safely
from tests.support import archives
from tests.support.archives import BANDS, DAY_MS, ENERGY, KEY, LOCAL_DAY, QUARTERS, SPRING_MS, TIME

OTHER = Key("test", "month", 0, bytes(32))
DAY_0_MS = 20_000 * DAY_MS
POLICIES = {
    "half hours, held for three": archives.policy(source="hold = '3h'", window="length = '30min'"),
    "local days": archives.policy(source="hold = '15min'", window=LOCAL_DAY),
    "months": archives.policy(source="hold = '1h'", window=BANDS, privacy="space = 'profile'"),
    "energies": archives.policy(source=ENERGY, window="length = '30min'"),
}


def save(path: Path, key: Key) -> Path:
    """A key in a new file."""
    new = path / "new"
    new.write_text(key.text())
    new.chmod(0o600)
    return new.replace(path / "key")


def test_key(tmp_path: Path) -> None:
    """A worker takes the driver's key only, and reads the file again when it has changed."""
    path, fingerprint = save(tmp_path, KEY), KeyFingerprint.of(KEY)
    assert key_of(path, fingerprint).at(SPRING_MS).id == KEY.at(SPRING_MS).id
    save(tmp_path, OTHER)
    with pytest.raises(KeyRotated, match=f"{OTHER.epoch(0).id}, but the driver's is {fingerprint.id}"):
        key_of(path, fingerprint)
    save(tmp_path, KEY.without(SPRING_MS))
    with pytest.raises(KeyForgotten):
        key_of(path, fingerprint)
    path.unlink()
    with pytest.raises(KeyMissing, match="no such file"):
        key_of(path, fingerprint)


def test_errors() -> None:
    """Our own errors are told, of others the type alone, and no exception hangs on to another."""

    def ours(batch: RecordBatch) -> RecordBatch:
        raise KeyForgotten("windows of 2026-01 have no key")

    def anything(batch: RecordBatch) -> RecordBatch:
        raise ValueError("31415926")

    for work, said in ((ours, "KeyForgotten: windows of 2026-01 have no key"), (anything, "ValueError")):
        with pytest.raises(WorkerError) as caught:
            list(safely(work)(iter([RecordBatch.from_pydict({})])))
        assert str(caught.value) == said
        assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize("name", POLICIES)
@given(times=st.lists(st.integers(SPRING_MS - 3 * DAY_MS, SPRING_MS + 3 * DAY_MS), min_size=1, max_size=8))
@settings(deadline=timedelta(seconds=5))
def test_touched(name: str, times: list[int]) -> None:
    """A reading is given to the windows that share time with its span, and to no other; first its own."""
    policy = POLICIES[name]
    readings = [pa.array(["m"] * len(times)), pa.array(times, TIME), pa.array(range(len(times)))]
    batch = pa.record_batch(readings, names=["meter", "time", "value"])
    actual = worker.reading_assigner(policy)(batch)
    got = list(zip(places(actual), ms(actual, "start"), ms(actual, "end"), strict=True))
    assert sorted(got) == sorted(
        (place, start, end) for place, time in enumerate(times) for start, end in sharing(time, policy)
    )
    for place, time in enumerate(times):
        own = next(start for at, start, _ in got if at == place)
        assert own == policy.starts(np.array([time - policy.lead_ms]))[0]


def places(batch: RecordBatch) -> list[int]:
    """The places of readings, which are their values."""
    return [value_u // 10**6 for value_u in batch.column("value_u").to_pylist()]


def sharing(time: int, policy: Policy) -> list[tuple[int, int]]:
    """The windows that share time with a reading's span, by going through them all."""
    begin = time - policy.lead_ms
    own = policy.starts(np.array([begin]))
    start = int(policy.starts(own - 2 * (policy.ends(own) - own))[0])
    actual = []
    while start < begin + policy.reach_ms:
        end = int(policy.ends(np.array([start]))[0])
        if end > begin:
            actual.append((start, end))
        start = end
    return actual


def ms(batch: RecordBatch, name: str) -> list[int]:
    """A column of times."""
    times: list[int] = batch.column(name).cast(TIME).cast(pa.int64()).to_pylist()
    return times


def read_counts(batch: RecordBatch) -> tuple[int, ...]:
    """The counts of a batch: numbers, gaps and clamped ones."""
    return tuple(sum(batch.column(name).to_pylist()) for name in worker.READ)


def test_rows_fit() -> None:
    """A row fits if it starts on the grid and its list is null or divides the window evenly."""
    policy = archives.policy(window=QUARTERS)
    values = [[1] * 96, [1] * 48, [1] * 192, [], None, [None] * 96, [1] * 96]
    starts = [DAY_0_MS + offset_ms for offset_ms in (0, 0, 0, 0, 0, DAY_MS, 1)]
    columns = [pa.array(["m"] * 7), pa.array(starts, TIME), pa.array(values, pa.list_(pa.int64()))]
    actual = worker.row_checker(policy)(pa.record_batch(columns, names=["meter", "time", "value"]))
    expected, _ = layout.row_fits_and_lengths(
        np.array(starts), pa.array(values, pa.list_(pa.int64())), policy
    )
    assert (
        actual.column("fits").to_pylist()
        == expected.tolist()
        == [True, False, True, False, True, True, False]
    )
    assert read_counts(actual) == (528, 96, 0)


def test_opened() -> None:
    """The windows that readings open are there once in a batch, with or without a value, which is counted."""
    policy = POLICIES["energies"]
    times = [DAY_0_MS + offset_ms for offset_ms in (1_800_000, 1_800_001, 3_600_000, 3_600_000)]
    columns = [pa.array(["a", "a", "a", "b"]), pa.array(times, TIME), pa.array([1e9, None, 5.0, 6.0])]
    actual = worker.window_opener(policy)(pa.record_batch(columns, names=["meter", "time", "value"]))
    assert read_counts(actual) == (4, 1, 1)
    rows = zip(actual.column("meter").to_pylist(), ms(actual, "start"), ms(actual, "end"), strict=True)
    offsets_ms = [(meter, start_ms - DAY_0_MS, end_ms - DAY_0_MS) for meter, start_ms, end_ms in rows]
    assert sorted(offsets_ms) == [
        ("a", 0, 1_800_000),
        ("a", 1_800_000, 3_600_000),
        ("b", 1_800_000, 3_600_000),
    ]
