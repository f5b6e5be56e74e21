"""Two engines, one acceptance: random archives give the same rows on both, or the same refusal.

`METERAGENT_ARCHIVES=10 pytest tests/spark/test_engines.py` tries all 200, which takes a quarter of an hour.
"""

import collections
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from meteragent.archive import run as local
from meteragent.archive.policy import Policy
from meteragent.domain.errors import MeteragentError
from meteragent.spark import sanitise_archive
from tests.spark import homes
from tests.spark.random_archives import make_archive
from tests.support import archives

ARCHIVES = 20
"""The number of archives of a test, which are released under one key, so that their windows overlap."""

ENGINES: dict[str, Callable[..., Any]] = {"local": local.sanitise_archive, "spark": sanitise_archive}


def outcome(engine: Callable[..., Any], policy: Policy, path: Path, out: Path) -> Any:
    """The admission, the files' digests and the ledger's rows of a run, or the text of its refusal."""
    try:
        result = engine(policy, path, out, homes.quiet, accepts_checks=True)
    except MeteragentError as error:
        assert not out.exists()
        assert not list(policy.ledger.glob(".run=*"))
        return type(error), str(error)
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in out.iterdir()}
    return result.admission, digests, pq.read_table(result.run_ledger).to_pydict(), result.counts


@pytest.mark.parametrize("number", range(int(os.environ.get("METERAGENT_ARCHIVES", "1"))))
def test_engines_agree(spark: SparkSession, tmp_path: Path, number: int) -> None:
    """Of any archive, both engines write the same bytes and debit the same windows, or refuse it alike."""
    seen: collections.Counter[bool] = collections.Counter()
    for seed in range(number * ARCHIVES, (number + 1) * ARCHIVES):
        archive, outcomes = make_archive(tmp_path, seed), []
        for name, engine in ENGINES.items():
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            homes.write(folder / "archive.key", homes.KEY)
            policy = archives.policy(folder / "archive.key", **archive.sections)
            outcomes.append(outcome(engine, policy, archive.path, folder / f"out {seed}"))
        assert outcomes[0] == outcomes[1], (seed, archive.fault)
        is_refused = isinstance(outcomes[0][1], str)
        seen[is_refused] += 1
        assert is_refused == (archive.fault is not None) or archive.fault == "windows twice", seed
    assert seen[True] >= 2
    assert seen[False] >= 5
