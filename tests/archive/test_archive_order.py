"""The order in which an archive leaves: of the windows alone, not of the input's order or its values."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from meteragent.archive import run
from meteragent.archive.ledger import SCHEMA
from meteragent.archive.order import Order
from tests.support.archives import DAY_MS, LOCAL_DAY, LONG, SPRING_MS, Place, save, wide_rows

HOMES = 400
ALARM = 1e-6
"""The chance that an order by chance fails a test, and that one which keeps half of the input's passes it."""
Row = dict[str, Any]


def parts(place: Place) -> dict[str, bytes]:
    """Return the parts of the output by their numbers."""
    return {
        path.stem.split("-")[-1]: path.read_bytes() for path in (place.folder / "out.parquet").glob("part-*")
    }


def by_use(row: Row) -> float:
    """Sort by what a home uses."""
    return float(np.sum(row["value"] or 0))


def by_name(row: Row) -> str:
    """Sort by the meter's own name."""
    return str(row["meter"])


def shuffled(row: Row) -> float:
    """Sort by chance."""
    return random.Random(f"{row['meter']} {row['time']}").random()


@pytest.mark.parametrize("order", [by_use, by_name, shuffled])
@pytest.mark.parametrize("batch", [96, 500, 96 * 40])
def test_the_order_of_the_input_is_not_in_the_output(
    order: Callable[[Row], Any], batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in any order, in files and row groups of any size: every part is the same, byte for byte."""
    monkeypatch.setattr(run, "ROW_GROUP_VALUES", batch)
    monkeypatch.setattr(run, "PART_BATCHES", 3)
    rows, one, other = wide_rows(9, 8), Place.make(tmp_path / "one"), Place.make(tmp_path / "other")
    sink = f"pseudonym_key_file = '{one.folder}/archive.key'"
    one.sanitise(save(one.folder / "in.parquet", rows), sink=sink)
    (other.folder / "in").mkdir()
    rows.sort(key=order)
    for at in range(0, len(rows), 31):
        save(other.folder / "in" / f"{at:03}.parquet", rows[at : at + 31], group=7)
    other.sanitise(other.folder / "in", sink=sink)
    assert parts(one) == parts(other)
    assert sum(pq.read_metadata(path).num_rows for path in one.folder.glob("out.parquet/part-*")) == 72


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.9])
def test_values_do_not_move_rows(missing: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other values, and lists that are missing: the same rows at the same places of the same row groups."""
    monkeypatch.setattr(run, "ROW_GROUP_VALUES", 96 * 5)
    actual = []
    for seed in range(2):
        place, rng = Place.make(tmp_path / str(seed)), random.Random(seed)
        rows = wide_rows(7, 6, seed=seed)
        for row in rows if seed else []:
            row["value"] = None if rng.random() < missing else row["value"]
        place.sanitise(save(place.folder / "in.parquet", rows, group=5 + seed))
        paths = sorted(place.folder.glob("out.parquet/part-*"))
        footers = [pq.read_metadata(path) for path in paths]
        sizes = [footer.row_group(at).num_rows for footer in footers for at in range(footer.num_row_groups)]
        table = pq.read_table(place.folder / "out.parquet", columns=["meter", "start", "end"])
        actual.append((len(paths), sizes, table.to_pydict()))
    assert actual[0] == actual[1]


def uses(homes: int) -> tuple[list[str], list[float]]:
    """Return the serial numbers of homes, and the mean power of each."""
    rng = np.random.default_rng(1)
    names = [f"SN{number:08}" for number in rng.choice(10**8, homes, replace=False)]
    return names, np.round(rng.gamma(4, 90, homes), 1).tolist()


def leave(place: Place, names: list[str], watts: list[float], form: str) -> list[int]:
    """Release a day of homes in the order given; returns their places in that order, as they leave."""
    day_ms = SPRING_MS - SPRING_MS % DAY_MS
    if form == "wide":
        rows = [
            {"meter": m, "time": day_ms, "value": [round(w)] * 96} for m, w in zip(names, watts, strict=True)
        ]
        path = save(place.folder / "in.parquet", rows)
    else:
        rows = [
            {"meter": m, "time": day_ms + quarter * 900_000, "value": w}
            for m, w in zip(names, watts, strict=True)
            for quarter in range(96)
        ]
        path = save(place.folder / "in.parquet", rows, LONG)
    sink = f"pseudonym_key_file = '{place.folder}/archive.key'"
    policy = place.sanitise(path, sink=sink).policy
    labels = pq.read_table(place.folder / "out.parquet", columns=["meter"])["meter"].to_pylist()
    true = {policy.public_id(name): at for at, name in enumerate(names)}
    return [true[label] for label in dict.fromkeys(labels)]


@pytest.mark.parametrize("form", ["wide", "long"])
@pytest.mark.parametrize("order", ["use", "name"])
def test_an_order_of_the_input_tells_nothing(place: Place, form: str, order: str) -> None:
    """Sorted by consumption or by serial number, what leaves has that order no more than by chance.

    A rank correlation of 400 places beyond 4.9 standard deviations (0.245), or more than 9 of 400 in their
    place, are each rarer than 1e-6; an order that keeps half of the places passes as rarely.
    """
    names, watts = uses(HOMES)
    by = sorted(range(HOMES), key=watts.__getitem__ if order == "use" else names.__getitem__)
    got = leave(place, [names[at] for at in by], [watts[at] for at in by], form)
    assert sorted(got) == list(range(HOMES))
    z = stats.spearmanr(got, range(HOMES)).statistic * (HOMES - 1) ** 0.5
    assert abs(z) < stats.norm.isf(ALARM / 2)
    in_place = sum(at == place for place, at in enumerate(got))
    assert in_place <= stats.poisson.isf(ALARM, 1)
    assert stats.norm.cdf(stats.norm.isf(ALARM / 2) - (HOMES - 1) ** 0.5 / 2) < ALARM
    assert stats.binom.cdf(stats.poisson.isf(ALARM, 1), HOMES, 0.5) < ALARM


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a key."""
    return Place.make(tmp_path / "place")


def test_row_groups_are_of_the_policy(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """More windows than a row group has that begin together are spread over several by their names' hash."""
    monkeypatch.setattr(run, "ROW_GROUP_VALUES", 96 * 50)
    monkeypatch.setattr(run, "PART_BATCHES", 3)
    place.sanitise(save(place.folder / "in.parquet", wide_rows(220, 2)))
    paths = sorted(place.folder.glob("out.parquet/part-*"))
    footers = [pq.read_metadata(path) for path in paths]
    sizes = [footer.row_group(at).num_rows for footer in footers for at in range(footer.num_row_groups)]
    assert len(paths) == 3
    assert len(sizes) == 8
    assert [sum(sizes[:4]), sum(sizes[4:])] == [220, 220]
    assert 25 < min(sizes) <= max(sizes) < 90
    table = pq.read_table(place.folder / "out.parquet")
    assert table["start"].to_pylist() == sorted(table["start"].to_pylist())


def test_nothing_waits_when_it_is_done(place: Place) -> None:
    """What waits in the input's order beside the output is gone when the output is complete."""
    place.sanitise(save(place.folder / "in.parquet", wide_rows(3, 3)))
    assert sorted(path.name for path in place.folder.iterdir()) == [
        "archive.key",
        "archive.key.ledger",
        "in.parquet",
        "out.ledger.parquet",
        "out.parquet",
    ]


def test_local_days_are_in_order(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Days of 23 and 25 hours are counted as windows, however long they are."""
    monkeypatch.setattr(run, "ROW_GROUP_VALUES", 4)
    day = {"window": LOCAL_DAY}
    edges = place.policy(**day).edges(np.array([SPRING_MS - 3 * DAY_MS, SPRING_MS + 9 * DAY_MS]))
    assert isinstance(edges, np.ndarray)
    rows = [{"meter": f"m{home}", "time": int(at), "value": [home]} for home in range(3) for at in edges[:10]]
    place.sanitise(save(place.folder / "in.parquet", rows), **day)
    table = pq.read_table(place.folder / "out.parquet")
    assert list(zip(table["start"].to_pylist(), table["meter"].to_pylist(), strict=True)) == sorted(
        zip(table["start"].to_pylist(), table["meter"].to_pylist(), strict=True)
    )
    assert table.num_rows == 30


def test_gaps_between_windows_take_no_room(place: Place) -> None:
    """Windows years apart are in as many row groups as windows in a row."""
    ledger = [
        {"meter": name, "start": start * DAY_MS, "end": (start + days) * DAY_MS}
        for name, start, days in (("a", 0, 3), ("b", 1, 4), ("a", 9000, 5))
    ]
    rows = [{"windows": 1, "epsilon": "1", "unit": "W", "d": "", "key": ""} | row for row in ledger]
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    order = Order.of([batch], place.policy(), 4)
    assert order.groups == 3
