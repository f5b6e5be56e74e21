"""The promise for loads: what a change of the load costs, where readings are sparse or count in coarse steps.

The level of a stream is a promise about what its readings say. `privacy.loads` says by how much a change of
the load can be more in the readings; here that is in a stream's terms. What is not known of a source
(`unknown`) is left out: the level is then at least what is stated.
"""

from fractions import Fraction
from math import ceil

from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS, MICRO, UNIT_FACTOR, Kind
from meteragent.privacy.loads import counted, sampled
from meteragent.privacy.stream import reported_radius

MOVES_WH = {"1 Wh": 1, "10 Wh": 10, "0.1 kWh": 100, "1 kWh": 1000}
"""The moves whose levels are stated."""


def width_w(terms: Terms) -> Fraction:
    """Return the width of the range of readings as power, in W."""
    width = Fraction(terms.high_u - terms.low_u, MICRO) * UNIT_FACTOR[terms.unit]
    return width if terms.kind is Kind.POWER else width * HOUR_MS / terms.interval_ms


def stands_ms(terms: Terms) -> int:
    """Return how long a reading of power stands at most; 0 where it is sent on change or nobody knows."""
    return min(terms.every_ms or 0, terms.hold_ms)


def counts(terms: Terms) -> int:
    """Return how many truncated numbers are in a slot's value: intervals, stretches of bands, counters."""
    places = range(terms.n if terms.bands else 1)
    if terms.kind is Kind.INTERVAL_ENERGY:
        return terms.counters * max(ceil(Fraction(terms.slot_ms(i), terms.interval_ms)) for i in places)
    return terms.counters * max(len(terms.stretches(i)) for i in places)


def distance(terms: Terms, moved_wh: Fraction) -> Fraction:
    """Return by how much a move of `moved_wh` within a slot can move the slot's value, in the unit."""
    if not moved_wh or terms.kind is not Kind.POWER:
        return as_said(terms, moved_wh / UNIT_FACTOR[terms.unit])
    energy_wh = sampled(moved_wh, width_w(terms), Fraction(stands_ms(terms), HOUR_MS))
    said = as_said(terms, energy_wh * HOUR_MS / terms.step_ms / UNIT_FACTOR[terms.unit])
    return min(said, width_w(terms) / UNIT_FACTOR[terms.unit])


def as_said(terms: Terms, moved: Fraction) -> Fraction:
    """Return by how much a slot's value can move as said, if as sampled or counted it moves by `moved`.

    A power may be within the dead band of what was sent last, an energy is counted in steps.
    """
    step = terms.dead_band or Fraction(0)
    if not moved or not step:
        return moved
    if terms.kind is Kind.POWER:
        return reported_radius(moved, step)
    most = None
    if terms.kind is Kind.REGISTER and terms.every_ms:
        most = width_w(terms) * Fraction(terms.every_ms, HOUR_MS) / UNIT_FACTOR[terms.unit]
    return counted(moved, step, counts(terms), most)


def level(terms: Terms, moved_wh: Fraction) -> Fraction:
    """Return the level of a move of `moved_wh` within a slot: epsilon times its distance on the lattice."""
    moved = distance(terms, moved_wh)
    return terms.epsilon * -(-moved // terms.quantum) * terms.quantum


def factor(terms: Terms) -> Fraction:
    """Return how many times its level a stream promises for a move of what it hides; at least 1."""
    return max(level(terms, terms.hides_wh) / terms.level, Fraction(1))


def level_of_curves(terms: Terms) -> Fraction:
    """Return the level for courses of the load that differ by at most the radius: r + 2 * step (DESIGN 2).

    The step is the dead band or that of a count. Of counts, each that is in a slot's value adds two steps;
    intervals that are rounded by themselves add one.
    """
    many = 1 if terms.kind is Kind.POWER else counts(terms)
    steps = max(2, many) if terms.kind is Kind.INTERVAL_ENERGY else 2 * many
    moved = terms.radius + steps * (terms.dead_band or 0)
    return terms.epsilon * ceil(moved / terms.quantum) * terms.quantum


def unknown(terms: Terms) -> tuple[str, ...]:
    """Return the keys of what is not known of the source, and would have to be for a promise about loads."""
    keys = []
    if terms.kind is Kind.POWER and terms.every_ms is None:
        keys.append("source.every")
    if terms.dead_band is None:
        keys.append("source.dead_band")
    return tuple(keys)
