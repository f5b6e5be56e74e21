"""The `key` command: create or show an archive key, or forget its past epochs."""

import argparse
from collections.abc import Callable
from datetime import UTC, date, datetime

from meteragent.archive import key as keys
from meteragent.cli import common, exit_codes
from meteragent.domain import grid

_FORGOTTEN = """\
{path}: the key now begins with {begins}. It can no longer release earlier windows or remove their noise.
The old file was overwritten, but copies may remain in backups, snapshots and flash, and on other machines."""

_EXISTS = """\
{path}: file exists. Choose another name; `meteragent key show {path}` shows that key.
Do not delete a key that has released anything: its windows could be released again, with different noise."""

_EPOCH = date(1970, 1, 1)
Now = Callable[[], datetime]


def run(options: argparse.Namespace, now: Now = lambda: datetime.now(UTC)) -> int:
    """Run the action; return the exit code. Raises KeyRefused if the file is not a private key file."""
    try:
        return _ACTIONS[options.action](options, now)
    except OSError as error:
        return exit_codes.fail(f"{options.file}: {(error.strerror or 'cannot be used').lower()}")


def _new(options: argparse.Namespace, now: Now) -> int:
    """Create a key and its ledger, and show the key; return 0, or 1 if the file exists."""
    try:
        keys.create_key(options.file, options.tenant, options.every, options.begin or _EPOCH)
        keys.create_ledger(keys.ledger_folder(options.file))
    except FileExistsError:
        return exit_codes.fail(_EXISTS.format(path=options.file))
    return _show(options, now)


def _show(options: argparse.Namespace, now: Now) -> int:
    """Print a key's tenant, its epochs and today's public id."""
    key = keys.Key.load(options.file)
    key_today = key.without(_start_ms(now().date()))
    start_text = f"beginning with {key.first_epoch}" if key.first else "for windows of any age"
    print(f"{options.file}: tenant {key.tenant}, one epoch per {key.epoch_unit}, {start_text}")
    print(f"id for {key_today.first_epoch}: {key_today.epoch(key_today.first).id}")
    return 0


def _forget(options: argparse.Namespace, now: Now) -> int:
    """Erase the keys of epochs that end by a date; return 0, or 1 if the date is after today."""
    if options.before > now().date():
        return exit_codes.fail("--before is later than today, so today's windows could not be released")
    key = keys.Key.load(options.file)
    if key.without(_start_ms(options.before)).first == key.first:
        print(f"{options.file}: nothing to forget, because the key begins with {key.first_epoch}")
        return 0
    remaining_key = keys.forget_epochs(options.file, _start_ms(options.before))
    print(_FORGOTTEN.format(path=options.file, begins=remaining_key.first_epoch))
    return 0


def _start_ms(day: date) -> int:
    """Return the start of a UTC day, in Unix ms."""
    return grid.parse_time(f"{day}T00:00:00Z")


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError("a date such as 2026-01-31") from None


parse_tenant, parse_date = common.argument(keys.check_tenant), common.argument(_date)


_ACTIONS = {"new": _new, "show": _show, "forget": _forget}
