"""Names of meters in an archive: what no other door takes is refused, and spellings of one name are told."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meteragent.archive import run
from meteragent.cli import main
from meteragent.domain.errors import ArchiveError
from tests.support.archives import LONG, QUARTERS, SPRING_MS, WIDE, Place, save, text


def rows_of(names: list[str], schema: pa.Schema) -> list[dict[str, Any]]:
    """Return a reading or a day of each meter."""
    value: Any = [1] * 96 if schema is WIDE else 1
    return [{"meter": name, "time": SPRING_MS - SPRING_MS % 86_400_000, "value": value} for name in names]


@pytest.mark.parametrize("schema", [WIDE, LONG])
@pytest.mark.parametrize("name", ["a\0", "a\nb", "\x7f", "a\x9b0m", "x" * 129])
def test_names_that_no_format_carries_are_refused(tmp_path: Path, name: str, schema: pa.Schema) -> None:
    """A control character or too long a name is refused before anything is charged."""
    place = Place.make(tmp_path)
    path = save(tmp_path / "in.parquet", rows_of(["fine", name], schema), schema)
    with pytest.raises(ArchiveError, match=r"column 'meter': names with control characters.*: 1, such as"):
        place.sanitise(path)
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("schema", [WIDE, LONG])
@pytest.mark.parametrize("limit", [1, 1000])
def test_spellings_of_one_name_are_told(
    tmp_path: Path,
    schema: pa.Schema,
    limit: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Meters that differ by case, spaces or Unicode form are a Check, in a preview and in each run."""
    monkeypatch.setattr(run, "JOB_WINDOWS", limit)
    monkeypatch.setattr(run, "JOB_ROWS", limit)
    place = Place.make(tmp_path)
    names = ["a", "a  ", "A", "b", "Zähler", "Za\u0308hler", "c 1", "c1", "d"]
    save(tmp_path / "in.parquet", rows_of(names, schema), schema)
    finding = "7 meters differ from another only by case, spaces or Unicode form"
    (tmp_path / "c.toml").write_text(text(place.folder / "archive.key", window=QUARTERS))
    paths = (str(tmp_path / name) for name in ("in.parquet", "out.parquet"))
    words = ["sanitise", *paths, "--config", str(tmp_path / "c.toml")]
    for more in (["--dry-run"], ["--dry-run", "--json"], ["--accept-checks"], []):
        assert main([*words, *more]) == 0
        output = capsys.readouterr().out
        found = json.loads(output)["checks"] if "--json" in more else output.splitlines()
        assert any(finding in line for line in found), output
    assert set(pq.read_table(tmp_path / "out.parquet")["meter"].to_pylist()) == set(names)
