"""What a run is called, and what stands beside its output.

A run's id is a keyed hash (HMAC-SHA-256 under the run key of its first epoch, 16 hex digits) of the policy
and of the input's content: the same input under the same configuration is the same run. It is keyed because
it is public: a plain hash would tell whoever guesses the readings that the guess is right.

`_manifest.json` in the output is public. It says the descriptors, so that the output can be read alone, and
counts windows, never readings: how many were missing or clamped is not for those who get the output.
"""

import hashlib
import hmac
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from meteragent.archive.account import Account
from meteragent.archive.files import attempt, is_part, write
from meteragent.archive.key import EpochKey
from meteragent.archive.policy import Policy
from meteragent.archive.source import Source
from meteragent.domain.errors import ArchiveError
from meteragent.wire.descriptor import canonical

NAME = "_manifest.json"

VALUES = 1 << 21
"""Numbers in a row group of the wide form, about; in one of the long a quarter."""

PART_BATCHES = 16
"""Row groups in a part of the wide form."""

ROWS = 1 << 21
"""Rows that a job of the long form has, about."""

WINDOWS = 1 << 19
"""Rows of the wide form, which are windows, that are accounted for at once, about."""

CUT: list[Any] = ["by start", VALUES, PART_BATCHES, ROWS]
"""What decides where the parts of one process end: they are made by one version."""
_DOMAIN = b"meteragent run 1"


def run_id(policy: Policy, digests: Sequence[str], key: EpochKey) -> str:
    """The id of a run: of the policy, the digests of the input's files, and the key of its first epoch."""
    facts = [dict(policy.facts), key.tenant, list(digests)]
    parts = (_DOMAIN, canonical({"run": facts}), hashlib.sha256(policy.secret).digest())
    message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.digest(key.run, message, "sha256").hex()[:16]


def about(source: Source, digests: Sequence[str], account: Account) -> bytes:
    """What the ledger keeps beside a run's rows: it is private, as the ledger is."""
    files = [
        {"name": path.name, "bytes": stamp[1], "sha256": digest}
        for (path, stamp), digest in zip(source.seen, digests, strict=True)
    ]
    facts = {"v": 1, "run": account.run, "input": files, "policy": source.policy.facts}
    facts |= {"released": account.released, "refused": account.refused}
    facts |= {"descriptors": account.descriptors, "keys": sorted(account.keys)}
    return _json(facts)


def account_of(found: bytes, path: Path) -> Account:
    """The account of a run that is in the ledger.

    Raises ArchiveError when it cannot be read.
    """
    facts = _loaded(found, path)
    return Account(
        facts["run"], facts["released"], facts["refused"], facts["descriptors"], set(facts["keys"])
    )


def made(source: Source, account: Account, cut: list[Any], *, complete: bool) -> dict[str, Any]:
    """What `_manifest.json` says; `cut` is what decides where parts end."""
    return {
        "v": 1,
        "run": account.run,
        "complete": complete,
        "cut": cut,
        "form": source.form,
        "policy": source.policy.facts,
        "descriptors": [_descriptor(source.policy, at) for at in account.descriptors.values()],
        "keys": sorted(account.keys),
        "windows": {"released": account.released, "refused": account.refused},
    }


def _descriptor(policy: Policy, start_ms: int) -> dict[str, Any]:
    """The descriptor of the terms of the window that starts then, from then on."""
    _, (terms,) = policy.terms(np.array([start_ms], np.int64))
    found: dict[str, Any] = json.loads(policy.descriptor(terms).message("", start_ms))
    return found


def save(out: Path, facts: dict[str, Any]) -> None:
    """Put the manifest into the output; raises ArchiveError when it cannot be written."""
    write(out / NAME, lambda file: file.write(_json(facts)))


def find(out: Path, run: str, cut: list[Any]) -> dict[str, Any] | None:
    """The manifest of an output that may be gone on with; None where there is nothing yet.

    Raises ArchiveError for an output of another run, or a folder of something else.
    """
    path = out / NAME
    begun = out.is_dir() and all(is_part(one) for one in out.iterdir())
    if begun or not out.exists():
        return None
    if not path.exists():
        raise ArchiveError(f"{out}: there is something else; name an output that does not exist yet")
    facts = _loaded(attempt(path, path.read_bytes), path)
    if facts["run"] != run:
        raise ArchiveError(
            f"{out}: the output of another run: the input, the configuration or the key has changed since. Go"
            " on with what it was made from, or name another output (what is released is then refused)"
        )
    if facts["cut"] != cut:
        raise ArchiveError(
            f"{out}: another version or engine began this; remove it and run again: the same will leave"
        )
    return facts


def _loaded(found: bytes, path: Path) -> dict[str, Any]:
    facts = attempt(path, lambda: json.loads(found))
    if not isinstance(facts, dict) or facts.get("v") != 1 or "run" not in facts:
        raise ArchiveError(f"{path}: not written by this version")
    return facts


def _json(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, indent=1, ensure_ascii=False).encode() + b"\n"
