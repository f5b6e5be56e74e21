"""A driver with a ledger in a Delta table, in a process of its own: it is killed, or its calls are traced.

python -m tests.spark.ledger_job killed|traced FOLDER
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from unittest.mock import patch

import pyarrow as pa

from meteragent.archive import layout
from meteragent.spark import part, sanitise_frame
from meteragent.spark.delta_ledger import DeltaLedger
from meteragent.spark.worker import KeyFingerprint
from tests.commands.system_parts import find
from tests.spark import homes
from tests.spark.homes import Place
from tests.spark.session import session
from tests.support.not_run import ROOT, not_run

_CALLS = "openat,write,pwrite64,rename,renameat,renameat2,link,linkat,mkdir,mkdirat,unlink,fsync,fdatasync"
_PATH = re.compile(r'<(/[^>]*)>|"(/[^"]*)"')


class Call(NamedTuple):
    """A system call that has succeeded, and the paths in it."""

    name: str
    paths: list[str]
    text: str

    @property
    def new_name(self) -> str | None:
        """The name that there is since this call."""
        creates = self.name.startswith(("rename", "link", "mkdir")) or "O_CREAT" in self.text
        return self.paths[-1] if creates else None

    def makes(self, pattern: str) -> bool:
        """Whether the call makes a name with a pattern."""
        return self.new_name is not None and re.search(pattern, self.new_name) is not None


def killed(folder: Path) -> None:
    """Release a frame; be killed when the commit is in the log, before it is flushed."""

    def dies(*_: object) -> NoReturn:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    commit = DeltaLedger._commit

    def committing(ledger: DeltaLedger, *arguments: object) -> None:
        commit(ledger, *arguments)  # type: ignore[arg-type]
        dies()

    place = Place.of(folder)
    with session(folder / "tmp") as spark, patch.object(DeltaLedger, "_commit", committing):
        sanitise_frame(spark.createDataFrame(homes.wide(place.policy)), place.policy, folder / "ledger")


def register(folder: Path) -> None:
    """Do what workers and driver do, without Spark: write a part, register it, and release what it has."""
    place = Place.of(folder)
    ledger = DeltaLedger.of(folder / "ledger", place.policy)
    report = written(place, ledger, "run")
    ledger._commit(ledger.open(), "run", [report])
    ledger._flush(["_delta_log/*"])
    (folder / "released").write_bytes((folder / "ledger" / part.releases_of(report["file"])[0]).read_bytes())


def written(place: Place, ledger: DeltaLedger, run: str) -> dict[str, Any]:
    """Write the part of a task that has all windows; return its report."""
    windows, _ = layout.read_wide(homes.wide(place.policy).combine_chunks().to_batches()[0], place.policy)
    rows = pa.Table.from_batches([windows])
    rows = rows.append_column("hash", pa.array(range(len(rows)), pa.int64()))
    rows = rows.append_column("taken", pa.array([False] * len(rows)))
    fingerprint = KeyFingerprint.of(place.key)
    return part.write_part(rows.to_batches(), place.policy, fingerprint, ledger.address, run)


def traced(folder: Path) -> list[Call]:
    """Return the calls of a process that registers a part, in the order of their ends."""
    strace = find("strace")
    if strace is None:
        not_run("strace", "strace is not on the path")
    log = folder / "calls"
    command = [str(strace), "-f", "-y", "-s", "300", "-e", f"trace={_CALLS}", "-o", str(log)]
    command += [sys.executable, "-m", "tests.spark.ledger_job", "traced", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return list(calls_of(log.read_text(errors="replace").splitlines()))


def calls_of(lines: Iterable[str]) -> Iterable[Call]:
    """Yield the calls of a trace; a call that was interrupted by another's line is where it ends."""
    begun: dict[str, str] = {}
    for line in lines:
        process, _, text = line.partition(" ")
        text = text.strip()
        if text.endswith("<unfinished ...>"):
            begun[process] = text.removesuffix("<unfinished ...>")
            continue
        if text.startswith("<..."):
            text = begun.pop(process, "") + text.partition("resumed>")[2]
        if re.search(r"\) += \d", text):
            name, _, arguments = text.partition("(")
            yield Call(name, ["".join(match) for match in _PATH.findall(arguments)], text)


def require_flushed(calls: Iterable[Call], pattern: str) -> None:
    """Check that files with a pattern, and their names, were flushed after their last change."""
    files: dict[str, int] = {}  # which file has a name, by number
    written_files, new_names = set[int](), set[str]()
    for count, call in enumerate(calls):
        if call.name in {"fsync", "fdatasync"}:
            path = call.paths[0]
            written_files.discard(files.get(path, -1))
            new_names = {name for name in new_names if str(Path(name).parent) != path}
        elif call.name in {"write", "pwrite64"} and call.paths:
            written_files.add(files.get(call.paths[0], -1))
        elif call.name == "unlink":
            files.pop(call.paths[-1], None)
        elif (name := call.new_name) is not None and name not in files:
            source = call.paths[-2] if call.name.startswith(("rename", "link")) else ""
            files[name] = files.pop(source, count) if "rename" in call.name else files.get(source, count)
            new_names.add(name)
    lost = [
        name
        for name, file in files.items()
        if re.search(pattern, name) and (file in written_files or name in new_names)
    ]
    assert not lost


if __name__ == "__main__":
    {"killed": killed, "traced": register}[sys.argv[1]](Path(sys.argv[2]))
