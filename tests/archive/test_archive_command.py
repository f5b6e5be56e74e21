"""The `sanitise` command: what it takes, what it says, how it ends; and what reads its output."""

import importlib.util
import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from meteragent.archive.policy import Policy
from meteragent.cli import main
from meteragent.config import parse
from meteragent.config.model import Archive
from meteragent.consume import Estimate, read_archive
from meteragent.domain.errors import ConfigError, RecordError
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
    text,
    wide_rows,
)
from tests.support.configurations import refused, streams, written
from tests.support.not_run import ROOT

PACKAGES = ("pyarrow", "cryptography", "tqdm", "pyspark")
DAY = SPRING_MS - SPRING_MS % DAY_MS


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a key and a configuration."""
    made = Place.make(tmp_path / "place")
    (made.folder / "archive.toml").write_text(text(made.folder / "archive.key", window=QUARTERS))
    return made


def sanitise(place: Place, *more: str, out: str = "out.parquet", settings: str = "archive.toml") -> int:
    """The command on a place's input."""
    paths = (str(place.folder / name) for name in ("in.parquet", out))
    return main(["sanitise", *paths, "--config", str(place.folder / settings), *more])


def printed(place: Place, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """Return what the command prints on a place's input; it ends with 0."""
    assert sanitise(place, *more) == 0
    return capsys.readouterr().out


def test_an_archive_is_released(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0, and what was done: windows, refusals, numbers, the promise, the error, where things are."""
    rows = wide_rows(2, 3)
    rows[0]["value"][:2] = [None, 10**6]
    save(place.folder / "in.parquet", rows)
    assert sanitise(place) == 0
    said = capsys.readouterr()
    for text_ in (
        "6 windows of 96 numbers released",
        "0 windows that overlap",
        "576 read: 1 missing, 1 clamped",
        "1/440 per W in each of the windows of 1 day: level 1",
        "24,768 W in each number (one standard deviation)",
        "archive.key.ledger",
        "out.ledger.parquet",
    ):
        assert text_ in said.out
    assert said.err == ""
    assert sanitise(place) == 0
    assert "the output was complete, with 1 part\n" in capsys.readouterr().out
    assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0  # no core holds readings or keys


def test_the_summary_is_one_json_object(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json a preview, a run and its repetition print the same facts for a program."""
    rows = wide_rows(2, 3)
    rows[0]["value"][:2] = [None, 10**6]
    save(place.folder / "in.parquet", rows)
    preview, result, repeated = (
        json.loads(printed(place, capsys, "--json", *more)) for more in (["--dry-run"], [], [])
    )
    key = place.folder / "archive.key"
    common = {
        "output": str(place.folder / "out.parquet"),
        "run": result["run"],
        "released_windows": 6,
        "refused_windows": 0,
        "numbers_per_window": 96,
        "numbers": {"read": 576, "missing": 1, "clamped": 1, "repeated": 0, "conflicting": 0},
        "row": {"numbers": 96, "seconds": 900},
        "table": None,
        "epsilon": "1/440",
        "level": "1",
        "sd": pytest.approx(24_768, abs=0.5),
        "unit": "W",
        "keys": result["keys"],
        "ledger": f"{key}.ledger",
        "checks": [],
        "warnings": ["column meter has the meters' own names: set sink.pseudonym_key_file for pseudonyms"],
    }
    outcome = {
        "complete": False,
        "in_ledger": False,
        "consequence": "the ledger would get 6 windows of 96 numbers",
    }
    parts = {"new_parts": 1, "existing_parts": 0, "run_ledger": str(place.folder / "out.ledger.parquet")}
    assert preview == common | {"dry_run": True} | outcome
    assert result == common | {"dry_run": False} | parts
    assert len(result["keys"]) == 1
    uncounted = {"numbers": None, "row": None, "new_parts": 0, "existing_parts": 1}
    assert repeated == result | uncounted


def test_checks_are_apart_from_warnings_in_json(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """What the summary asks to check is in `checks`, in the same words, and nothing else is."""
    rows = [{"meter": "m", "time": DAY + hour * 3_600_000, "value": 0.001} for hour in range(24)]
    save(place.folder / "in.parquet", rows, LONG)
    settings = text(
        place.folder / "archive.key", source="unit = 'W'\nhold = '15min'", window="length = '30min'"
    )
    (place.folder / "archive.toml").write_text(settings)
    facts = json.loads(printed(place, capsys, "--dry-run", "--json"))
    summary = printed(place, capsys, "--dry-run").splitlines()
    assert [line.split(":", 1)[1].strip() for line in summary if "Check:" in line] == facts["checks"]
    assert (len(facts["checks"]), len(facts["warnings"])) == (2, 1)


@pytest.mark.parametrize(
    ("source", "every_min", "said"),
    [
        (
            "kind = 'power'\nunit = 'W'\nhold = '15min'",
            30,
            "cover at most 50% of the time with source.hold = '15min'",
        ),
        ("kind = 'power'\nunit = 'W'\nhold = '30min'", 30, ""),
        ("kind = 'power'\nunit = 'W'\nhold = '1h'", 30, ""),
        (ENERGY, 30, "cover at most 50% of the time with source.interval = '15min'"),
        (ENERGY, 15, ""),
        (ENERGY.replace("15", "30"), 15, "cover 200% of the time with source.interval = '30min'"),
    ],
)
def test_time_that_readings_do_not_cover_is_told(
    place: Place, capsys: pytest.CaptureFixture[str], source: str, every_min: int, said: str
) -> None:
    """What a reading covers, stated as it is not, makes numbers too small: whoever releases is told."""
    times = range(DAY, DAY + DAY_MS, every_min * 60_000)
    rows = [{"meter": "m", "time": time_ms, "value": 500.0} for time_ms in times]
    save(place.folder / "in.parquet", rows, LONG)
    settings = text(place.folder / "archive.key", source=source, window="length = '30min'")
    (place.folder / "archive.toml").write_text(settings)
    assert sanitise(place, *(["--accept-checks"] if said else [])) == 0
    out = capsys.readouterr().out
    assert said in out
    assert ("Check:" in out) == bool(said)


@pytest.mark.parametrize(
    ("numbers", "said"), [(96, "96 in each row, for 900 s each"), (288, "288 in each row, for 300 s each")]
)
def test_what_a_rows_numbers_were_taken_for_is_told(
    place: Place, capsys: pytest.CaptureFixture[str], numbers: int, said: str
) -> None:
    """A day's row under windows of half an hour, or minutes taken for hours, is seen."""
    save(place.folder / "in.parquet", wide_rows(2, 2, n=numbers))
    assert sanitise(place) == 0
    assert said in capsys.readouterr().out


def test_an_interrupted_run_says_that_it_goes_on(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 130 and a sentence, no traceback; the same command goes on."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    save(place.folder / "in.parquet", wide_rows(1, 1))
    with monkeypatch.context() as patch:
        patch.setattr("meteragent.archive.run.sanitise_archive", interrupted)
        assert sanitise(place) == 130
    assert capsys.readouterr().err == "meteragent: stopped: the same command resumes the run\n"
    assert sanitise(place) == 0


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"source": "kind = 'register'\nunit = 'Wh'"}, "source.kind"),
        ({"source": "topic = 'm/{meter}/{phase}'\nphases = ['a', 'b']"}, "source.phases"),
        ({"archive": "value = 'time'"}, "archive.value"),
        ({"window": f"{QUARTERS}\nrange = [0, 1e25]"}, "window.range"),
    ],
)
def test_what_archives_cannot_have_is_refused(keys: dict[str, str], key: str) -> None:
    """With the key and what would do; nothing is guessed."""
    with pytest.raises(ConfigError) as caught:
        Policy.of(parse(text(Path("k"), **{"window": QUARTERS} | keys)))
    assert caught.value.key == key


