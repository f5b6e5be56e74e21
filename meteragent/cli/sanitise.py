"""The `sanitise` command: release an archive once, or show what a run would do."""

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from meteragent import config
from meteragent.archive.policy import Policy
from meteragent.cli.common import report_missing_extra
from meteragent.cli.exit_codes import EXIT_CRASH, EXIT_INTERRUPTED, exit_code_of, fail
from meteragent.domain.errors import ConfigError, MeteragentError
from meteragent.domain.figures import count_text, exact_text
from meteragent.report.format import amount_text, full_text
from meteragent.report.wording import windows_phrase
from meteragent.service.process import forbid_dumps

_ALL_REFUSED = "every window overlaps a window that was released before"
_ENGINES = {"local": "meteragent.archive.run", "spark": "meteragent.spark"}
_PREVIEWS = _ENGINES | {"local": "meteragent.archive.preview"}
_EXTRAS = {"local": ("archive",), "spark": ("archive", "spark")}
"""The extras that each engine needs."""


def run(options: argparse.Namespace) -> int:
    """Release an archive, or show what a run would do; return the exit code. Raises MeteragentError."""
    policy = Policy.of(config.load(options.config))
    if any(report_missing_extra(extra, "sanitise") for extra in _EXTRAS[options.engine]):
        return EXIT_CRASH
    forbid_dumps()
    try:
        print(_perform(policy, options))
    except ConfigError:
        raise
    except MeteragentError as error:
        return fail(error, exit_code_of(error))
    except KeyboardInterrupt:
        consequence = "nothing was written" if options.dry_run else "the same command resumes the run"
        return fail(f"stopped: {consequence}", EXIT_INTERRUPTED)
    return 0


def _perform(policy: Policy, options: argparse.Namespace) -> str:
    """Release an archive, or preview its release; return the summary, as text or as JSON."""
    # Import only the requested engine, which needs pyarrow or Spark. Only Spark may write to an address.
    output = options.output if options.engine == "spark" else Path(options.output)
    accepts_checks = options.accept_checks
    if options.dry_run:
        module = importlib.import_module(_PREVIEWS[options.engine])
        preview = module.preview(policy, options.input, output, show_progress)
        say = preview_json if options.json else preview_summary
        return say(preview, accepts_checks=accepts_checks)
    engine = importlib.import_module(_ENGINES[options.engine])
    paths = options.input, output
    result = engine.sanitise_archive(policy, *paths, show_progress, accepts_checks=accepts_checks)
    return as_json(result) if options.json else result_summary(result)


@contextmanager
def show_progress(task: str, total: int, unit: str) -> Iterator[Callable[[int], object]]:
    """Show a task's progress if standard error is a terminal; yield a function that advances it."""
    from tqdm import tqdm  # noqa: PLC0415  the extra may be missing

    with tqdm(total=total, desc=task, unit=unit, unit_scale=True, disable=None, leave=False) as bar:
        yield bar.update


def result_summary(result: Any) -> str:
    """Return a summary of an `archive.run.RunResult`, for the operator only, because its counts are exact."""
    admission = result.admission
    lines = [
        f"{result.out}: {_windows_text(result)} released, run {admission.run}",
        _refused_text(admission.refused_windows),
        *_table_lines(result),
        *_number_lines(result),
        *_terms_lines(result),
        f"  ledger         {result.ledger}; this run's rows: {result.run_ledger}",
    ]
    lines += [] if admission.released_windows else [f"nothing was released: {_ALL_REFUSED}"]
    return "\n".join(lines)


def preview_summary(preview: Any, *, accepts_checks: bool = False) -> str:
    """Return a summary of what a run would do, from its `archive.preview.Preview`, for the operator only."""
    admission = preview.admission
    lines = [
        f"{preview.out}: {_windows_text(preview)} would be released, run {admission.run}",
        _refused_text(admission.refused_windows),
        *_table_lines(preview),
        *_number_lines(preview),
        *_row_lines(preview),
        *_terms_lines(preview),
        f"  ledger         {preview.ledger}",
        f"dry run, nothing was written: {_consequence(preview, accepts_checks=accepts_checks)}",
    ]
    return "\n".join(lines)


def as_json(result: Any) -> str:
    """Return the facts of `result_summary` as a JSON object; exact numbers are strings."""
    facts = _shared_facts(result) | {
        "dry_run": False,
        "new_parts": result.new_parts,
        "existing_parts": result.existing_parts,
        "run_ledger": str(result.run_ledger),
    }
    return json.dumps(facts, indent=2)


def preview_json(preview: Any, *, accepts_checks: bool = False) -> str:
    """Return the facts of `preview_summary` as a JSON object; exact numbers are strings."""
    facts = _shared_facts(preview) | {
        "dry_run": True,
        "complete": preview.is_complete,
        "in_ledger": preview.is_debited,
        "consequence": _consequence(preview, accepts_checks=accepts_checks),
    }
    return json.dumps(facts, indent=2)


