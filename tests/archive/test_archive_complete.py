"""An output from which something is missing, or to which something was added, is never read in silence."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.archive import run
from meteragent.archive.preview import preview
from meteragent.cli import main
from meteragent.consume import Descriptor, Slots, read_archive
from meteragent.consume import archive as reader
from meteragent.domain.errors import ArchiveError, RecordError
from tests.support.archives import (
    DAY_MS,
    LONG,
    SPRING_MS,
    WIDE,
    Place,
    alter_manifest,
    long_rows,
    make_incomplete,
    manifest_of,
    save,
    silent,
    wide_rows,
)

ROWS = 8 * 96
"""The values of an output: four days of two meters."""
Reader = Callable[[Path], int]


def converted(out: Path) -> int:
    """Return the number of values that `convert` writes of an output."""
    table = out.with_suffix(".csv")
    assert main(["convert", str(out), str(table), "--to", "csv"]) == 0
    return len(table.read_text().splitlines()) - 1


READERS: dict[str, Reader] = {
    "read_archive": lambda out: sum(len(series.records) for series in read_archive(out).values()),
    "Slots.read": lambda out: len(Slots.read(out).meter),
    "convert": converted,
}


@pytest.fixture(params=["wide", "long"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A folder with an output in several parts."""
    monkeypatch.setattr(run, "ROW_GROUP_VALUES", 96)
    monkeypatch.setattr(run, "PART_BATCHES", 3)
    monkeypatch.setattr(run, "JOB_ROWS", 300)
    return released(Place.make(tmp_path / "place"), request.param)


def released(place: Place, form: str, *, days: int = 4, seed: int = 0, out: str = "out") -> Place:
    """Release an archive of two meters."""
    first_ms = SPRING_MS - SPRING_MS % DAY_MS + 30 * DAY_MS * seed
    make = wide_rows if form == "wide" else long_rows
    rows: list[dict[str, Any]] = make(2, days, seed=seed, first_ms=first_ms)
    path = save(place.folder / f"{out}.in.parquet", rows, WIDE if form == "wide" else LONG)
    place.sanitise(path, out)
    return place


def parts(out: Path) -> list[Path]:
    """Return the parts of an output, of which there are several."""
    paths = sorted(out.glob("part-*"))
    assert len(paths) > 1
    return paths


def largest(out: Path) -> Path:
    """Return the part with the most rows; some of the long form have none."""
    return max(parts(out), key=lambda part: int(pq.read_metadata(part).num_rows))


def truncate(out: Path) -> None:
    """Cut a part off, as a copy that was stopped."""
    part = largest(out)
    part.write_bytes(part.read_bytes()[:-200])


def add_row(out: Path) -> None:
    """Write a part again with its first row twice."""
    part = largest(out)
    table = pq.ParquetFile(part).read()
    pq.write_table(pa.concat_tables([table.slice(0, 1), table]), part)


def alter_value(out: Path) -> None:
    """Write a part again, with as many rows."""
    part = largest(out)
    table = pq.ParquetFile(part).read()
    pq.write_table(table.take(list(reversed(range(table.num_rows)))), part)


def swap(out: Path) -> None:
    """Put a part of another run in the place of a part, under its name."""
    other = Place.make(out.parent / "elsewhere")
    form = "wide" if "values" in pq.read_schema(parts(out)[0]).names else "long"
    released(other, form, seed=1)
    shutil.copy(largest(other.folder / "out"), largest(out))


def remove(out: Path, pattern: str) -> None:
    """Remove files from an output."""
    for path in out.glob(pattern):
        path.unlink()


def make_folder(out: Path) -> None:
    """Put a folder in the place of a part."""
    part = largest(out)
    part.unlink()
    part.mkdir()


def add_manifest(out: Path) -> None:
    """Add a manifest of the same run that lists no parts."""
    facts = manifest_of(out) | {"parts": []}
    with (out / "_manifest-0.parquet").open("wb") as file:
        reader.write_manifest(file, json.dumps(facts).encode(), pa.schema([]))


