"""The `check` command: show what a configuration promises, hides and costs."""

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from meteragent import config
from meteragent.cli import admission, common
from meteragent.domain.terms import Terms
from meteragent.report import event, guarantee, terminal, whole
from meteragent.report.language import language_of_environment, use_language
from meteragent.store import read_only, stored_terms
from meteragent.texts import ENGLISH


def run(options: argparse.Namespace) -> int:
    """Print the promises of all streams, and the next step. Raises ConfigError with all refusals."""
    is_plain_text = not (options.json or options.statement)
    language = options.lang or language_of_environment(os.environ)
    events = (*event.EVENTS, *options.event)
    # For `run`, a missing folder is no error of the configuration: its disk may be mounted later.
    settings = admission.load_admitted(options.config, sys.stderr, needs_folder=True)
    with use_language(language if is_plain_text else ENGLISH):
        if is_plain_text:
            print_promises(settings, options.config, events)
        elif options.json:
            print(terminal.guarantees_json(_compute_guarantees(settings, events), settings))
        else:
            from meteragent.report import markdown  # noqa: PLC0415  only the statement needs it

            terms = _stored_terms(settings.store.path)
            print(markdown.statement_text(settings, events, terms), end="")
    return 0


def print_promises(
    settings: config.Config, path: Path, events: Sequence[event.Event] = event.EVENTS, *, is_new: bool = False
) -> None:
    """Print the promises of the configuration at `path` and the next step, with commands to copy."""
    guarantees = _compute_guarantees(settings, events)
    print(terminal.guarantees_text(guarantees, settings), end="\n\n")
    program = common.program_words(sys.argv[0], sys.orig_argv[0], shutil.which("meteragent"))
    print(terminal.next_step(guarantees, settings, shlex.quote(str(path)), program=program, is_new=is_new))


def _compute_guarantees(settings: config.Config, events: Sequence[event.Event]) -> list[guarantee.Guarantee]:
    names = admission.stored_streams(settings.store.path)
    return [whole.compute_whole_guarantee(settings, stream, events, names) for stream in settings.stream]


parse_event = common.argument(event.parse_event)


def _stored_terms(path: Path) -> dict[str, list[Terms]] | None:
    """Return the terms in a store, by stream; None without a readable file. Raises StoreError."""
    if not os.access(path, os.R_OK):
        return None
    with read_only(path) as connection:
        return stored_terms(connection)