def test_an_archive_has_one_stream_and_a_key() -> None:
    """A file without [archive], or with several streams, is not the configuration of an archive."""
    assert refused(lambda: Policy.of(parse(written()))).key == "archive.key_file"
    two = streams(("a", "m/{meter}", "'x/{meter}'"), ("b", "n/{meter}", "'y/{meter}'"))
    assert refused(lambda: Policy.of(parse(f"{two}\n[archive]\nkey_file = 'k'\n"))).key == "stream"


def test_the_agent_does_without(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """`check` reads a file with [archive] as one without, but that readings have times."""
    for more in ([], ["--statement"]):
        assert main(["check", str(place.folder / "archive.toml"), *more]) == 0
        said = capsys.readouterr().out
        assert "440" in said
        assert "no timestamps" not in said
    (place.folder / "plain.toml").write_text(written(window=QUARTERS))
    assert main(["check", str(place.folder / "plain.toml")]) == 0
    assert "no timestamps" in capsys.readouterr().out


def test_a_bad_configuration_ends_with_78(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """As with every command, and a missing key; an archive that cannot be released ends with 1 and a line."""
    (place.folder / "plain.toml").write_text(written())
    assert sanitise(place, settings="plain.toml") == 78
    assert "archive.key_file: found nothing" in capsys.readouterr().err
    assert sanitise(place) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"meteragent: {place.folder}/in.parquet: no such file or directory"
    ]
    (place.folder / "archive.key").unlink()
    assert sanitise(place) == 78
    assert "archive.key" in capsys.readouterr().err


def test_a_missing_extra_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without pyarrow or pyspark: which extra to install."""
    for module, engine, extra in (("pyarrow", "local", "archive"), ("pyspark", "spark", "spark")):
        actual = importlib.util.find_spec
        with monkeypatch.context() as patch:
            patch.setattr(
                importlib.util, "find_spec", lambda name, m=module, f=actual: None if name == m else f(name)
            )
            assert sanitise(place, "--engine", engine) == 1
        assert f"needs {module}: pip install '.[{extra}]' in a clone" in capsys.readouterr().err


def test_the_agents_path_loads_no_arrow() -> None:
    """Neither the agent nor its commands load pyarrow, cryptography or tqdm."""
    code = (
        "import sys, meteragent.agent.service, meteragent.cli, meteragent.consume, meteragent.cli.sanitise\n"
        "print([m for m in ('pyarrow', 'cryptography', 'tqdm', 'pyspark', 'pandas') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def within(one: Estimate, truth: float) -> bool:
    """Whether an estimate is as near as its own error bars say, generously."""
    return abs(one.value - truth) < 5 * one.sd


@pytest.mark.parametrize("form", ["wide", "long"])
def test_consume_reads_an_output(place: Place, form: str) -> None:
    """Series of meters with the right law: totals are within their error bars."""
    if form == "wide":
        rows = wide_rows(3, 4)
        place.sanitise(save(place.folder / "in.parquet", rows))
        truth = sum(sum(row["value"]) for row in rows if row["meter"] == "m1") / 4000
    else:
        rows = [row | {"value": 700.0} for row in long_rows(3, 4, first_ms=DAY)]
        place.sanitise(save(place.folder / "in.parquet", rows, LONG), source="hold = '1h'")
        truth = 0.7 * 96
    actual = read_archive(place.folder / "out.parquet", ["m1"])
    assert list(actual) == ["m1"]
    assert within(actual["m1"].energy(DAY, DAY + 4 * DAY_MS), truth)
    assert len(read_archive(place.folder / "out.parquet")) == 3
    assert actual["m1"].descriptor_of(actual["m1"].records[0]).facts["noise"] == "prf"
    assert np.unique(actual["m1"].window_ms).size == 4


def test_consume_reads_bands_and_decimals(place: Place) -> None:
    """A mean day of each form, with its bands in order; values are exact."""
    bands = "length = '1mo'\ntimezone = 'Europe/Amsterdam'\nbands = ['00-07', '07-24']"
    keys = {"window": bands, "privacy": "space = 'profile'\nhide = '6kWh'\nquantum = 0.25"}
    place.sanitise(save(place.folder / "in.parquet", long_rows(2, 2), LONG), **keys)
    (month,) = read_archive(place.folder / "out.parquet", ["m0"]).values()
    assert [record.band for record in month.records] == ["00:00/07:00", "07:00/24:00"]
    assert all(record.value % month.descriptor_of(record).mechanism.quantum == 0 for record in month.records)


def test_consume_refuses_what_is_not_complete(place: Place) -> None:
    """An output that is cut short, or lacks a manifest, is not an archive yet."""
    save(place.folder / "in.parquet", wide_rows(1, 2))
    place.sanitise(place.folder / "in.parquet")
    make_incomplete(place.folder / "out.parquet")
    with pytest.raises(RecordError, match="incomplete"):
        read_archive(place.folder / "out.parquet")
    for manifest in (place.folder / "out.parquet").glob("_manifest*"):
        manifest.unlink()
    with pytest.raises(RecordError, match="not an output"):
        read_archive(place.folder / "out.parquet")
    with pytest.raises(RecordError, match="no such folder"):
        read_archive(place.folder / "elsewhere.parquet")


def test_the_example_is_a_configuration(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """deploy/archive.toml shows every key of [archive], releases means of half hours; `check` reads it."""
    example = ROOT / "deploy" / "archive.toml"
    shown = set(re.findall(r"^(?:# )?(\w+) = ", example.read_text().split("[archive]")[1], re.MULTILINE))
    assert shown == set(Archive.model_fields)
    settings = example.read_text().replace('"archive.key"', f'"{place.folder}/archive.key"')
    (place.folder / "example.toml").write_text(settings)
    rows = [{"meter": "m", "time": DAY + at * 1_800_000, "value": 400.0} for at in range(48)]
    save(place.folder / "in.parquet", rows, LONG)
    assert sanitise(place, settings="example.toml") == 0  # means of half hours have no Check
    assert "48 windows of 1 number released" in capsys.readouterr().out
    assert main(["check", str(example)]) == 0
