"""All processes of Spark are killed in the middle of a micro-batch; then it goes on from the checkpoint."""

import base64
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.cloudpickle import dumps
from pyspark.sql import SparkSession

from meteragent.spark import worker
from meteragent.spark.worker import KeyFingerprint, safely
from tests.spark import homes, job, taps
from tests.spark.homes import KEY, Place
from tests.spark.job import PLACES
from tests.spark.session import java
from tests.support.archives import SPRING_MS
from tests.support.not_run import ROOT

SECONDS_MAX = 400
EPOCH = KEY.at(SPRING_MS)
SECRETS = (bytes.fromhex(KEY.text().split('"')[-2]), EPOCH.tag, EPOCH.noise)
NEEDLES = tuple(
    shape for secret in SECRETS for shape in (secret, secret.hex().encode(), base64.b64encode(secret))
)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a job was killed when both its streams were half way through a task."""
    java()  # NOT RUN is said here: the job cannot
    folder = tmp_path_factory.mktemp("killed")
    for name in PLACES:
        place = Place.make(folder / name)
        homes.arrive_by_day(place.folder / "in", place.policy, homes.long(place.policy))
    command = [sys.executable, "-m", "tests.spark.job", str(folder)]
    with (folder / "said").open("wb") as said:
        item = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said, start_new_session=True)
    flags, end = [job.hung(Place.of(folder / name)) for name in PLACES], time.monotonic() + SECONDS_MAX
    while not all(flag.exists() for flag in flags) and item.poll() is None and time.monotonic() < end:
        with suppress(subprocess.TimeoutExpired):
            item.wait(0.2)
    environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in members(item.pid)]
    for pid in members(item.pid):
        with suppress(ProcessLookupError):  # it ended with a process that was killed before it
            os.kill(pid, signal.SIGKILL)
    item.wait()
    assert all(flag.exists() for flag in flags), (folder / "said").read_text()[-3000:]
    (folder / "environments").write_bytes(b"\n".join(environments))
    return folder


def members(session: int) -> list[int]:
    """The processes of a session, whatever group they are in."""
    actual = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            actual.append(int(stat.parent.name))
    return actual


def gone_on(spark: SparkSession, place: Place) -> taps.Seen:
    """What has passed a place's tap when its stream has gone on to the end."""
    with job.tapped(spark, place) as query:
        query.awaitTermination()
    return taps.seen(place.folder / "tap")


def test_separate_executors(killed: Path) -> None:
    """Executors in processes of their own release the same bytes as the archive's kernel alone."""
    released = homes.ordered(pq.read_table(killed / "batch"))
    assert released.equals(homes.plain(Place.of(killed / "keyed")))


def test_killed_tree(spark: SparkSession, killed: Path) -> None:
    """From the checkpoint nothing is lost, and what leaves again leaves with the same noise."""
    place = Place.of(killed / "keyed")
    before = taps.seen(place.folder / "tap")
    seen = gone_on(spark, place)
    assert 0 < len(before.times) < len(seen.times)
    assert set(seen.times) == taps.names(homes.plain(place))
    assert seen.again > 0
    assert seen.differing == 0


def test_killed_tree_control(spark: SparkSession, killed: Path) -> None:
    """With new noise after a kill, windows leave with two noises, which the test above would detect."""
    seen = gone_on(spark, Place.of(killed / "control"))
    assert seen.again > 0
    assert seen.differing > 0


def test_key_is_nowhere(killed: Path) -> None:
    """The key is in no checkpoint, event log, shuffle file, output or environment; in no closure either."""
    place = Place.of(killed / "keyed")
    closure = dumps(  # type: ignore[no-untyped-call]
        safely(worker.noise_adder(place.policy, KeyFingerprint.of(place.key)))
    )
    contents = [closure, *read(killed)]
    assert len(contents) > 100
    assert not [1 for content in contents for needle in NEEDLES if needle in content]
    assert any(EPOCH.id.encode() in content for content in contents)  # what may be there is found


def read(folder: Path) -> Iterator[bytes]:
    """All files below a folder but keys; of archives of files, each of them."""
    for path in folder.rglob("*"):
        if not path.is_file() or path.name == "archive.key":
            continue
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                yield from (archive.read(name) for name in archive.namelist())
        yield path.read_bytes()
