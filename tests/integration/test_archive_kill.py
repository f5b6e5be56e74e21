"""kill -9 of `sanitise`: whatever the moment, again and it is as if nothing had happened."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.integration.archive_victim import Victims, small
from tests.support.archives import LONG, SPRING_MS, WIDE, Place, long_rows, save, wide_rows

POINTS = 9
"""Moments at which each form is killed, spread over all there are."""

KEYS: dict[str, dict[str, str]] = {"wide": {}, "long": {"window": "length = '2h'\nstep = '1h'"}}


@pytest.fixture(scope="module")
def victims() -> Victims:
    """Processes to be killed."""
    return Victims()


def prepared(folder: Path, form: str) -> tuple[Place, Path]:
    """A place where something was released before, and an input that has it again, and more."""
    place, schema = Place.make(folder), WIDE if form == "wide" else LONG
    day_ms = SPRING_MS - SPRING_MS % 86_400_000
    before, rows = (
        [wide_rows(1, 4), wide_rows(3, 20, seed=1)]
        if form == "wide"
        else [long_rows(1, 1, first_ms=day_ms), long_rows(3, 2, seed=1, first_ms=day_ms)]
    )
    place.sanitise(save(folder / "before.parquet", before, schema), "before.out", **KEYS[form])
    return place, save(folder / "in.parquet", rows, schema, group=100)


def leaves_nothing_undebited(place: Place) -> bool:
    """Whether all that is in the output is in the ledger."""
    rows = place.ledger()
    return all(
        any(one["meter"] == row["meter"] and one["start"] <= row["start"] < one["end"] for one in rows)
        for path in place.folder.glob("out.parquet/*.parquet")
        for row in pq.ParquetFile(path).read(["meter", "start"]).to_pylist()
    )


@pytest.mark.parametrize("form", ["wide", "long"])
def test_a_killed_run_goes_on(form: str, tmp_path: Path, victims: Victims) -> None:
    """Killed at any step, then again: output and ledger byte for byte those of a run that was not."""
    place, path = prepared(tmp_path / "reference", form)
    origin = tmp_path / "origin"
    shutil.copytree(place.folder, origin)
    ended, steps = victims.run(place.folder, path, KEYS[form])
    expected = place.files()
    assert (ended, len(list(place.folder.glob("out.parquet/part-*"))) >= 2) == (0, True)
    for kill_at in range(1, steps + 1, max(1, steps // POINTS)):
        folder = tmp_path / f"at{kill_at}"
        shutil.copytree(origin, folder)
        killed = Place(folder)
        assert victims.run(folder, folder / path.name, KEYS[form], kill_at) == (-9, kill_at)
        assert leaves_nothing_undebited(killed)
        with small():
            killed.sanitise(folder / path.name, **KEYS[form])
        assert killed.files() == expected


def test_killed_again_and_again(tmp_path: Path, victims: Victims) -> None:
    """Each time a little later, in the same place: it comes to an end, and each window is debited once."""
    place, path = prepared(tmp_path / "killed", "wide")
    reference, same = prepared(tmp_path / "reference", "wide")
    kill_at, ended = 3, -9
    while ended == -9:
        found, _ = victims.run(place.folder, path, {}, kill_at)
        ended, kill_at = found or 0, kill_at + 9
    assert victims.run(reference.folder, same, {})[0] == 0
    assert place.files() == reference.files()
    assert sum(row["windows"] for row in place.ledger()) == 60
