"""`sanitise --dry-run`: determine what a run would do, without writing anything.

The preview reads the whole input, accounts for it against the same ledger, and raises the errors that a run
would raise before its debit. It creates no ledger, and locks an existing one. Its counts of numbers are
private: show them only to people who may see the readings.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from meteragent.archive import manifest
from meteragent.archive.account import Account
from meteragent.archive.key import Key
from meteragent.archive.layout import Counts, Layout
from meteragent.archive.ledger import Ledger
from meteragent.archive.number import micro
from meteragent.archive.policy import Policy
from meteragent.archive.run import Local, ProgressReporter, check_paths, first_window_ms, identify
from meteragent.archive.source import Source

_BATCH_NUMBERS = 1 << 20  # approximate


@dataclass(frozen=True)
class Preview:
    """The expected result of a run.

    `counts` cover the whole input, including refused windows. The absolute value of `small_count` numbers is
    less than a thousandth of the largest absolute value in the range. `is_debited` is true if the ledger
    already has the run, and `complete` is true if the output is complete.
    """

    policy: Policy
    layout: Layout
    out: Path
    ledger: Path
    account: Account
    counts: Counts
    small_count: int
    is_debited: bool
    complete: bool


def preview(policy: Policy, path: Path, out: Path, show: ProgressReporter) -> Preview:
    """Return a preview of `run.sanitise_archive` with the same arguments; write nothing.

    Raises:
        ArchiveError: the input, the output or the ledger cannot be used, or belongs to another run.
        KeyRefused: there is no key, or none for some windows.
    """
    engine, key, ledger = Local(), Key.load(policy.key_file), Ledger(policy.ledger)
    check_paths(path, out, ledger.folder)
    source = Source.open(path, policy)
    first = key.at(first_window_ms(source))
    with ledger.lock_shared():
        _, run = identify(source, first, show)
        manifest_facts = manifest.find(out, run, engine.cut)
        account, is_debited = Account(run), ledger.has(run)
        if is_debited:
            account = manifest.account_of(ledger.facts(run), ledger.path(run))
        else:
            for _table in engine.debits(source, ledger, key, account, show):
                pass
        counts, small_count = _count(source, show)
        source.check_unchanged()
    complete = manifest_facts is not None and manifest_facts["complete"]
    return Preview(
        policy, source.layout, out, ledger.folder, account, counts, small_count, is_debited, complete
    )


def _count(source: Source, show: ProgressReporter) -> tuple[Counts, int]:
    """Return counts of the input's numbers, and the number of small values (see `Preview`)."""
    policy, counts, small_count = source.policy, Counts(), 0
    usual, name = policy.usual, policy.columns.value
    largest_u = max(abs(usual.low_u), abs(usual.high_u))
    with show("count", source.rows, "row") as progress:
        for batch in source.read(source.groups, [name], max(1, _BATCH_NUMBERS // source.numbers)):
            column: pa.Array = batch.column(name)
            values = micro(column.flatten() if source.layout == "wide" else column, policy)
            counts.add(Counts(values.valid.size, int((~values.valid).sum()), values.clamped_count))
            small_count += int((values.valid & (1000 * np.abs(values.values_u) < largest_u)).sum())
            progress(batch.num_rows)
    return counts, small_count
