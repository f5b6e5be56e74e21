"""A task whose worker is killed runs again: what it had let out before comes again, and must be the same."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from meteragent.spark import frame, worker
from tests.spark import homes, taps
from tests.spark.homes import Place


def interrupted(spark: SparkSession, place: Place) -> taps.Seen:
    """What passes when one of two tasks has its worker killed half way."""
    actual = frame.sanitise(spark.createDataFrame(homes.wide(place.policy)), place.policy)
    tap = place.folder / "tap"
    taps.tapped(actual, tap, taps.once(place.folder / "happened", taps.dies)).count()
    return taps.seen(tap)


def test_killed_worker(spark: SparkSession, tmp_path: Path) -> None:
    """Windows that left twice left with one noise, and all left."""
    place = Place.make(tmp_path)
    seen = interrupted(spark, place)
    assert set(seen.times) == taps.names(homes.plain(place))
    assert seen.again > 0
    assert seen.differing == 0


def test_killed_worker_control(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With new noise after a retry, windows leave with two noises, which the test above would detect."""
    keyed = worker.noise_adder
    monkeypatch.setattr(worker, "noise_adder", lambda *of: taps.anew(keyed(*of)))
    seen = interrupted(spark, Place.make(tmp_path))
    assert seen.differing == seen.again > 0
