"""Fuzz a target for N seconds: ``python tests/commands/fuzz.py TARGET --seconds N``.

With atheris (``pip install atheris``), fuzzing is guided by the coverage of the agent and of its parsers;
without it, Hypothesis edits the same seeds. Inputs that fail are written to the current folder and named.
`--keep` adds inputs that reach new lines to the corpus, which stays small enough to run in seconds.
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
"""The largest number of files per target in the corpus, and the largest size of each."""
_AGENT = str(ROOT / "meteragent")
_INSIDE = "--inside"
"""The option with which this program starts itself as the instrumented process."""
_STATS = re.compile(rb"cov: (\d+) ft: (\d+) corp: (\d+)/(\S+)")
_DONE = re.compile(rb"Done (\d+) runs in (\d+) second")
_RUNS = re.compile(rb"^#(\d+)", re.MULTILINE)


def main() -> int:
    """Fuzz a target; return 1 if an input fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="add inputs that reach new lines to the corpus")
    if sys.argv[1:2] == [_INSIDE]:
        _inside(sys.argv[2], sys.argv[3:])
    options = parser.parse_args()
    return _with_atheris(options) if find_spec("atheris") else _with_hypothesis(options)


def _inside(target: str, arguments: list[str]) -> None:
    """Run in the instrumented process; does not return."""
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=INSTRUMENTED):
        from tests.fuzz import targets  # noqa: PLC0415 -- importing instruments it
    atheris.Setup(["fuzz", *arguments], lambda data: targets.measured(target, data))
    atheris.Fuzz()


def _atheris(target: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    line = [sys.executable, __file__, _INSIDE, target, *arguments]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    return subprocess.run(line, cwd=Path.cwd(), env=environment, stderr=subprocess.PIPE, check=False)


def _with_atheris(options: argparse.Namespace) -> int:
    from tests.fuzz.seeds import CORPUS  # noqa: PLC0415 -- must not be imported before the instrumentation

    with tempfile.TemporaryDirectory() as folder:
        grown = Path(folder) / "grown"
        grown.mkdir()
        for number, data in enumerate(_seeds(options.target)):
            (grown / f"seed-{number}").write_bytes(data)
        limits = ["-timeout=20", "-rss_limit_mb=1500", "-max_len=4096", "-print_final_stats=1"]
        result = _atheris(
            options.target, *limits, f"-seed={options.seed}", f"-max_total_time={options.seconds}", str(grown)
        )
        _report(options.target, result.stderr)
        if options.keep:
            _keep(options.target, grown, CORPUS / options.target)
    if result.returncode:
        sys.stderr.buffer.write(result.stderr[-4000:])
    return int(result.returncode != 0)


def _report(target: str, log: bytes) -> None:
    runs = [*(int(n) for n in _RUNS.findall(log)), *(int(n) for n, _ in _DONE.findall(log))]
    covered = _STATS.findall(log)
    edges, features, files, size = covered[-1] if covered else (b"0", b"0", b"0", b"0")
    print(
        f"{target}: {max(runs, default=0)} executions, {edges.decode()} edges, {features.decode()} features,"
        f" {files.decode()} inputs of {size.decode()}",
        flush=True,
    )


def _keep(target: str, grown: Path, corpus: Path) -> None:
    """Add the few small inputs that together reach most lines, greedily: first those that add most."""
    small = [path.read_bytes() for path in sorted(grown.iterdir()) if path.stat().st_size <= SMALL]
    reached = {data: _lines(target, data) for data in small}
    remaining_lines = set[tuple[str, int]]().union(*reached.values())
    corpus.mkdir(parents=True, exist_ok=True)
    total = len(remaining_lines)
    for _ in range(KEPT):
        best = max(reached, key=lambda data: (len(reached[data] & remaining_lines), -len(data)))
        if not reached[best] & remaining_lines:
            break
        remaining_lines -= reached[best]
        (corpus / hashlib.sha256(best).hexdigest()[:12]).write_bytes(best)
    count = sum(1 for _ in corpus.iterdir())
    print(
        f"{target}: {total} lines reached, all but {len(remaining_lines)} of them by {count} files",
        flush=True,
    )


def _lines(target: str, data: bytes) -> set[tuple[str, int]]:
    """Return the lines of the agent that an input reaches."""
    from tests.fuzz import targets  # noqa: PLC0415 -- not instrumented here

    lines: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        """Record the lines of the agent that run."""
        name = frame.f_code.co_filename
        if not name.startswith(_AGENT):
            return None
        if event == "line":
            lines.add((name, frame.f_lineno))
        return trace

    tracing = sys.gettrace()
    sys.settrace(trace)
    try:
        targets.TARGETS[target](data)
    finally:
        sys.settrace(tracing)
    return lines


def _seeds(target: str) -> Iterator[bytes]:
    from tests.fuzz import seeds  # noqa: PLC0415 -- see _with_atheris

    yield from seeds.SEEDS[target]()
    if (seeds.CORPUS / target).is_dir():
        yield from (path.read_bytes() for path in seeds.corpus(target))


def _with_hypothesis(options: argparse.Namespace) -> int:
    from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: PLC0415 -- only here
    from hypothesis import strategies as st  # noqa: PLC0415

    from tests.fuzz import targets  # noqa: PLC0415 -- not instrumented here

    corpus, outcomes = list(_seeds(options.target)), Counter[str]()
    edits = st.lists(st.tuples(st.integers(0, 4096), st.integers(0, 8), st.binary(max_size=8)), max_size=6)
    end_s = time.monotonic() + options.seconds
    round_ = options.seed

    @settings(max_examples=500, deadline=None, database=None, phases=[Phase.generate, Phase.shrink],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.sampled_from(corpus), edits, st.one_of(st.none(), st.binary(max_size=64)))
    def run(base: bytes, changes: list[tuple[int, int, bytes]], replacement: bytes | None) -> None:
        """Apply the changes to an input and run the target."""
        data = base if replacement is None else replacement
        for place, removed_bytes, insertion in changes:
            start = place % (len(data) + 1)
            data = data[:start] + insertion + data[start + removed_bytes :]
        outcomes[targets.measured(options.target, data)] += 1

    while time.monotonic() < end_s:
        seed(round_)(run)()
        round_ += 1
    print(f"{options.target}: {outcomes.total()} executions; {dict(outcomes.most_common())}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
