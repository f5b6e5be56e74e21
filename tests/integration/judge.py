"""What is wrong with everything that was ever received."""

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Literal, NamedTuple

from tests.integration.plan import Plan, Reading, time_ms

Messages = Mapping[str, Sequence[bytes]]
Fed = Mapping[str, Sequence[Reading]]
Kind = Literal["missing", "surplus", "two values", "wrong", "disorder", "descriptor"]


class Violation(NamedTuple):
    """A broken promise.

    missing      a slot that was never released         surplus   a record that nothing was fed for
    two values   of one slot, ever                      disorder  a slot came first after a later one
    wrong        a value off the lattice, or, where noise is negligible, a quantum or more off what was fed
    descriptor   one that is missing, or has changed
    """

    kind: Kind
    meter: str
    start_ms: int | None = None


def violations(plan: Plan, fed: Fed, messages: Messages) -> list[Violation]:
    """Return all violations by messages, which are all that were received, by topic, in order of arrival."""
    return [violation for meter in fed for violation in _of_meter(plan, meter, fed[meter], messages)]


def _of_meter(plan: Plan, meter: str, readings: Sequence[Reading], messages: Messages) -> Iterator[Violation]:
    released, truth = slots(plan, meter, messages), plan.truth(readings)
    yield from (Violation("missing", meter, start) for start in truth.keys() - released.keys())
    yield from (Violation("surplus", meter, start) for start in released.keys() - truth.keys())
    yield from (Violation("two values", meter, start) for start, forms in released.items() if len(forms) > 1)
    yield from (Violation("disorder", meter, then) for before, then in pairwise(released) if then < before)
    for start in truth.keys() & released.keys():
        values = [value(payload) for payload in released[start]]
        if any(v % 1 or (plan.is_exact and abs(Fraction(v) - truth[start]) >= 1) for v in values):
            yield Violation("wrong", meter, start)
    below = f"{plan.topic(meter)}/privacy"
    described = [set(payloads) for topic, payloads in messages.items() if topic.startswith(below)]
    if [len(payloads) for payloads in described] != [1, 1]:
        yield Violation("descriptor", meter)


def slots(plan: Plan, meter: str, messages: Messages) -> dict[int, set[bytes]]:
    """Return the distinct payloads of each slot, in order of first arrival."""
    released: dict[int, set[bytes]] = {}
    for payload in messages.get(plan.topic(meter), ()):
        released.setdefault(time_ms(json.loads(payload)["t"]), set()).add(payload)
    return released


def value(payload: bytes) -> Decimal:
    """Return a record's exact value."""
    return Decimal(json.loads(payload, parse_float=Decimal)["value"])


def dither(plan: Plan, fed: Fed, messages: Messages) -> tuple[float, float]:
    """Return the sum of value - truth over all slots without noise, and its variance if the dither is right.

    A slot of remainder f is 1 - f off with the chance f and -f else: f (1 - f) is its variance, the mean 0.
    """
    offs, variance = Fraction(0), Fraction(0)
    for meter, readings in fed.items():
        released = slots(plan, meter, messages)
        for start, true in plan.truth(readings).items():
            if start in released:
                offs += Fraction(value(next(iter(released[start])))) - true
                variance += true % 1 * (1 - true % 1)
    return float(offs), float(variance)


def noise(plan: Plan, fed: Fed, messages: Messages) -> list[list[int]]:
    """Return value minus whole quanta of the truth, of 1 W, for each slot of each complete window.

    That is noise and dither: up to one quantum more than the noise.
    """
    windows = []
    for meter, readings in fed.items():
        released, truth = slots(plan, meter, messages), plan.truth(readings)
        differences = [int(value(next(iter(released[s])))) - floor(true) for s, true in truth.items()]
        windows += [differences[at : at + plan.n] for at in range(0, len(differences) - plan.n + 1, plan.n)]
    return windows
