"""A task whose worker is killed runs again: what it had let out before comes again, and must be the same."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from meteragent.archive.policy import Policy
from meteragent.spark import frame
from tests.spark import homes, taps
from tests.spark.homes import Place

pytestmark = pytest.mark.spark


def interrupted(
    spark: SparkSession, place: Place, released: Callable[[DataFrame, Policy], DataFrame]
) -> taps.Seen:
    """What passes when each of two tasks has its worker killed half way."""
    windows = frame.windows(spark.createDataFrame(homes.wide(place.policy)), place.policy)
    tap = place.folder / "tap"
    taps.tapped(released(windows, place.policy), tap, taps.once(place.folder / "happened", taps.dies)).count()
    return taps.seen(tap)


def test_killed_worker(spark: SparkSession, tmp_path: Path) -> None:
    """Windows that left twice left with one noise, and all left."""
    place = Place.make(tmp_path)
    seen = interrupted(spark, place, frame.released)
    assert set(seen.times) == taps.names(homes.plain(place))
    assert seen.again > 0
    assert seen.differing == 0


def test_killed_worker_control(spark: SparkSession, tmp_path: Path) -> None:
    """With noise that is drawn anew they leave with two: the test above would see it."""
    seen = interrupted(spark, Place.make(tmp_path), taps.fresh)
    assert seen.differing == seen.again > 0
