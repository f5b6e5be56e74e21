"""`sanitise --dry-run`: it says what a run would do, and does nothing."""

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meteragent.archive import run
from meteragent.archive.preview import Preview, preview
from meteragent.cli import main
from meteragent.domain.errors import ArchiveError, ArchiveInUse, ConfigError, KeyMissing, MeteragentError
from meteragent.domain.grid import iso_time
from tests.support.archives import (
    DAY_MS,
    ENERGY,
    LONG,
    QUARTERS,
    SPRING_MS,
    Place,
    long_rows,
    make_incomplete,
    save,
    silent,
    text,
    wide_rows,
)

DAY = SPRING_MS - SPRING_MS % DAY_MS
HALF_HOUR_ENERGY = ENERGY.replace("15min", "30min")
HALF_HOURS = "length = '30min'"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a key."""
    return Place.make(tmp_path / "place")


def listing(place: Place) -> dict[str, tuple[int, int, bytes]]:
    """All there is below a folder, hidden files too: modes, times of change, contents."""
    actual = {}
    for path in (place.folder, *place.folder.rglob("*")):
        item = path.stat()
        actual[str(path)] = (item.st_mode, item.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
    return actual


def looked(place: Place, path: Path, out: str = "out.parquet", **keys: str) -> Preview:
    """What a dry run finds; it changes nothing."""
    before = listing(place)
    try:
        return preview(place.policy(**keys), path, place.folder / out, silent)
    finally:
        assert listing(place) == before


def command(place: Place, *more: str, **keys: str) -> int:
    """The command on a place's input."""
    (place.folder / "archive.toml").write_text(text(place.folder / "archive.key", **keys))
    paths = (str(place.folder / name) for name in ("in.parquet", "out.parquet"))
    return main(["sanitise", *paths, "--config", str(place.folder / "archive.toml"), *more])