def remove_digests(out: Path) -> None:
    """Remove the digests from a manifest."""
    alter_manifest(out, parts=[part | {"sha256": None} for part in manifest_of(out)["parts"]])


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda out: parts(out)[1].unlink(), "'part-.*' is missing"),
    "all missing": (lambda out: remove(out, "part-*"), "'part-.*' is missing"),
    "truncated": (truncate, "'part-.*' is cut off or damaged"),
    "empty": (lambda out: parts(out)[0].write_bytes(b""), "'part-.*' is cut off or damaged"),
    "a folder": (make_folder, "'part-.*' is missing"),
    "an extra row": (add_row, "'part-.*' has .* rows, not "),
    "another order": (alter_value, "'part-.*' is not the file that was written"),
    "swapped between runs": (swap, "'part-.*' (is not the file that was written|has .* rows, not )"),
    "swapped": (
        lambda out: [parts(out)[0].rename(out / "x"), parts(out)[0].rename(out / parts(out)[0].name)],
        "is missing",
    ),
    "doubled": (lambda out: shutil.copy(parts(out)[0], out / "part-0 (1).parquet"), "is in no manifest"),
    "doubled below": (lambda out: shutil.copytree(out, out / "copy"), "'copy/part-.* is in no manifest"),
    "renamed": (lambda out: parts(out)[0].rename(out / "part-00000.parquet"), "is missing; 'part-00000"),
    "no manifest": (lambda out: remove(out, "_*"), "it has no manifest"),
    "a manifest cut off": (
        lambda out: [path.write_bytes(path.read_bytes()[:-9]) for path in out.glob("_manifest-*")],
        "not an output's manifest",
    ),
    "a manifest without the end of its list": (
        lambda out: alter_manifest(out, parts=manifest_of(out)["parts"][:-1]),
        "is in no manifest",
    ),
    "a manifest without its list": (lambda out: alter_manifest(out, parts=None), "list of parts is malf"),
    "a list without digests": (remove_digests, "list of parts is malformed"),
    "two manifests that differ": (add_manifest, "incomplete"),
    "incomplete": (make_incomplete, "incomplete"),
}


