"""Compute a run's id; write and read the manifest in its output.

The id is a keyed hash (HMAC-SHA-256 under the run key of the run's first epoch, 16 hex digits) of the policy
and the input's content. With a plain hash, anyone could confirm a guess of the readings. The manifest is
public; `consume.archive` says where it is and how readers check it. The manifest holds the descriptors, lists
the parts and counts windows, but not readings: receivers must not learn how many were missing or clamped.
"""

import hashlib
import hmac
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from meteragent.archive.admission import Admission
from meteragent.archive.files import attempt_read, is_part, write_file
from meteragent.archive.key import EpochKey
from meteragent.archive.policy import Policy
from meteragent.archive.snapshot import Version
from meteragent.archive.source import Source
from meteragent.consume import archive
from meteragent.domain.errors import ArchiveError, RecordError
from meteragent.wire.descriptor import canonical_json

ROW_GROUP_VALUES = 1 << 21
"""The approximate number of values in a row group of the wide layout. In the long layout, a row group has a
quarter of this number."""

PART_BATCHES = 16
"""The number of row groups in a part of the wide layout; the last part may have fewer."""

JOB_ROWS = 1 << 21
"""The approximate maximum number of rows in a job of the long layout."""

JOB_WINDOWS = 1 << 19
"""The approximate maximum number of rows in a job of the wide layout; each row is a window."""

CUT: list[Any] = ["by start, with run", ROW_GROUP_VALUES, PART_BATCHES, JOB_ROWS]
"""The values that decide where parts end if one process does the run. A run continues an output only if the
output's manifest has the same values."""
_DOMAIN = b"meteragent run 1"


def run_id(policy: Policy, digests: Sequence[str], key: EpochKey) -> str:
    """Compute a run's id from the policy, the digests of the input's files and the key of the first epoch."""
    facts = [dict(policy.facts), key.tenant, list(digests)]
    parts = (_DOMAIN, canonical_json({"run": facts}), hashlib.sha256(policy.secret).digest())
    message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.digest(key.run, message, "sha256").hex()[:16]


def run_facts(source: Source, digests: Sequence[str], admission: Admission) -> bytes:
    """Return the facts that the ledger stores next to a run's rows, to be kept as private as the ledger."""
    files = [
        {"name": file.rpartition("/")[2], "bytes": stamp[0], "sha256": digest}
        for (file, stamp), digest in zip(source.stamps.items(), digests, strict=True)
    ]
    facts = {"v": 1, "run": admission.run, "input": files, "policy": source.policy.facts}
    facts |= {"released": admission.released_windows, "refused": admission.refused_windows}
    facts |= {"descriptors": admission.descriptors, "keys": sorted(admission.keys)}
    facts |= {"similar_meters": admission.similar_meters}
    if source.table is not None:
        facts |= {"table": source.table._asdict()}
    return _encode_facts(facts)


def table_version(content: bytes, path: Path) -> Version | None:
    """Return the table's snapshot in a ledger's facts, None if the run had no table. Raises ArchiveError."""
    table = _parse_facts(content, path).get("table")
    return None if table is None else attempt_read(path, lambda: Version(**table))


def admission_of(content: bytes, path: Path) -> Admission:
    """Return the admission in a ledger's facts, read from `path`. Raises ArchiveError if that fails."""
    facts = _parse_facts(content, path)
    counts = facts["run"], facts["released"], facts["refused"]
    return Admission(*counts, facts["descriptors"], set(facts["keys"]), facts["similar_meters"])


def part_path(out: Path, run: str, index: int) -> Path:
    """Return the path of a part, whose name has the run's id so that no run overwrites another's."""
    return out / f"part-{run}-{index:05}.parquet"


def build(source: Source, admission: Admission, parts: Sequence[Path] | None) -> dict[str, Any]:
    """Return a manifest's facts, complete with `parts`. Raises ArchiveError if a part is unreadable."""
    return {
        "v": 1,
        "run": admission.run,
        "complete": parts is not None,
        "cut": CUT,
        "parts": [attempt_read(part, lambda: archive.describe_part(part)) for part in parts or []],  # noqa: B023
        "form": source.layout,
        "policy": source.policy.facts,
        "descriptors": [_descriptor(source.policy, start_ms) for start_ms in admission.descriptors.values()],
        "keys": sorted(admission.keys),
        "windows": {"released": admission.released_windows, "refused": admission.refused_windows},
    }


def _descriptor(policy: Policy, start_ms: int) -> dict[str, Any]:
    """Return the descriptor for the window that starts at `start_ms`, valid from that time on."""
    _, (terms,) = policy.terms(np.array([start_ms], np.int64))
    descriptor: dict[str, Any] = json.loads(policy.descriptor(terms).encode_message("", start_ms))
    return descriptor


def save(out: Path, facts: dict[str, Any]) -> None:
    """Write an output's manifest under two names; copying another run into the folder replaces only one."""
    part = next(iter(sorted(out.glob(f"part-{facts['run']}-*.parquet"))), None)
    schema = pa.schema([]) if part is None else attempt_read(part, lambda: pq.read_schema(part))
    for path in (out / archive.MANIFEST, out / f"_manifest-{facts['run']}.parquet"):
        write_file(path, lambda file: archive.write_manifest(file, _encode_facts(facts), schema))


def find_manifest(out: Path, run: str) -> dict[str, Any] | None:
    """Return the manifest of an output that this run may continue; None if there is no output yet.

    The manifest's `complete` is False if a part is not as listed. Raises ArchiveError if the output belongs
    to another run, was written with another `CUT`, or is no output.
    """
    is_unfinished = out.is_dir() and all(is_part(entry) for entry in out.iterdir())
    if is_unfinished or not out.exists():
        return None
    try:
        manifests = archive.read_manifests(out)
        if any(facts.get("run") != run for facts in manifests):
            raise ArchiveError(
                f"{out}: belongs to another run: the input, the configuration or the key has changed. Restore"
                " the original ones, or choose another output (windows already released are refused there)"
            )
        (facts,) = manifests
        if facts.get("cut") != CUT:
            raise ArchiveError(
                f"{out}: another version began this output: remove it and run again,"
                " which gives the same values"
            )
        return facts | {
            "complete": facts.get("complete") is True
            and not archive.bad_parts(out, archive.listed_parts(facts))
        }
    except RecordError as error:
        raise ArchiveError(f"{error}: choose a path that does not exist yet") from None


def remove_faulty_parts(out: Path, facts: dict[str, Any] | None) -> None:
    """Remove unfinished files and, if there is a manifest, the parts that differ from its list."""
    for unfinished in out.glob(".*.part"):
        unfinished.unlink()
    for name in archive.bad_parts(out, archive.listed_parts(facts) if facts else []):
        (out / name).unlink(missing_ok=True)


def _parse_facts(content: bytes, path: Path) -> dict[str, Any]:
    """Parse a file of facts. Raises ArchiveError if it is not JSON, or another version wrote it."""
    facts = attempt_read(path, lambda: json.loads(content))
    if not isinstance(facts, dict) or facts.get("v") != 1 or "run" not in facts:
        raise ArchiveError(f"{path}: written by another version of meteragent: use that version")
    return facts


def _encode_facts(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, indent=1, ensure_ascii=False).encode() + b"\n"