@pytest.mark.parametrize("form", ["wide", "long"])
@pytest.mark.parametrize("cut", ["one job", "several jobs"])
def test_it_finds_what_the_run_then_does(
    place: Place, form: str, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same id, windows, refusals, keys, descriptors and numbers; nothing is on disk before the run."""
    if cut == "several jobs":
        monkeypatch.setattr(run, "JOB_ROWS", 100)
        monkeypatch.setattr(run, "JOB_WINDOWS", 3)
    rows = wide_rows(3, 4) if form == "wide" else long_rows(3, 2)
    if form == "wide":
        rows[1]["value"][:3] = [None, -5, 10**6]
    path = save(place.folder / "in.parquet", rows, *([] if form == "wide" else [LONG]), group=7)
    keys = {"window": QUARTERS if form == "wide" else f"{HALF_HOURS}\nrange = [0, 1500]"}
    actual = looked(place, path, **keys)
    result = place.sanitise(path, **keys)
    assert actual.admission == result.admission
    assert actual.counts.numbers == (12 * 96 if form == "wide" else len(rows))
    assert actual.counts == result.counts
    assert actual.admission.released_windows == (12 if form == "wide" else len(place.released()))
    assert actual.counts.gap > 0 < actual.counts.clamped
    assert not actual.is_debited
    assert not actual.is_complete


def test_afterwards_the_run_is_done_and_all_else_refused(place: Place) -> None:
    """The same again is complete; into another place it is in the ledger; under another promise refused."""
    path = save(place.folder / "in.parquet", wide_rows(2, 3))
    result = place.sanitise(path)
    second = looked(place, path)
    assert (second.admission, second.counts, second.is_debited, second.is_complete) == (
        result.admission,
        result.counts,
        True,
        True,
    )
    other = looked(place, path, "other.parquet")
    assert (other.is_debited, other.is_complete) == (True, False)
    level = looked(place, path, "other.parquet", privacy="level = 0.5")
    assert (level.admission.released_windows, level.admission.refused_windows, level.is_debited) == (
        0,
        6,
        False,
    )
    more = save(place.folder / "more.parquet", wide_rows(2, 5, seed=1))
    part = looked(place, more, "other.parquet")
    assert (part.admission.released_windows, part.admission.refused_windows) == (4, 6)
    assert part.admission == place.sanitise(more, "other.parquet").admission


def test_what_a_run_has_begun_is_left_alone(place: Place) -> None:
    """A half-made ledger, and an output without its end, stay as they are."""
    path = save(place.folder / "in.parquet", wide_rows(2, 3))
    result = place.sanitise(path)
    (result.ledger / ".run=1").mkdir()
    make_incomplete(result.out)
    actual = looked(place, path)
    assert (actual.is_debited, actual.is_complete) == (True, False)


def test_a_run_that_holds_the_ledger_is_not_disturbed(place: Place) -> None:
    """While one has it, it is refused; two that only look do not keep each other out, but a run."""
    path = save(place.folder / "in.parquet", wide_rows(1, 1))
    ledger = place.sanitise(path).ledger
    with (ledger / ".lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ArchiveInUse, match="another run"):
            looked(place, path)
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert looked(place, path).is_complete
        with pytest.raises(ArchiveInUse):
            place.sanitise(path)


def misfit(place: Place) -> None:
    """A row that is off the grid."""
    rows = wide_rows(1, 2)
    rows[1]["time"] += 1
    save(place.folder / "in.parquet", rows)


def no_key(place: Place) -> None:
    """Nothing to make noise from."""
    (place.folder / "archive.key").unlink()


def another(place: Place) -> None:
    """Something else where the output should be."""
    (place.folder / "out.parquet").mkdir()
    (place.folder / "out.parquet" / "letter").write_text("")


def no_ledger(place: Place) -> None:
    """A ledger that is a file."""
    shutil.rmtree(place.folder / "archive.key.ledger")
    (place.folder / "archive.key.ledger").write_text("")


def test_an_output_around_the_input_is_refused(place: Place) -> None:
    """As a run's."""
    path = save(place.folder / "in.parquet", wide_rows(1, 1))
    with pytest.raises(ArchiveError, match="lies inside the input or contains it"):
        looked(place, path, "in.parquet/out")


@pytest.mark.parametrize(
    ("harm", "error", "said"),
    [
        (
            misfit,
            ArchiveError,
            "rows that are not on the grid of window.length, or have the wrong number of values: 1 of 2 ",
        ),
        (no_key, KeyMissing, "archive.key"),
        (another, ArchiveError, "is not an output"),
        (no_ledger, ArchiveError, "not a directory"),
    ],
)
def test_what_a_run_refuses_is_refused(
    place: Place, harm: Callable[[Place], None], error: type[MeteragentError], said: str
) -> None:
    """Before anything is debited, with the run's own error."""
    path = save(place.folder / "in.parquet", wide_rows(1, 2))
    harm(place)
    with pytest.raises(error, match=said):
        looked(place, path)


def test_it_is_told(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """What would be released, the promise and its error; that nothing was written; what a run would do."""
    rows = wide_rows(2, 3)
    rows[0]["value"][:2] = [None, 10**6]
    save(place.folder / "in.parquet", rows)
    assert command(place, "--dry-run", window=QUARTERS) == 0
    assert {path.name for path in place.folder.iterdir()} == {
        "in.parquet",
        "archive.key",
        "archive.key.ledger",
        "archive.toml",
    }
    said = capsys.readouterr()
    for each in (
        "6 windows of 96 numbers would be released",
        "0 windows that overlap",
        "576 read: 1 missing, 1 clamped",
        "96 in each row, for 900 s each",
        "1/440 per W in each of the windows of 1 day: level 1",
        "24,768 W in each number",
        "archive.key.ledger",
    ):
        assert each in said.out
    assert said.out.endswith("nothing was written: the ledger would get 6 windows of 96 numbers\n")
    assert said.err == ""
    assert command(place, window=QUARTERS) == 0
    assert command(place, "--dry-run", window=QUARTERS) == 0
    assert capsys.readouterr().out.endswith("nothing was written: this run is already complete\n")
    (place.folder / "out.parquet").rename(place.folder / "kept.parquet")
    assert command(place, "--dry-run", window=QUARTERS) == 0
    assert "the ledger already has this run" in capsys.readouterr().out
    assert command(place, "--dry-run", window=QUARTERS, privacy="level = 0.5") == 0
    refused = capsys.readouterr().out
    assert "nothing would be released: every window overlaps" in refused
    assert "96 in each row, for 900 s each" in refused
    assert "\n  keys" not in refused


@pytest.mark.parametrize("hidden", [True, False])
def test_own_names_that_leave_are_told(
    place: Place, capsys: pytest.CaptureFixture[str], *, hidden: bool
) -> None:
    """Without a pseudonym key the preview and the run warn that column `meter` has the meters' own names."""
    save(place.folder / "in.parquet", wide_rows(2, 3))
    keys = {"sink": f"pseudonym_key_file = '{place.folder}/archive.key'"} if hidden else {}
    for options in (["--dry-run"], []):
        assert command(place, *options, window=QUARTERS, **keys) == 0
        report = capsys.readouterr().out
        assert ("Warning:       column meter has the meters' own names" in report) == (not hidden)
        assert ("set sink.pseudonym_key_file" in report) == (not hidden)
    names = {row["meter"] for row in place.released().to_pylist()}
    assert (names == {"m0", "m1"}) == (not hidden)


def test_a_run_that_releases_nothing_says_so(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """In its last line; one whose output is there says that it is complete, and counts nothing."""
    save(place.folder / "in.parquet", wide_rows(2, 3))
    assert command(place, window=QUARTERS) == 0
    assert "nothing was released" not in capsys.readouterr().out
    assert command(place, window=QUARTERS) == 0
    second = capsys.readouterr().out
    assert "the output was complete, with 1 part\n" in second
    assert " read:" not in second
    (place.folder / "out.parquet").rename(place.folder / "kept.parquet")
    assert command(place, window=QUARTERS, privacy="level = 0.5") == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "nothing was released: every window overlaps a window that was released before"


@pytest.mark.parametrize(("value", "said"), [(0.4, "100% of the numbers are tiny"), (400.0, "")])
def test_mistakes_of_unit_and_hold_are_seen(
    place: Place, capsys: pytest.CaptureFixture[str], value: float, said: str
) -> None:
    """Kilowatts that are taken for W, half hours that are taken for quarters: before anything is debited."""
    times = range(DAY, DAY + DAY_MS, 1_800_000)
    save(place.folder / "in.parquet", [{"meter": "m", "time": at, "value": value} for at in times], LONG)
    hold = "kind = 'power'\nunit = 'W'\nhold = '15min'"
    assert command(place, "--dry-run", window=HALF_HOURS, source=hold) == 0
    out = capsys.readouterr().out
    assert "readings cover at most 50% of the time" in out
    assert said in out
    assert ("are they in W?" in out) == bool(said)


LONG_HALF_HOURS = {"window": HALF_HOURS, "source": "unit = 'W'\nhold = '30min'"}
DAY_ROWS: list[dict[str, Any]] = [
    {"meter": "m", "time": DAY + at * 1_800_000, "value": 400.0} for at in range(48)
]
KWH = [{**row, "value": 0.4} for row in DAY_ROWS]


@pytest.mark.parametrize(
    ("rows", "keys", "finding"),
    [
        (KWH, LONG_HALF_HOURS, "are tiny"),
        (DAY_ROWS, LONG_HALF_HOURS | {"source": "unit = 'W'\nhold = '15min'"}, "cover at most 50%"),
        ([*DAY_ROWS, {**DAY_ROWS[7], "value": 900.0}], LONG_HALF_HOURS, "next to a smaller one"),
        ([*DAY_ROWS, *({**row, "meter": "M"} for row in DAY_ROWS)], LONG_HALF_HOURS, "differ from another"),
        ([{**row, "value": 10**8} for row in DAY_ROWS], LONG_HALF_HOURS, "are clamped to it"),
        (
            [{**row, "time": row["time"] - half} for row in DAY_ROWS for half in (0, 900_000)],
            {
                "window": HALF_HOURS,
                "source": HALF_HOUR_ENERGY,
            },
            "overlaps are dropped",
        ),
    ],
)
def test_a_run_with_checks_is_refused_until_they_are_accepted(
    place: Place,
    capsys: pytest.CaptureFixture[str],
    rows: list[dict[str, Any]],
    keys: dict[str, str],
    finding: str,
) -> None:
    """Each check of a preview refuses the run: exit 78, nothing is charged or written; an option accepts."""
    save(place.folder / "in.parquet", rows, LONG)
    assert command(place, "--dry-run", "--json", **keys) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [finding in text_ for text_ in facts["checks"]].count(True) == 1
    assert "--accept-checks" in facts["consequence"]
    assert command(place, "--json", **keys) == 78
    refusal = capsys.readouterr()
    assert refusal.out == ""
    assert all(f"Check: {text_}" in refusal.err for text_ in facts["checks"])
    assert "--accept-checks" in refusal.err
    assert place.ledger() == []
    assert not list(place.folder.glob("out*"))
    assert command(place, "--accept-checks", "--json", **keys) == 0
    assert json.loads(capsys.readouterr().out)["checks"] == facts["checks"]
    assert command(place, **keys) == 0  # what was charged is resumed


@pytest.mark.parametrize("form", ["wide", "long"])
def test_an_input_in_another_unit_is_refused(
    place: Place, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """If most numbers are outside the range, nothing is charged or written, unless with --accept-checks."""
    watts = [300.0 + at for at in range(95)] + [5.0]  # one number is in the range of kW
    rows = [{"meter": "m", "time": DAY + at * 900_000, "value": watt} for at, watt in enumerate(watts)]
    if form == "wide":
        save(place.folder / "in.parquet", [{"meter": "m", "time": DAY, "value": [int(w) for w in watts]}])
    else:
        save(place.folder / "in.parquet", rows, LONG)
    source = "kind = 'power'\nunit = 'kW'\nhold = '15min'"
    keys = {"window": QUARTERS, "source": source, "privacy": "level = 1\nradius = 1"}
    check = "98% of the numbers are outside window.range and are clamped to it: are they in kW?"
    assert command(place, "--dry-run", **keys) == 0
    said = capsys.readouterr().out
    assert check in said
    assert "the run would be refused" in said.splitlines()[-1]
    before = {path.name for path in place.folder.iterdir()}
    assert command(place, **keys) == 78
    refusal = capsys.readouterr()
    assert check in refusal.err
    assert "--accept-checks" in refusal.err
    assert refusal.out == ""
    assert {path.name for path in place.folder.iterdir()} - before <= {"archive.key.ledger"}
    assert place.ledger() == []
    assert command(place, "--dry-run", "--accept-checks", **keys) == 0
    assert "the ledger would get 1 window of" in capsys.readouterr().out
    assert command(place, "--accept-checks", **keys) == 0
    assert check in capsys.readouterr().out
    assert command(place, **keys) == 0  # what was charged is resumed


def test_half_outside_the_range_is_released(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Half of the numbers is not most of them."""
    rows = [{"meter": "m", "time": DAY, "value": [10, 10**6] * 48}]
    save(place.folder / "in.parquet", rows)
    assert command(place, window=QUARTERS) == 0
    assert "Check" not in capsys.readouterr().out


def test_gaps_are_not_small(place: Place) -> None:
    """Of what is missing nobody knows the unit."""
    rows = [
        {"meter": "m", "time": DAY + at * 60_000, "value": None if at % 2 else 9.0 * at} for at in range(9)
    ]
    actual = looked(place, save(place.folder / "in.parquet", rows, LONG), window=HALF_HOURS)
    assert (actual.counts.numbers, actual.counts.gap, actual.counts.small) == (9, 4, 2)


def test_readings_of_refused_windows_cover_them(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """What the second run has of the first counts on both sides."""
    ends = range(DAY + 1_800_000, DAY + 2 * DAY_MS + 1, 1_800_000)
    rows = [{"meter": "m", "time": at, "value": 400.0} for at in ends]
    keys = {
        "window": HALF_HOURS,
        "source": HALF_HOUR_ENERGY,
    }
    place.sanitise(save(place.folder / "in.parquet", rows[:48], LONG), "first.parquet", **keys)
    save(place.folder / "in.parquet", rows, LONG)
    for more in (["--dry-run"], []):
        assert command(place, *more, **keys) == 0
        said = capsys.readouterr().out
        assert "48 windows that overlap" in said
        assert "Check" not in said


@pytest.mark.parametrize("rows_per_job", [1 << 21, 40])
def test_equal_times_are_told_before_and_after(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, rows_per_job: int
) -> None:
    """Local times taken for UTC repeat an hour in autumn: counted, and named if the values differ.

    Preview, run, and a run that goes on after a part was lost count the same.
    """
    monkeypatch.setattr(run, "JOB_ROWS", rows_per_job)
    half_hours = [DAY + at * 1_800_000 for at in range(96)]
    rows = [{"meter": name, "time": at, "value": 400.0} for at in half_hours for name in ("a", "b")]
    hour = [{"meter": "b", "time": half_hours[50 + at], "value": (900.0, 400.0)[at]} for at in range(2)]
    lower = {"meter": "a", "time": half_hours[60], "value": 300.0}
    gap = {"meter": "a", "time": half_hours[70], "value": None}
    path = save(place.folder / "in.parquet", [*rows, *hour, lower, gap], LONG, group=16)
    keys = {"source": "unit = 'W'\nhold = '30min'", "window": HALF_HOURS}
    line = "196 read: 1 missing, 0 clamped, 3 at the same time as another (2 with another value)"
    first = f"first of 'a' at {iso_time(half_hours[60])}"
    place_of_first = f"next to a smaller one of the meter at the same time, {first}"
    assert command(place, "--dry-run", **keys) == 0
    preview_lines = capsys.readouterr().out.splitlines()
    checks = [row for row in preview_lines if "Check:" in row]
    assert line in "\n".join(preview_lines)
    assert [row.split(":", 1)[1].strip() for row in checks] == [
        f"2 readings {place_of_first}, left out: are times local, or do homes share a name?"
    ]
    for _ in range(2):
        assert command(place, "--accept-checks", **keys) == 0
        run_lines = capsys.readouterr().out.splitlines()
        assert line in "\n".join(run_lines)
        assert [row for row in run_lines if "Check:" in row] == checks
        make_incomplete(place.folder / "out.parquet")
        next((place.folder / "out.parquet").glob("part-*.parquet")).unlink()
    assert command(place, "--json", **keys) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["numbers"] == {"read": 196, "missing": 1, "clamped": 0, "repeated": 3, "conflicting": 2}
    assert facts["checks"][0] == checks[0].split(":", 1)[1].strip()
    assert looked(place, path, **keys).counts.repeated == 3


def test_each_engine_has_its_preview(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Spark, the preview is that of Spark."""
    asked = []

    def preview_on_spark(policy: Any, path: Any, out: Path | str, show: Any) -> Any:
        """Answer as Spark would."""
        asked.append(out)
        return preview(policy, path, Path(out), show)

    monkeypatch.setattr("meteragent.spark.preview", preview_on_spark)
    save(place.folder / "in.parquet", wide_rows(1, 1))
    assert command(place, "--dry-run", "--engine", "spark", window=QUARTERS) == 0
    assert "would be released" in capsys.readouterr().out
    assert len(asked) == 1


def test_stopped_it_says_that_nothing_was_written(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 130; an interrupted look has nothing to go on with."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("meteragent.archive.preview.preview", interrupted)
    assert command(place, "--dry-run", window=QUARTERS) == 130
    assert capsys.readouterr().err == "meteragent: stopped: nothing was written\n"


def test_a_configuration_without_a_key_is_refused(place: Place) -> None:
    """As with a run."""
    with pytest.raises(ConfigError, match="three different columns"):
        looked(place, place.folder / "in.parquet", archive="value = 'time'")
