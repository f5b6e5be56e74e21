"""`sanitise --dry-run`: determine what a run would do, without writing anything.

The preview reads the whole input, compares its windows with the ledger, under a shared lock, and raises the
errors that a run would raise before it writes to the ledger. But it accepts all checks, and counts the
numbers. Show the counts only to people who may see the readings.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from meteragent.archive import manifest
from meteragent.archive.acceptance import Layout
from meteragent.archive.admission import Admission, ProgressReporter
from meteragent.archive.key import Key
from meteragent.archive.ledger import Ledger
from meteragent.archive.number import Counts
from meteragent.archive.policy import Policy
from meteragent.archive.run import Local, check_paths, first_window_ms, pins, run_of
from meteragent.archive.snapshot import Version
from meteragent.archive.source import Source
from meteragent.archive.tree import Tree


@dataclass(frozen=True)
class Preview:
    """The expected result of a run.

    `counts` covers the whole input, including refused windows. `is_debited` is true if the ledger already
    contains the run, and `is_complete` is true if the output is complete. `rows` are the first readings.
    """

    policy: Policy
    layout: Layout
    out: Any
    ledger: Path
    admission: Admission
    counts: Counts
    is_debited: bool
    is_complete: bool
    rows: pa.RecordBatch | None
    table: Version | None


def preview(
    policy: Policy, path: Path | str | Tree, out: Path, show: ProgressReporter, engine: Local | None = None
) -> Preview:
    """Return what `run.sanitise_archive` would do. Raises the errors that a run raises before it writes."""
    engine, key, ledger = engine or Local(), Key.load(policy.key_file), Ledger(policy.ledger)
    tree = path if isinstance(path, Tree) else Tree.at(path)
    check_paths(tree, out, ledger.folder)
    source = Source.open(tree, policy, partial(pins, out, ledger))
    first_key = key.at(first_window_ms(source))
    with ledger.lock_shared():
        _, run = run_of(source, first_key, show)
        manifest_facts = manifest.find_manifest(out, run)
        admission, is_debited = Admission(run, accepts_checks=True), ledger.has(run)
        if is_debited:
            admission = manifest.admission_of(ledger.facts(run), ledger.path(run))
        else:
            for _ in engine.debit_windows(source, ledger, key, admission, show, is_dry=True):
                pass
        counts = admission.counts or engine.numbers(source, show)
        source.check_unchanged()
    complete = manifest_facts is not None and manifest_facts["complete"]
    admission.ambiguous_readings = source.ambiguous_readings
    rows = next(source.read(source.groups, list(policy.columns), 10)) if source.layout == "long" else None
    folders = out, ledger.folder
    return Preview(
        policy, source.layout, *folders, admission, counts, is_debited, complete, rows, source.table
    )
