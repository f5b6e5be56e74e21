"""After a wrong release: the procedure of the page on archives, step by step."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meteragent.archive.key import Key, create_ledger
from meteragent.archive.run import RunResult, sanitise_archive
from meteragent.consume import read_archive
from meteragent.domain.errors import RecordError
from tests.support.archives import QUARTERS, Place, policy, save, silent, wide_rows


def sanitise(place: Place, path: Path, out: str, key: str = "archive.key") -> RunResult:
    """Release a file under a key."""
    return sanitise_archive(policy(place.folder / key, window=QUARTERS), path, place.folder / out, silent)


def test_a_new_key_releases_what_was_wrong(tmp_path: Path) -> None:
    """The old key refuses the corrected windows; a new one releases them, and each run names its rows.

    A receiver who has deleted the rows of the wrong run's meters and windows, by key and time, has every
    window once.
    """
    place, rows = Place.make(tmp_path / "place"), wide_rows(2, 4)
    wrong_rows = [row | {"value": [1] * 96} if row["meter"] == "m0" else row for row in rows]
    wrong = sanitise(place, save(place.folder / "in.parquet", wrong_rows), "out")
    affected = [row for row in rows if row["meter"] == "m0"]
    corrected = save(place.folder / "corrected.parquet", affected)
    assert sanitise(place, corrected, "same key").admission.refused_windows == 4
    (place.folder / "new.key").write_text(Key("test", "month", 0, bytes([9]) * 32).text())
    create_ledger(place.folder / "new.key.ledger")
    (place.folder / "new.key").chmod(0o600)
    right = sanitise(place, corrected, "new", "new.key")
    assert right.admission.released_windows == 4
    assert right.admission.run != wrong.admission.run
    assert not right.admission.keys & wrong.admission.keys
    ledger = pq.read_table(wrong.run_ledger)
    assert ledger.filter(pa.array(np.array(ledger["meter"]) == "m0"))["windows"].to_pylist() == [4]
    kept = [row for row in pq.read_table(wrong.out).to_pylist() if row["meter"] != "m0"]
    both = [*kept, *pq.read_table(right.out).to_pylist()]
    assert len({(row["meter"], row["start"]) for row in both}) == len(both) == len(rows)
    homes = read_archive(right.out)
    assert set(homes) == {"m0"}
    with pytest.raises(RecordError, match="two different records of one slot"):
        read_archive([wrong.out, right.out])
