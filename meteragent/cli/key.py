"""The command `key`: make the key of archives, say which it is, and forget its past."""

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

from meteragent.archive import key as keys
from meteragent.domain import grid

_NEW = "Make a key. Who has its file can take the noise off releases: see SECURITY.md."
_SHOW = "Say whose key it is, from when on it has one, and its public id today; never the secret."
_FORGET = "Throw away the key of all epochs before that of a date: nothing can be made from them again."

_FORGOTTEN = """\
{path}: begins with {begins}. Nothing before can be released again, or uncovered, with this file.
The old file was overwritten. Copies are not: backups, snapshots, flash and other machines may have it."""

Now = Callable[[], datetime]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `key`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def add(
        name: str, action: Callable[[argparse.Namespace, Now], int], text: str
    ) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=text, description=text)
        sub.add_argument("file", metavar="FILE", type=Path, help="the key's file")
        sub.set_defaults(action=action)
        return sub

    new = add("new", _new, _NEW)
    new.add_argument("--tenant", metavar="NAME", type=_tenant, required=True, help="whose windows they are")
    new.add_argument(
        "--from",
        metavar="DATE",
        dest="begin",
        type=_date,
        default=date(1970, 1, 1),
        help="default: all times",
    )
    new.add_argument(
        "--every", choices=tuple(keys.EPOCHS), default="month", help="how much `forget` forgets at a time"
    )
    add("show", _show, _SHOW)
    forget = add("forget", _forget, _FORGET)
    forget.add_argument("--before", metavar="DATE", type=_date, required=True, help="its epoch is kept")


def run(options: argparse.Namespace, now: Now = lambda: datetime.now(UTC)) -> int:
    """Do what is asked; returns the exit code. Raises KeyRefused when the file holds no key."""
    action: Callable[[argparse.Namespace, Now], int] = options.action
    try:
        return action(options, now)
    except OSError as error:
        print(f"meteragent: {options.file}: {(error.strerror or 'an error').lower()}", file=sys.stderr)
        return 1


def _new(options: argparse.Namespace, now: Now) -> int:
    keys.create(options.file, options.tenant, options.every, options.begin)
    return _show(options, now)


def _show(options: argparse.Namespace, now: Now) -> int:
    key = keys.Key.load(options.file)
    present = key.without(_start_ms(now().date()))
    print(f"{options.file}: tenant {key.tenant}, an epoch a {key.every}, begins with {key.begins}")
    print(f"id of {present.begins}: {present.epoch(present.first).id}")
    return 0


def _forget(options: argparse.Namespace, now: Now) -> int:
    if options.before > now().date():
        print("meteragent: that is later than today: windows of today could not be released", file=sys.stderr)
        return 1
    was = keys.Key.load(options.file)
    if was.without(_start_ms(options.before)).first == was.first:
        print(f"{options.file}: nothing to forget: begins with {was.begins}")
        return 0
    key = keys.forget(options.file, _start_ms(options.before))
    print(_FORGOTTEN.format(path=options.file, begins=key.begins))
    return 0


def _start_ms(day: date) -> int:
    return grid.parse_time(f"{day}T00:00:00Z")


def _tenant(text: str) -> str:
    try:
        return keys.check_tenant(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a date such as 2026-01-31, not {text!r}") from None
