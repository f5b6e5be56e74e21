"""The command `ledger`: show the privacy spent, or repair a store that was restored or moved."""

import argparse
import json

from meteragent import config
from meteragent.cli import common
from meteragent.domain import grid
from meteragent.store import ledger, moved, read_only, restored_at


def run(options: argparse.Namespace) -> int:
    """Print the privacy spent, or repair the store."""
    path = config.load(options.config).store.path
    if options.restored_at is not None:
        restored_at(path, at_ms=options.restored_at, now_ms=common.now_ms())
        print(f"{path}: nothing before {grid.iso_time(options.restored_at)} is released again")
        return 0
    if options.moved:
        print(f"{path}: " + ("accepted where it is now" if moved(path) else "has not moved: nothing to do"))
        return 0
    with read_only(path) as connection:
        unknown_ms, opened_to_ms = ledger.unknown_before_ms(connection), ledger.opened_to_ms(connection)
        rows = [_row(charges) for charges in ledger.report(connection, meter=options.meter)]
    unknown, opened_to = (None if t is None else grid.iso_time(t) for t in (unknown_ms, opened_to_ms))
    if options.json:
        print(json.dumps({"unknown_before": unknown, "opened_to": opened_to, "spent": rows}, indent=2))
        return 0
    if unknown is not None:
        print(f"What was spent before {unknown} is not known: the store was lost or restored.")
    heads = ("METER", "DAY (UTC)", "STREAM", "WINDOWS", "EPSILON (1/W)")
    for row in (heads, *(row.values() for row in rows)):
        print("{:<20} {:<10} {:<12} {:>7}  {}".format(*row))
    return 0


def _row(charges: ledger.Spent) -> dict[str, str | int]:
    """Return a line of the ledger in its JSON form."""
    names = ("meter", "day", "stream", "windows", "epsilon_per_w")
    day, epsilon = grid.iso_time(charges.start_ms)[:10], str(charges.epsilon_per_w)
    return dict(zip(names, (charges.meter, day, charges.stream, charges.windows, epsilon), strict=True))


def parse_time_ms(text: str) -> int:
    """Parse a time, or the word `now`."""
    if text == "now":
        return common.now_ms()
    try:
        return grid.parse_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
