"""Fuzz a target for some time: ``python tests/commands/fuzz.py TARGET --seconds N``.

With atheris (``pip install atheris``), guided by the coverage of the agent and of the parsers behind it;
without it by Hypothesis, from the same seeds. What is found is written to the current folder and named;
`--keep` adds what reached something new to the corpus, so few and small that all of it takes seconds.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

INSTRUMENTED = ["meteragent", "jmespath", "tomllib"]
KEPT = 24
SMALL = 2048
"""Files of the corpus: so many of a target at most, so many bytes each."""
_AGENT = str(ROOT / "meteragent")
_INSIDE = "--inside"
"""How this program calls itself for the process that is instrumented."""
_STATS = re.compile(rb"cov: (\d+) ft: (\d+) corp: (\d+)/(\S+)")
_DONE = re.compile(rb"Done (\d+) runs in (\d+) second")
_RUNS = re.compile(rb"^#(\d+)", re.MULTILINE)


def main() -> int:
    """Fuzz as asked; exit 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="add what is new to the corpus")
    if sys.argv[1:2] == [_INSIDE]:
        _inside(sys.argv[2], sys.argv[3:])
    options = parser.parse_args()
    return _with_atheris(options) if find_spec("atheris") else _with_hypothesis(options)


def _inside(target: str, arguments: list[str]) -> None:
    """The process that is instrumented; it does not return."""
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=INSTRUMENTED):
        from tests.fuzz import targets  # noqa: PLC0415 -- instrumented as it is imported
    atheris.Setup(["fuzz", *arguments], lambda data: targets.measured(target, data))
    atheris.Fuzz()


def _atheris(target: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    line = [sys.executable, __file__, _INSIDE, target, *arguments]
    here = os.environ | {"PYTHONHASHSEED": "0"}
    return subprocess.run(line, cwd=Path.cwd(), env=here, stderr=subprocess.PIPE, check=False)


def _with_atheris(options: argparse.Namespace) -> int:
    from tests.fuzz.seeds import CORPUS  # noqa: PLC0415 -- the instrumented process must not have it yet

    with tempfile.TemporaryDirectory() as folder:
        grown = Path(folder) / "grown"
        grown.mkdir()
        for at, data in enumerate(_seeds(options.target)):
            (grown / f"seed-{at}").write_bytes(data)
        limits = ["-timeout=20", "-rss_limit_mb=1500", "-max_len=4096", "-print_final_stats=1"]
        done = _atheris(
            options.target, *limits, f"-seed={options.seed}", f"-max_total_time={options.seconds}", str(grown)
        )
        _report(options.target, done.stderr)
        if options.keep:
            _keep(options.target, grown, CORPUS / options.target)
    if done.returncode:
        sys.stderr.buffer.write(done.stderr[-4000:])
    return int(done.returncode != 0)


def _report(target: str, told: bytes) -> None:
    runs = [*(int(found) for found in _RUNS.findall(told)), *(int(n) for n, _ in _DONE.findall(told))]
    covered = _STATS.findall(told)
    edges, features, files, size = covered[-1] if covered else (b"0", b"0", b"0", b"0")
    print(
        f"{target}: {max(runs, default=0)} executions, {edges.decode()} edges, {features.decode()} features,"
        f" {files.decode()} inputs of {size.decode()}",
        flush=True,
    )


def _keep(target: str, grown: Path, corpus: Path) -> None:
    """Add the few small inputs that together reach most lines, each the one that adds most."""
    small = [path.read_bytes() for path in sorted(grown.iterdir()) if path.stat().st_size <= SMALL]
    reached = {data: _lines(target, data) for data in small}
    missing = set[tuple[str, int]]().union(*reached.values())
    corpus.mkdir(parents=True, exist_ok=True)
    total = len(missing)
    for _ in range(KEPT):
        best = max(reached, key=lambda data: (len(reached[data] & missing), -len(data)))
        if not reached[best] & missing:
            break
        missing -= reached[best]
        (corpus / hashlib.sha256(best).hexdigest()[:12]).write_bytes(best)
    kept = sum(1 for _ in corpus.iterdir())
    print(f"{target}: {total} lines reached, all but {len(missing)} of them by {kept} files", flush=True)


def _lines(target: str, data: bytes) -> set[tuple[str, int]]:
    """The lines of the agent that an input reaches."""
    from tests.fuzz import targets  # noqa: PLC0415 -- not instrumented here

    found: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        name = frame.f_code.co_filename
        if not name.startswith(_AGENT):
            return None
        if event == "line":
            found.add((name, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        targets.TARGETS[target](data)
    finally:
        sys.settrace(before)
    return found


def _seeds(target: str) -> Iterator[bytes]:
    from tests.fuzz import seeds  # noqa: PLC0415 -- see _with_atheris

    yield from seeds.SEEDS[target]()
    if (seeds.CORPUS / target).is_dir():
        yield from (path.read_bytes() for path in seeds.corpus(target))


def _with_hypothesis(options: argparse.Namespace) -> int:
    from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: PLC0415 -- only here
    from hypothesis import strategies as st  # noqa: PLC0415

    from tests.fuzz import targets  # noqa: PLC0415 -- not instrumented here

    known, became = list(_seeds(options.target)), Counter[str]()
    edits = st.lists(st.tuples(st.integers(0, 4096), st.integers(0, 8), st.binary(max_size=8)), max_size=6)
    end_s = time.monotonic() + options.seconds
    round_ = options.seed

    @settings(max_examples=500, deadline=None, database=None, phases=[Phase.generate, Phase.shrink],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.sampled_from(known), edits, st.one_of(st.none(), st.binary(max_size=64)))
    def one(base: bytes, changes: list[tuple[int, int, bytes]], instead: bytes | None) -> None:
        data = base if instead is None else instead
        for place, removed, added in changes:
            at = place % (len(data) + 1)
            data = data[:at] + added + data[at + removed :]
        became[targets.measured(options.target, data)] += 1

    while time.monotonic() < end_s:
        seed(round_)(one)()
        round_ += 1
    print(f"{options.target}: {became.total()} executions; {dict(became.most_common())}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
