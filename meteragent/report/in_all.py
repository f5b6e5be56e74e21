"""The sentences about a change of the hidden energy in all, over many slots, and why it can cost more."""

from collections.abc import Iterator, Mapping

from meteragent.domain import loads
from meteragent.domain.shapes import Metric
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, Kind
from meteragent.report.catalogue import say
from meteragent.report.format import amount, duration, energy, full, odds, percent, rounded_up
from meteragent.report.guarantee import Guarantee


def sentences(guarantee: Guarantee) -> str:
    """Return the sentences about a change of the hidden energy, in all.

    They state the limit on the odds and, if the change costs more than the level, the reasons and the limit
    on an attacker's success.
    """
    terms, hidden_energy = guarantee.terms, energy(guarantee.terms.hides_wh)
    if guarantee.is_in_all:
        key = "in_all.hidden_in_readings" if guarantee.unknown_of_loads else "in_all.hidden"
        return say(key, energy=hidden_energy, odds=odds(rounded_up(guarantee.in_all[-1].level)))
    levels = {limit.days: odds(rounded_up(limit.level)) for limit in guarantee.in_all}
    chances = {limit.days: percent(str(limit.success_percent)) for limit in guarantee.in_all}
    limited = "in_all.limited_in_readings" if guarantee.unknown_of_loads else "in_all.limited"
    parts = (
        say(limited, energy=hidden_energy, limits=_joined_limits(levels, terms)),
        *_reasons(terms),
        say("in_all.success", limits=_joined_limits(chances, terms)),
        say("in_all.table") if terms.readings.dead_band else "",
    )
    return " ".join(filter(None, parts))


def _joined_limits(limits: Mapping[int, str], terms: Terms) -> str:
    """Join the limits, which are keyed by number of days; if all are equal, state the limit once.

    A limit is stated without a number of days only if it does not grow with the number of slots.
    """
    if len(set(limits.values())) == 1:
        if not loads.step_wh(terms) and terms.rounding != "half-up":
            return next(iter(limits.values()))
        limits = dict([max(limits.items())])
    texts = (
        say("in_all.over", limit=limit, duration=duration(days * DAY_MS)) for days, limit in limits.items()
    )
    return say("and").join(texts)


def _reasons(terms: Terms) -> Iterator[str]:
    """Yield a sentence for each reason why a change can cost more in all than its energy alone."""
    step_wh = loads.step_wh(terms)
    if step_wh:
        key = "in_all.dead_band" if terms.readings.kind is Kind.POWER else "in_all.step"
        step = amount(float(step_wh / loads.wh_per_unit(terms)), terms.value_unit)
        yield say(key, place=place(terms), step=step)
    hold_ms = terms.readings.longest_hold_ms
    if terms.readings.kind is Kind.POWER and hold_ms:
        more_wh = terms.readings.width_w * hold_ms / HOUR_MS
        yield say("in_all.sampled", period=duration(hold_ms), energy=energy(more_wh))
    if terms.rounding == "half-up":
        yield say("in_all.rounded", quantum=f"{full(terms.quantum)} {terms.value_unit}")


def place(terms: Terms) -> str:
    """Return the word for the stretch in which a lasting effect counts once: a slot or, in l1, a window."""
    return say("in_all.slot" if terms.metric is Metric.LINF else "in_all.window")
