"""`sanitise --dry-run`: what a run would do, without doing it.

It reads all of the input and accounts for it as the run would, against what the ledger has; what a run would
refuse before its debit is refused here. Nothing is written: no ledger is begun, and of one that is there the
lock is only held. What is counted of numbers is for whoever has the readings, and for nobody else.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from meteragent.archive import manifest
from meteragent.archive.account import Account
from meteragent.archive.form import Counts, Form
from meteragent.archive.key import Key
from meteragent.archive.ledger import Ledger
from meteragent.archive.number import micro
from meteragent.archive.policy import Policy
from meteragent.archive.run import Local, Show, check_places, first_ms, identified
from meteragent.archive.source import Source

_AT_ONCE = 1 << 20  # numbers, about


@dataclass(frozen=True)
class Look:
    """What a run would do.

    `counts` are of the whole input, also of what is refused; `small` of its numbers are less than a
    thousandth of the range. `debited`: the ledger has the run already; `complete`: so has the output.
    """

    policy: Policy
    form: Form
    out: Path
    ledger: Path
    account: Account
    counts: Counts
    small: int
    debited: bool
    complete: bool


def look(policy: Policy, path: Path, out: Path, show: Show) -> Look:
    """What `run.sanitise_archive` would do with the same arguments; nothing is written.

    Raises:
        ArchiveError: the input, the output or the ledger cannot be used, or is another run's.
        KeyRefused: there is no key, or none for some windows.
    """
    engine, key, ledger = Local(), Key.load(policy.key_file), Ledger(policy.ledger)
    check_places(path, out, ledger.folder)
    source = Source.open(path, policy)
    first = key.at(first_ms(source))
    with ledger.still():
        _, run = identified(source, first, show)
        before = manifest.find(out, run, engine.cut)
        found, debited = Account(run), ledger.has(run)
        if debited:
            found = manifest.account_of(ledger.about(run), ledger.path(run))
        else:
            for _table in engine.debits(source, ledger, key, found, show):
                pass
        counts, small = _counted(source, show)
        source.check()
    complete = before is not None and before["complete"]
    return Look(policy, source.form, out, ledger.folder, found, counts, small, debited, complete)


def _counted(source: Source, show: Show) -> tuple[Counts, int]:
    """What numbers the input has, and how many of them are small."""
    policy, counts, small = source.policy, Counts(), 0
    usual, name = policy.usual, policy.columns.value
    largest_u = max(abs(usual.low_u), abs(usual.high_u))
    with show("count", source.rows, "row") as told:
        for batch in source.read(source.groups, [name], max(1, _AT_ONCE // source.numbers)):
            column: pa.Array = batch.column(name)
            found = micro(column.flatten() if source.form == "wide" else column, policy)
            counts.add(Counts(found.valid.size, int((~found.valid).sum()), found.clamped))
            small += int((found.valid & (1000 * np.abs(found.values_u) < largest_u)).sum())
            told(batch.num_rows)
    return counts, small