@pytest.mark.parametrize("name", READERS)
def test_a_whole_output_is_read(place: Place, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """All values, without a word; what Spark and unfinished writers leave beside the parts is not read."""
    out = place.folder / "out"
    expected = sum(len(row.get("values", [0])) for row in pq.read_table(out).to_pylist())
    (out / "_SUCCESS").write_bytes(b"")
    (out / "._SUCCESS.crc").write_bytes(b"crc")
    (out / f".{parts(out)[0].name}.part").write_bytes(b"PAR1")
    for folder in ("_temporary", "_made", ".spark-staging-1"):
        shutil.copytree(out, out.parent / "copy")
        (out.parent / "copy").rename(out / folder)
    assert READERS[name](out) == expected
    assert caplog.text == ""


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", READERS)
def test_what_is_wrong_is_named(
    place: Place, name: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each reader refuses the output and names what is missing or wrong; `convert` writes nothing."""
    out = place.folder / "out"
    alter, text = DAMAGES[damage]
    alter(out)
    if name == "convert":
        table = place.folder / "values.csv"
        assert main(["convert", str(out), str(table), "--to", "csv"]) == 1
        errors = capsys.readouterr().err
        assert not table.exists()
        with pytest.raises(RecordError, match=text):
            raise RecordError(errors)
        return
    with pytest.raises(RecordError, match=text):
        READERS[name](out)


def test_an_error_names_a_few_parts(place: Place) -> None:
    """However many parts are missing, the error is a line."""
    out = place.folder / "out"
    facts = manifest_of(out)
    more = [{"name": f"part-{index}.parquet", "rows": 1, "sha256": "0" * 64} for index in range(1000)]
    alter_manifest(out, parts=facts["parts"] + more)
    with pytest.raises(RecordError, match="; and 997 more: copy the whole output again") as caught:
        read_archive(out)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("place", ["wide"], indirect=True)
def test_outputs_copied_into_one_folder_are_both_read(place: Place) -> None:
    """Neither overwrites the other's parts or manifest; without a manifest, its parts are refused."""
    released(place, "wide", seed=1, out="next")
    out, following, both = (place.folder / name for name in ("out", "next", "both"))
    for source in (out, following):
        shutil.copytree(source, both, dirs_exist_ok=True)
    expected = {meter: len(series.records) for meter, series in read_archive([out, following]).items()}
    assert expected == {"m0": ROWS, "m1": ROWS}
    assert {meter: len(series.records) for meter, series in read_archive(both).items()} == expected
    assert len(Slots.read(both).meter) == len(Slots.read([out, following]).meter) == 2 * ROWS
    assert len(Slots.read([out, following], [("meter", "=", "m1")]).meter) == ROWS
    with pytest.raises(ArchiveError, match="belongs to another run"):
        place.sanitise(place.folder / "out.in.parquet", "both")
    next(both.glob(f"_manifest-{manifest_of(out)['run']}*")).unlink()
    with pytest.raises(RecordError, match="is in no manifest"):
        read_archive(both)


@pytest.mark.parametrize("place", ["wide"], indirect=True)
def test_outputs_that_contradict_each_other_are_refused(place: Place) -> None:
    """One run twice, and one id for two promises, are not read as one archive."""
    released(place, "wide", seed=1, out="next")
    out, following = place.folder / "out", place.folder / "next"
    shutil.copytree(out, place.folder / "copy")
    with pytest.raises(RecordError, match="is given twice"):
        read_archive([out, place.folder / "copy"])
    with pytest.raises(RecordError, match="is given twice"):
        Slots.read([out, out])
    (descriptor,) = manifest_of(following)["descriptors"]
    alter_manifest(following, descriptors=[descriptor | {"preset": "another"}])
    with pytest.raises(RecordError, match="'id' does not match its facts"):
        read_archive([out, following])


@pytest.mark.parametrize("place", ["wide"], indirect=True)
def test_an_id_has_one_promise(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two outputs whose descriptors differ under one id, of 32 bits, are refused."""
    released(place, "wide", seed=1, out="next")
    digests = iter("abcdefgh")
    monkeypatch.setattr(Descriptor, "digest", property(lambda _: next(digests)))
    with pytest.raises(RecordError, match="has other terms in another output"):
        read_archive([place.folder / "out", place.folder / "next"])


@pytest.mark.parametrize("place", ["wide"], indirect=True)
def test_columns_that_differ_are_not_mixed(place: Place) -> None:
    """Values in watts and in quarters of a watt are read one output at a time as columns, or as series."""
    first_ms = SPRING_MS - SPRING_MS % DAY_MS + 90 * DAY_MS
    path = save(place.folder / "quarters.parquet", wide_rows(2, 4, first_ms=first_ms))
    place.sanitise(path, "quarters", privacy="quantum = 0.25")
    folders = [place.folder / "out", place.folder / "quarters"]
    assert {len(series.records) for series in read_archive(folders).values()} == {ROWS}
    with pytest.raises(ValueError, match="read each output by itself"):
        Slots.read(folders)


@pytest.mark.parametrize("damage", ["missing", "truncated", "an extra row", "another order"])
def test_the_same_run_repairs_its_output(place: Place, damage: str) -> None:
    """A run whose complete output lost a part is no complete run; again, it writes that part, the same."""
    out, source = place.folder / "out", place.folder / "out.in.parquet"
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    DAMAGES[damage][0](out)
    assert not preview(place.policy(), source, out, silent).is_complete
    result = place.sanitise(source, "out")
    assert (result.new_parts, result.existing_parts) == (1, len(parts(out)) - 1)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert preview(place.policy(), source, out, silent).is_complete


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
part_names = st.sampled_from(
    ["../out/part.parquet", "/etc/x.parquet", "_x.parquet", ".x.parquet", "a.csv", ""]
)
facts = st.fixed_dictionaries(
    {"v": st.just(1), "complete": st.just(True)},
    optional={
        "run": json_values,
        "descriptors": json_values,
        "parts": json_values
        | st.lists(st.fixed_dictionaries({"name": part_names, "rows": json_values, "sha256": json_values})),
        "batches": json_values | st.dictionaries(st.text(max_size=3), st.lists(st.integers(), max_size=3)),
        "windows": json_values | st.fixed_dictionaries({"released": st.integers(0, 3)}),
    },
)


@given(content=facts, is_stream=st.booleans())
def test_a_foreign_manifest_is_refused(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any], is_stream: bool
) -> None:
    """Whatever a manifest says, without the parts that it lists it is a RecordError, and nothing else."""
    out = tmp_path_factory.mktemp("foreign")
    text = json.dumps(content).encode()
    if is_stream:
        (out / "_manifest.json").write_bytes(text)
    else:
        with (out / "_manifest.parquet").open("wb") as file:
            reader.write_manifest(file, text, pa.schema([]))
    with pytest.raises(RecordError):
        reader.open_outputs(out)


@pytest.mark.parametrize(
    "text", [b"", b"[" * 10**6, b'{"v":1,"run":' + b"9" * 10**6 + b"}", b"\xff", b"null"]
)
def test_a_manifest_that_would_cost_is_refused(text: bytes, tmp_path: Path) -> None:
    """Nesting, long numbers and size end in a RecordError at once."""
    path = tmp_path / "_manifest.json"
    path.write_bytes(text)
    with pytest.raises(RecordError, match="not an output's manifest"):
        read_archive(tmp_path)
    with path.open("wb") as file:
        file.truncate(reader.MANIFEST_BYTES_MAX + 1)
    with pytest.raises(RecordError, match="not an output's manifest"):
        read_archive(tmp_path)


@pytest.mark.parametrize("what", ["parts", "manifests", "batches"])
def test_twice_the_manifest_costs_at_most_twice_the_steps(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files that are looked at grow as a manifest does, or as the manifests in a folder."""
    steps = 0

    def counted(path: Path) -> int:
        nonlocal steps
        steps += 1
        return 0

    read_facts = reader.read_facts
    monkeypatch.setattr(reader, "_count_rows", counted)
    monkeypatch.setattr(reader, "read_facts", lambda path: read_facts(path) if counted(path) == 0 else {})
    costs = []
    for size in (50, 100, 200):
        steps, out = 0, tmp_path / str(size)
        out.mkdir()
        listed = [{"name": f"p{index}.parquet", "rows": 1, "sha256": "0"} for index in range(size)]
        content: dict[str, Any] = {"v": 1, "complete": True, "descriptors": [], "parts": listed}
        if what == "batches":
            content = content | {"parts": [], "batches": {"q": [0, 10**18]}}
            for batch in range(size):
                (out / f"query=q/batch={batch}").mkdir(parents=True)
                own = {"v": 1, "batch": f"query=q/batch={batch}", "parts": []}
                (out / f"query=q/batch={batch}/_manifest.json").write_text(json.dumps(own))
        for index in range(size if what == "manifests" else 1):
            with (out / f"_manifest-{index}.parquet").open("wb") as file:
                text = json.dumps(
                    content | {"run": index, "parts": listed[:1]} if what == "manifests" else content
                )
                reader.write_manifest(file, text.encode(), pa.schema([]))
        with pytest.raises(RecordError, match="missing"):
            read_archive(out)
        costs.append(steps)
    assert costs[1] <= 2 * costs[0]
    assert costs[2] <= 2 * costs[1]
    assert costs[0] >= 50


def stream_folder(out: Path, place: Place) -> Path:
    """Write an output as `meteragent.spark.folder` writes a stream's: two micro-batches of one query."""
    facts = manifest_of(place.folder / "out")
    for batch, part in enumerate(parts(place.folder / "out")[:2]):
        folder = out / f"query=q/batch={batch}"
        folder.mkdir(parents=True)
        shutil.copy(part, folder / f"part-{batch}.parquet")
        own = {"v": 1, "batch": f"query=q/batch={batch}"}
        own |= {"parts": [reader.describe_part(folder / f"part-{batch}.parquet")]}
        (folder / "_manifest.json").write_text(json.dumps(own))
        (folder / "_SUCCESS").write_bytes(b"")
    whole = {"v": 1, "complete": True, "descriptors": facts["descriptors"], "batches": {"q": [0, 1]}}
    (out / "_manifest.json").write_text(json.dumps(whole))
    return out


def write_again(out: Path) -> None:
    """Begin a micro-batch, which has no manifest yet."""
    (out / "query=q/batch=2").mkdir()
    shutil.copy(out / "query=q/batch=0/part-0.parquet", out / "query=q/batch=2/part-0.parquet")


STREAMS: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "whole": (lambda out: None, None),
    "one being written": (write_again, None),
    "a part missing": (lambda out: (out / "query=q/batch=0/part-0.parquet").unlink(), "part-0.* is missing"),
    "one missing": (lambda out: shutil.rmtree(out / "query=q/batch=0"), "micro-batch 0 is missing"),
    "the last missing": (lambda out: shutil.rmtree(out / "query=q/batch=1"), "micro-batch 1 is missing"),
    "its manifest missing": (lambda out: (out / "query=q/batch=1/_manifest.json").unlink(), "1 is missing"),
    "renamed": (
        lambda out: (out / "query=q/batch=1").rename(out / "query=q/batch=2"),
        "of another micro-batch",
    ),
    "copied": (
        lambda out: shutil.copytree(out / "query=q/batch=1", out / "query=q/batch=1 (copy)"),
        "of another micro-batch",
    ),
    "a part copied": (
        lambda out: shutil.copy(out / "query=q/batch=1/part-1.parquet", out / "query=q/batch=1/b.parquet"),
        "is in no manifest",
    ),
    "a file beside": (
        lambda out: shutil.copy(out / "query=q/batch=1/part-1.parquet", out / "b.parquet"),
        "is in no manifest",
    ),
}


@pytest.mark.parametrize("change", STREAMS)
def test_a_stream_has_all_its_micro_batches(place: Place, tmp_path: Path, change: str) -> None:
    """The folder of a stream is read up to its last micro-batch, or what is missing is named."""
    out = stream_folder(tmp_path / "stream", place)
    alter, text = STREAMS[change]
    alter(out)
    if text is None:
        rows = sum(part["rows"] for part in manifest_of(place.folder / "out")["parts"][:2])
        assert sum(table.num_rows for table in reader.part_tables(reader.open_outputs(out))) == rows
        return
    with pytest.raises(RecordError, match=text):
        Slots.read(out)


def test_a_stream_whose_manifest_lists_no_batches_is_refused(place: Place, tmp_path: Path) -> None:
    """Nobody would know whether a micro-batch is missing."""
    out = stream_folder(tmp_path / "stream", place)
    content = json.loads((out / "_manifest.json").read_text())
    del content["batches"]
    (out / "_manifest.json").write_text(json.dumps(content))
    with pytest.raises(RecordError, match="list of parts is malformed"):
        READERS["read_archive"](out)
