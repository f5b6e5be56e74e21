"""`meteragent check CONFIG`: what a configuration promises, hides and costs."""

import argparse
import os
import sys
from pathlib import Path

from meteragent import config
from meteragent.cli import admission, common
from meteragent.domain.terms import Terms
from meteragent.report import event, facts, guarantee, terminal
from meteragent.store import read_only, terms


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `check`."""
    common.add_config(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the same facts as JSON")
    form.add_argument(
        "--statement", action="store_true", help="a page for the file of whoever is responsible (Markdown)"
    )
    parser.add_argument(
        "--event",
        metavar="'2000W 30min'",
        type=_event,
        action="append",
        default=[],
        help="one more event of your own; can be given several times",
    )


def run(options: argparse.Namespace) -> int:
    """Print what the streams promise; returns 78 where one must not run."""
    settings = config.load(options.config)
    events = (*event.EVENTS, *options.event)
    if options.statement:
        from meteragent.report import markdown  # noqa: PLC0415  a page that most runs do not ask for

        print(markdown.page(settings, events, _known_terms(settings.store.path)), end="")
    else:
        known, archived = admission.channels(settings.store.path), settings.archive is not None
        guarantees = [
            guarantee.of(stream, events, known, config.others_per_day(settings, stream), archived=archived)
            for stream in settings.stream
        ]
        print(facts.as_json(guarantees) if options.json else terminal.text(guarantees, settings))
    return common.EXIT_CONFIG if admission.refused(options.config, settings, sys.stderr) else 0


def _event(text: str) -> event.Event:
    try:
        return event.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _known_terms(path: Path) -> dict[str, list[Terms]] | None:
    """Return the terms that a store knows, by stream; None where there is none that may be read."""
    if not os.access(path, os.R_OK):
        return None
    with read_only(path) as connection:
        return terms(connection)
