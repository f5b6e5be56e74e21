"""What a report says about each kind of window and each metric, and how an audit tests a kind."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from meteragent.domain.figures import exact_text
from meteragent.domain.metric import Metric
from meteragent.domain.prices import CONSTANT_U
from meteragent.domain.shapes import PriceSource, Shape, Space
from meteragent.domain.terms import Terms
from meteragent.domain.units import MICRO, UNIT_FACTOR
from meteragent.report.format import full_text, localise
from meteragent.report.language import say


class ShapeRow(NamedTuple):
    """The keys of the texts about one kind of window, and its terms in an audit.

    number     what is sent, if it is one number
    numbers    what is sent, if there are several
    slot       where energy is hidden: in a slot, a band or a part
    values     the noun for the values; None: means or energies of slots
    in_all     where energy is hidden in l1
    large      the sentence about changes that are not hidden, in l1
    distance   the promise for two loads at a distance, if it is stated
    first      sentences before the promise
    about      sentences after the promise
    repeats    sentences after those about how levels add
    exposed    further sentences about what is not hidden
    figures    the values of those placeholders of the texts that follow from the shape
    plain_sum  for an audit: terms of the same kind under which a value is the plain sum of its readings, the
               divisor of accumulators, and the quanta to subtract from a value
    """

    number: str = "stream.one_number"
    numbers: str = "stream.numbers"
    slot: str = "stream.slot"
    values: str | None = None
    in_all: str = "promise.in_all"
    large: str = "hidden.large_in_all"
    distance: str | None = None
    first: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    repeats: tuple[str, ...] = ()
    exposed: tuple[str, ...] = ()
    figures: Callable[[Any], Mapping[str, str]] = lambda _: {}
    plain_sum: Callable[[Terms], tuple[Terms, int, int]] = lambda terms: (terms, 1, 0)


_LOW_QUANTA = 1 << 40
"""How far below 0 an audit's threshold lies, in quanta per ms; all readings are above the threshold."""


def _of_one_part(terms: Terms) -> tuple[Terms, int, int]:
    """Return terms under which a window has one part."""
    shape: Any = terms.shape
    return replace(terms, shape=replace(shape, length_ms=shape.step_ms)), 1, 0


def _of_one_price(terms: Terms) -> tuple[Terms, int, int]:
    """Return terms under which an amount has one constant price."""
    shape: Any = terms.shape
    constant = replace(shape, source=PriceSource.TABLE, default_u=CONSTANT_U)
    return replace(terms, shape=constant, prices=()), CONSTANT_U, 0


def _below_readings(terms: Terms) -> tuple[Terms, int, int]:
    """Return terms under which the threshold lies below all readings."""
    shape: Any = terms.shape
    threshold_w = (
        -_LOW_QUANTA * Fraction(terms.steps_per_quantum[0], MICRO) * UNIT_FACTOR[terms.readings.unit]
    )
    return replace(terms, shape=replace(shape, threshold_w=threshold_w)), 1, _LOW_QUANTA * terms.length_ms


ROWS: dict[Space, ShapeRow] = {
    Space.LINF: ShapeRow(),
    Space.CURVE: ShapeRow(numbers="stream.curve", distance="promise.curves"),
    Space.PROFILE: ShapeRow(numbers="stream.profile", slot="stream.band"),
    Space.BANDS: ShapeRow(numbers="stream.bands", slot="stream.band"),
    Space.WEIGHTED: ShapeRow(
        number="stream.one_amount",
        values="promise.amounts",
        in_all="promise.in_all_amount",
        large="hidden.large_in_amount",
        about=("promise.prices",),
        figures=lambda shape: {
            "bound": f"{localise(exact_text(Fraction(shape.bound_u, MICRO)))} {shape.currency}"
        },
        plain_sum=_of_one_price,
    ),
    Space.PEAK: ShapeRow(
        number="stream.peak",
        slot="stream.part",
        values="promise.part_means",
        repeats=("promise.restarts_add",),
        plain_sum=_of_one_part,
    ),
    Space.ABOVE: ShapeRow(
        number="stream.above",
        values="promise.energies_above",
        about=("promise.threshold",),
        figures=lambda shape: {"threshold": f"{full_text(shape.threshold_w)} W"},
        plain_sum=_below_readings,
    ),
    Space.SHARE: ShapeRow(
        number="stream.share",
        first=("promise.crowd",),
        exposed=("hidden.crowd_collusion", "hidden.crowd_kept", "hidden.crowd_presence", "hidden.crowd_lies"),
    ),
}


class MetricRow(NamedTuple):
    """The keys of the texts about one metric; for None, the shape's row has the key (`in_all` or `large`).

    where     where energy is hidden
    odds      the odds at the radius
    radius    the radius, as the distance of two windows
    stretch   the noun, slot or window, for the time in which a lasting shift adds to the level once
    large     the sentence about changes that are not hidden
    distance  the metric in words of the theory, which are not translated
    """

    where: str | None
    odds: str
    radius: str
    stretch: str
    large: str | None
    distance: str


_LINF = "promise.within", "promise.odds", "promise.radius", "in_all.slot", "hidden.large"
_L1 = None, "promise.odds_in_all", "promise.radius_in_all", "in_all.window", None
METRICS: dict[Metric, MetricRow] = {
    Metric.LINF: MetricRow(*_LINF, "largest difference"),
    Metric.L1: MetricRow(*_L1, "sum of the differences"),
}


def row_of(shape: Shape) -> ShapeRow:
    """Return the row of a shape's kind."""
    return ROWS[shape.space]


def shape_text(key: str, shape: Shape, **values: object) -> str:
    """Return a text about a shape, filled in with the shape's own figures and `values`."""
    return say(key, **row_of(shape).figures(shape), **values)
