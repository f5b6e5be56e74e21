"""`meteragent ledger CONFIG`: what was spent per meter and period; stores that were restored or moved."""

import argparse
import json

from meteragent import config
from meteragent.cli import common
from meteragent.domain import grid
from meteragent.store import ledger, moved, read_only, restored_at


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `ledger`."""
    common.add_config(parser)
    parser.add_argument("--meter", help="this meter only")
    parser.add_argument("--json", action="store_true", help="the same facts as JSON")
    mending = parser.add_mutually_exclusive_group()
    mending.add_argument(
        "--restored-at",
        metavar="TIME",
        type=_time_or_now_ms,
        help="make a restored store usable: nothing before TIME (RFC 3339, or now) is released again",
    )
    mending.add_argument("--moved", action="store_true", help="accept a store that you have moved")


def run(options: argparse.Namespace) -> int:
    """Print what was spent, or mend the store."""
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
        rows = [_row(spent) for spent in ledger.report(connection, meter=options.meter)]
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


def _row(spent: ledger.Spent) -> dict[str, str | int]:
    names = ("meter", "day", "stream", "windows", "epsilon_per_w")
    day, epsilon = grid.iso_time(spent.start_ms)[:10], str(spent.epsilon_per_w)
    return dict(zip(names, (spent.meter, day, spent.channel, spent.windows, epsilon), strict=True))


def _time_or_now_ms(text: str) -> int:
    if text == "now":
        return common.now_ms()
    try:
        return grid.parse_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
