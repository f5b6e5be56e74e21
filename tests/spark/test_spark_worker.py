"""What Spark's workers do, without Spark: which key they take, what a reading touches, what they say."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import RecordBatch

from meteragent.archive.key import Key
from meteragent.archive.policy import Policy
from meteragent.domain.errors import KeyForgotten, KeyMissing, KeyRotated
from meteragent.spark import worker
from meteragent.spark.worker import KeyFingerprint, WorkerError, key_of, safely
from tests.support import archives
from tests.support.archives import BANDS, DAY_MS, ENERGY, KEY, LOCAL_DAY, SPRING_MS, TIME

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
