"""The `check` command: show what a configuration promises, hides and costs."""

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from meteragent import config
from meteragent.cli import admission, common, exit_codes
from meteragent.domain.terms import Terms
from meteragent.report import event, facts, guarantee, terminal, whole
from meteragent.report.language import language_of_environment, use_language
from meteragent.store import read_only, stored_terms
from meteragent.texts import ENGLISH


def run(options: argparse.Namespace) -> int:
    """Print the promises of all streams and the next step, or the refusals; return 0 or 78."""
    is_plain_text = not (options.json or options.statement)
    language = options.lang or language_of_environment(os.environ)
    with use_language(language if is_plain_text else ENGLISH):
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    settings = config.load(options.config)
    settings = admission.with_running_lateness(options.config, settings, sys.stderr)
    # `run` only ends when the folder is missing: it may be on a disk that is mounted later.
    misplaced = config.store_folder_refusals(settings)
    if admission.report_refusals(options.config, settings, sys.stderr, more_refusals=misplaced):
        if not (options.json or options.statement):
            print(_next_step_text((), settings, options.config, is_refused=True))
        return exit_codes.EXIT_CONFIG
    events = (*event.EVENTS, *options.event)
    if options.statement:
        from meteragent.report import markdown  # noqa: PLC0415  only the statement needs it

        print(markdown.statement_text(settings, events, _stored_terms(settings.store.path)), end="")
        return 0
    guarantees = _compute_guarantees(settings, events)
    if options.json:
        print(facts.as_json(guarantees, settings))
        return 0
    print(terminal.guarantees_text(guarantees, settings), end="\n\n")
    print(_next_step_text(guarantees, settings, options.config))
    return 0


def print_new(path: Path) -> int:
    """Print a new configuration's promises, any refusals and the next steps; return 78 if refused, else 0."""
    settings = config.load(path)
    guarantees = _compute_guarantees(settings, event.EVENTS)
    print(terminal.guarantees_text(guarantees, settings), end="\n\n", flush=True)
    refused = admission.report_refusals(path, settings, sys.stderr)
    print(_next_step_text(guarantees, settings, path, is_refused=refused, is_new=True))
    return exit_codes.EXIT_CONFIG if refused else 0


def _compute_guarantees(settings: config.Config, events: Sequence[event.Event]) -> list[guarantee.Guarantee]:
    names = admission.stored_streams(settings.store.path)
    return [whole.compute_whole_guarantee(settings, stream, events, names) for stream in settings.stream]


def _next_step_text(
    guarantees: Sequence[guarantee.Guarantee],
    settings: config.Config,
    path: Path,
    *,
    is_refused: bool = False,
    is_new: bool = False,
) -> str:
    """Return the next steps, with commands that start the program as the user started it."""
    program = common.program_words(sys.argv[0], sys.orig_argv[0], shutil.which("meteragent"))
    quoted = shlex.quote(str(path))
    return terminal.next_step(
        guarantees, settings, quoted, is_refused=is_refused, program=program, is_new=is_new
    )


parse_event = common.argument(event.parse_event)


def _stored_terms(path: Path) -> dict[str, list[Terms]] | None:
    """Return the terms in a store, by stream; None if this user can read no file. Raises StoreError."""
    if not os.access(path, os.R_OK):
        return None
    with read_only(path) as connection:
        return stored_terms(connection)
