"""The `ledger` command: show the privacy spent, or repair a store that was restored or moved."""

import argparse
import json
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction

from meteragent import config
from meteragent.cli import common
from meteragent.domain import grid
from meteragent.domain.figures import exact_text, three_figures
from meteragent.domain.terms import Terms
from meteragent.report.format import energy_text
from meteragent.service import boot_clock
from meteragent.store import commands, ledger, read_only, restore_at, stored_terms


def run(options: argparse.Namespace) -> int:
    """Print the privacy spent, or repair the store; return 0. Raises StoreError without a usable store."""
    settings = config.load(options.config)
    path = settings.store.path
    if options.restored_at is not None:
        restore_at(path, at_ms=options.restored_at, now_ms=boot_clock.wall_ms())
        print(f"{path}: nothing before {grid.iso_time(options.restored_at)} will be released again")
        return 0
    if options.moved:
        has_moved = commands.accept_moved(path)
        outcome = "accepted where it is now" if has_moved else "has not moved: nothing to do"
        print(f"{path}: {outcome}")
        return 0
    with read_only(path) as connection:
        unknown_ms, opened_to_ms = ledger.unknown_before_ms(connection), commands.opened_to_ms(connection)
        period_charges = list(commands.day_charges(connection, options.meter))
        levels = _levels_per_kwh(period_charges, _largest_levels(settings, stored_terms(connection)))
    rows = [_row(charges) for charges in period_charges]
    unknown, opened_to = (None if t is None else grid.iso_time(t) for t in (unknown_ms, opened_to_ms))
    if options.json:
        levels_text = {meter: exact_text(level) for meter, level in levels.items()}
        report = {"unknown_before": unknown, "opened_to": opened_to, "spent": rows}
        print(json.dumps(report | {"level_per_kwh": levels_text}, indent=2))
        return 0
    if unknown is not None:
        print(f"The privacy spent before {unknown} is unknown, because the store was lost or restored.")
    terms_of = {stream.name: config.terms(stream) for stream in settings.stream}
    table = [
        (*row.values(), _level(charges, terms_of)) for row, charges in zip(rows, period_charges, strict=True)
    ]
    headings = ("METER", "DAY (UTC)", "STREAM", "WINDOWS", "EPSILON (1/W)", "LEVEL")
    for row in (headings, *table):
        print("{:<20} {:<10} {:<12} {:>7}  {:<14} {}".format(*row))
    for name, rules in terms_of.items():
        print(
            f"LEVEL of stream {name}: the level of a change of {energy_text(rules.hides_wh)} in each window."
        )
    for meter, level in levels.items():
        print(f"{meter}: a change costs a level of at most {three_figures(level)} per kWh.")
    return 0


def _level(charges: commands.DayCharge, terms_of: Mapping[str, Terms]) -> str:
    """Return the level that a row's epsilon has at the configured radius, or "-" if unknown (law 6)."""
    terms = terms_of.get(charges.stream)
    return "-" if terms is None else three_figures(charges.epsilon_per_w / terms.epsilon_per_w * terms.level)


def _largest_levels(settings: config.Config, stored: Mapping[str, Collection[Terms]]) -> dict[str, Fraction]:
    """Return, for each stream, the largest level per kWh among its configured and stored windows."""
    configured = {stream.name: config.distinct_terms(stream) for stream in settings.stream}
    return {
        name: 1000 * max(terms.level_per_wh for terms in [*configured.get(name, ()), *stored.get(name, ())])
        for name in configured.keys() | stored.keys()
    }


def _levels_per_kwh(
    period_charges: Iterable[commands.DayCharge], largest: Mapping[str, Fraction]
) -> dict[str, Fraction]:
    """Return, for each meter, the level per kWh of change, added up over all streams that charged the meter.

    At most one window of each stream covers any instant, so one window per stream is added.
    """
    streams = dict.fromkeys((charges.meter, charges.stream) for charges in period_charges)
    levels: dict[str, Fraction] = {}
    for meter, stream in streams:
        levels[meter] = levels.get(meter, Fraction(0)) + largest.get(stream, Fraction(0))
    return levels


def _row(charges: commands.DayCharge) -> dict[str, str | int]:
    """Return a period's charges as a row of the JSON report."""
    names = ("meter", "day", "stream", "windows", "epsilon_per_w")
    day, epsilon = grid.iso_time(charges.start_ms)[:10], str(charges.epsilon_per_w)
    return dict(zip(names, (charges.meter, day, charges.stream, charges.windows, epsilon), strict=True))


@common.argument
def parse_time_ms(text: str) -> int:
    """Parse a time, in Unix ms, or the word `now`."""
    if text == "now":
        return boot_clock.wall_ms()
    try:
        return grid.parse_time(text)
    except ValueError:
        raise ValueError("`now`, or a time with its zone, such as 2026-11-20T12:00:00Z") from None
