"""A guarantee as facts for JSON, with the descriptor's names, and with exact numbers as strings."""

from fractions import Fraction
from typing import Any

from meteragent.domain import loads
from meteragent.domain.figures import exact_text
from meteragent.report import wording
from meteragent.report.format import round_up
from meteragent.report.guarantee import Exposure, Guarantee
from meteragent.wire.number import shorten


def facts_of(guarantee: Guarantee) -> dict[str, Any]:
    """Return the facts of a stream.

    Errors are standard deviations or, for `ci95` and `combined_ci95`, half-widths of 95% intervals, in the
    unit of values; `day_kwh`, `month_kwh`, and combined numbers for a day or longer are in kWh. Means over
    homes are for one slot. `tariffs` states the errors of a month's cost, and the differences recognised in
    95% of months at a p-value of 5%. `fit_for` names the errors that are small enough to be useful. For each
    event, `hidden` states an attacker's success limit in per cent (`right_of_100`) by number of days.
    """
    fleet = guarantee.fleet
    return {
        "stream": guarantee.stream,
        "id": guarantee.descriptor.id,
        **guarantee.descriptor.facts,
        **_load_facts(guarantee),
        **({"shard": str(fleet.shard), "shard_meters": wording.shard_phrase(fleet)} if fleet else {}),
        **({} if guarantee.parts is None else {"parts": guarantee.parts}),
        "errors": {name: shorten(error.value) for name, error in guarantee.errors.items()},
        **_tariff_facts(guarantee),
        "fit_for": [name for name, error in guarantee.errors.items() if error.is_useful],
        "hidden": [_exposure_facts(exposure) for exposure in guarantee.exposures],
        "warnings": [*guarantee.warnings],
        "does_not_hide": wording.exposed_sentences(guarantee),
    }


def _load_facts(guarantee: Guarantee) -> dict[str, Any]:
    """Return the facts about changes in the load, such as the level for each energy (Wh) added in a slot."""
    terms, facts = guarantee.terms, dict[str, Any]()
    if guarantee.level_of_curves is not None:
        facts |= {"dead_band": exact_text(guarantee.step), "level_of_curves": str(guarantee.level_of_curves)}
    levels = {str(wh): shorten(float(loads.level(terms, Fraction(wh)))) for wh in loads.CHANGES_WH.values()}
    factor, unknown = shorten(float(loads.level_factor(terms))), [*guarantee.unknown_of_loads]
    in_all = _in_all(guarantee)
    return facts | {"loads": {"factor": factor, "levels_of_wh": levels, "unknown": unknown, "in_all": in_all}}


def _in_all(guarantee: Guarantee) -> dict[str, Any]:
    """Return the facts about a change whose sum over all slots is the hidden energy; levels are rounded up.

    `without_limits` states whether the promise for such a change holds for any number of days. `step_wh` is
    the energy by which each slot after the change may still differ.
    """
    periods = [
        {"days": days, "slots": slots, "level": shorten(float(round_up(level))), "right_of_100": percent}
        for days, slots, level, percent in guarantee.in_all
    ]
    step_wh = str(loads.step_wh(guarantee.terms))
    return {"without_limits": guarantee.is_in_all, "step_wh": step_wh, "periods": periods}


def _tariff_facts(guarantee: Guarantee) -> dict[str, Any]:
    errors = guarantee.tariffs
    if errors is None:
        return {}
    costs, pairs = ([part._asdict() for part in parts] for parts in (errors.costs, errors.pairs))
    month = {"currency": errors.currency, "windows": errors.windows, "costs": costs, "pairs": pairs}
    return {"tariffs": month}


def _exposure_facts(exposure: Exposure) -> dict[str, Any]:
    event, percent, _ = exposure
    return {
        "event": event.name,
        "watts": event.power_w,
        "wh": str(event.energy_wh),
        "source": event.source,
        "right_of_100": {str(days): limit for days, limit in percent.items()},
    }