def _shared_facts(result: Any) -> dict[str, Any]:
    """Return the facts that a run and its preview have in common."""
    admission, usual = result.admission, result.policy.usual
    return {
        "output": str(result.out),
        "run": admission.run,
        "released_windows": admission.released_windows,
        "refused_windows": admission.refused_windows,
        "numbers_per_window": usual.n,
        "numbers": result.counts and _number_facts(result.counts),
        "row": _row_facts(result),
        "table": result.table and result.table._asdict(),
        "epsilon": exact_text(usual.epsilon),
        "level": exact_text(usual.level),
        "sd": usual.sd,
        "unit": usual.value_unit,
        "keys": sorted(admission.keys),
        "ledger": str(result.ledger),
        "checks": [*_check_texts(result)],
        "warnings": [*_warning_texts(result)],
    }


def _number_facts(counts: Any) -> dict[str, int]:
    return {
        "read": counts.numbers,
        "missing": counts.gap,
        "clamped": counts.clamped,
        "repeated": counts.repeated,
        "conflicting": counts.conflicting,
    }


def _consequence(preview: Any, *, accepts_checks: bool) -> str:
    """Return a description of what the same command would do without `--dry-run`."""
    if preview.is_complete:
        return "this run is already complete"
    if preview.is_debited:
        return "the ledger already has this run: it would be resumed or repeated, with the same values"
    if not accepts_checks and any(_check_texts(preview)):
        return "the run would be refused, because of each Check (--accept-checks accepts them)"
    if preview.admission.released_windows:
        return f"the ledger would get {_windows_text(preview)}"
    return f"nothing would be released: {_ALL_REFUSED}"


def _windows_text(result: Any) -> str:
    numbers = count_text(result.policy.usual.n, "number")
    return f"{count_text(result.admission.released_windows, 'window')} of {numbers}"


def _refused_text(count: int) -> str:
    verb = "overlaps" if count == 1 else "overlap"
    return f"  refused        {count_text(count, 'window')} that {verb} windows released before"


def _table_lines(result: Any) -> list[str]:
    """Return a line about the snapshot of the table that was read, if the input is one."""
    table = result.table
    return [] if table is None else [f"  snapshot       {table.snapshot} of {table.kind} table {table.table}"]


def _terms_lines(result: Any) -> list[str]:
    """Return lines about the promise, the noise, the meters' names and the keys."""
    usual = result.policy.usual
    epsilon = f"{usual.epsilon} per {usual.value_unit}"
    return [
        f"  epsilon        {epsilon} in each of the {windows_phrase(usual)}: level {full_text(usual.level)}",
        f"  noise          {amount_text(usual.sd, usual.value_unit)} in each number (one standard deviation)",
        *[f"  Warning:       {text}" for text in _warning_texts(result)],
        *([f"  keys           {', '.join(sorted(result.admission.keys))}"] if result.admission.keys else []),
    ]


def _warning_texts(result: Any) -> Iterator[str]:
    """Yield what the operator should know, which does not prevent a run."""
    if count := result.admission.ambiguous_readings:
        yield f"{count:,} readings at local times that occur twice are told apart by order"
    if result.policy.stream.sink.pseudonym_key_file is None:
        yield "column meter has the meters' own names: set sink.pseudonym_key_file for pseudonyms"


def _number_lines(result: Any) -> list[str]:
    """Return lines about the input's numbers, how they were interpreted, and what to check."""
    checks = [f"  Check:         {text}" for text in _check_texts(result)]
    if result.counts is None:
        existing_parts = count_text(result.existing_parts, "part")
        return [f"  numbers        not counted: the output was complete, with {existing_parts}", *checks]
    counts, row = result.counts, _row_facts(result)
    line = f"  numbers        {counts.numbers:,} read: {counts.gap:,} missing, {counts.clamped:,} clamped"
    if counts.repeated:
        line += f", {counts.repeated:,} at the same time as another"
        line += f" ({counts.conflicting:,} with another value)"
    rows = [f"                 {row['numbers']:,} in each row, for {row['seconds']:g} s each"] if row else []
    return [line, *rows, *checks]


def _row_facts(result: Any) -> dict[str, float] | None:
    """Return how many numbers each row has, and the seconds that each covers; None if rows are not alike."""
    rows = result.admission.windows
    if result.counts is None or result.layout != "wide" or not rows or result.counts.numbers % rows:
        return None
    numbers = result.counts.numbers
    return {"numbers": numbers // rows, "seconds": result.policy.usual.length_ms * rows / numbers / 1000}


def _row_lines(preview: Any) -> list[str]:
    """Return lines with the first readings as a run would interpret them, on a terminal only."""
    policy, unit, lines = preview.policy, preview.policy.usual.readings.unit, list[str]()
    if preview.rows is None:
        return lines
    if not sys.stdout.isatty():
        return ["  first rows     (shown on a terminal)"]
    for row in preview.rows.to_pylist():
        start = row[policy.columns.time] - timedelta(milliseconds=policy.lead_ms)
        value = row[policy.columns.value]
        span = f"{start:%Y-%m-%d %H:%M:%S%z} to {start + timedelta(milliseconds=policy.reach_ms):%H:%M:%S}"
        lines.append(
            f"  {'' if lines else 'first rows':15}{row[policy.columns.meter]}: {span}: {value} {unit}"
        )
    return lines


def _check_texts(result: Any) -> Iterator[str]:
    """Yield what the operator should check, before a run and after it."""
    from meteragent.archive.checks import find_checks  # noqa: PLC0415  the extra may be missing

    admission = result.admission
    yield from find_checks(
        result.policy, result.layout, result.counts, admission.windows, admission.similar_meters
    )
