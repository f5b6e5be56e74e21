"""A stream's promise and its cost, as one value (law 8).

`compute_guarantee` computes it once, before anything is released; the terminal, the statement, the page, the
plan and the demo only display it.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import NamedTuple

from meteragent import config
from meteragent.crowd.error import crowd_sd as sd_of_crowd
from meteragent.domain import loads
from meteragent.domain.identity import Shard
from meteragent.domain.prices import cut_at_prices
from meteragent.domain.shapes import Amount, Share
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, MICRO, UNIT_FACTOR
from meteragent.privacy.in_all import success_in_all
from meteragent.privacy.inference import success_bound_of_runs
from meteragent.report import warn
from meteragent.report.event import EVENTS, Event, distance_runs
from meteragent.report.format import MEAN_W
from meteragent.wire.descriptor import TermsDescriptor, describe_terms

MONTH_DAYS = 30
CROWDS = (100, 1000)
"""The numbers of homes over which means are taken."""
REPETITIONS = (1, 14, 30)
"""The numbers of days on which an event happens: once, daily for two weeks, daily for a month."""
USEFUL_ERROR_SHARE = 0.1
"""An error below this share of an average home's value is marked as useful."""
IN_ALL_SHARE = Fraction(1, 100)
"""If readings and rounding add at most this share to a change by the hidden energy, the promise for a change
over all slots is stated without a limit on the number of days."""
HARDLY_HIDDEN_AT_PERCENT = 90
"""An event is hardly hidden once an attacker can be right this often, in per cent."""
REVEALED_FROM = 0.999
"""An event with a success limit above this probability is shown as not hidden."""
_ROUNDING = 1e-6


class Error(NamedTuple):
    """One standard deviation of a number, or the half-width of its 95% interval.

    `is_useful`: the error is small compared with an average home's value; it is False for half-widths.
    """

    value: float
    unit: str
    is_useful: bool


class Exposure(NamedTuple):
    """An attacker's success limit for an event, in per cent, by the number of days on which it happens.

    `revealed_days` are those numbers of days for which the limit is above 99.9%, so nothing is hidden.
    """

    event: Event
    success_percent: Mapping[int, int]
    revealed_days: Collection[int]


class InAllCost(NamedTuple):
    """The level of a change whose energies in all slots of `days` days add up to the hidden energy."""

    days: int
    slots: int
    level: Fraction
    success_percent: int


class Fleet(NamedTuple):
    """The meters of an agent in a fleet: all on a topic filter or, if `is_hashed`, a part of them."""

    shard: Shard
    topic_filter: str
    is_hashed: bool


class TariffCost(NamedTuple):
    """The error of a month's cost under a tariff: one standard deviation, and the 95% half-width."""

    tariff: str
    sd: float
    ci95: float


class TariffPair(NamedTuple):
    """The smallest true difference between two tariffs' costs that will be recognised.

    In 95% of months, the released difference then has the right sign and a p-value of at most 5%.
    """

    tariffs: tuple[str, str]
    recognised: float


class TariffErrors(NamedTuple):
    """The errors of a month's costs, in `currency`; if `has_unknown`, energy may lack band and price."""

    currency: str
    windows: int
    has_unknown: bool
    costs: tuple[TariffCost, ...]
    pairs: tuple[TariffPair, ...]


@dataclass(frozen=True)
class Guarantee:
    """The promise of a stream, its errors, an attacker's success limits for events, and its warnings.

    `errors` uses the names of the JSON: `number` and `ci95` in the unit, `day_kwh` and `month_kwh` for
    totals, `month_total` for amounts in the unit, `mean_of_100` and `mean_of_1000` for one slot over that
    many homes, and `combined` and `combined_ci95` for combined numbers of nested streams. A stream of a crowd
    has only the means, and energies above a threshold have no totals. `parts` is the formula that adds and
    subtracts several topics, if any. `warn_of_stream` returns the warnings about the settings.
    """

    stream: str
    fleet: Fleet | None
    parts: str | None
    descriptor: TermsDescriptor
    errors: Mapping[str, Error]
    exposures: tuple[Exposure, ...]
    in_all: tuple[InAllCost, ...]
    warn_of_stream: Callable[[], Sequence[str]] = field(compare=False, repr=False)
    tariffs: TariffErrors | None = None

    @property
    def terms(self) -> Terms:
        """The terms of an ordinary window."""
        return self.descriptor.terms

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings, in the language of the text."""
        return tuple(self.warn_of_stream())

    @property
    def is_archive(self) -> bool:
        """Whether the stream is released by `sanitise`, with noise from a key, instead of by the agent."""
        return bool(self.descriptor.facts["noise"] == "prf")

    @property
    def meter_epsilon_per_day(self) -> Fraction | None:
        """The daily charge, in 1/W, of a meter that all streams read; None if no other stream charges it."""
        return self.terms.epsilon_per_w_day + self.terms.others_per_day if self.terms.others_per_day else None

    def level_in(self, days: int) -> Fraction:
        """Return the average total level of the windows in `days` days."""
        return self.terms.level * days * DAY_MS / self.terms.length_ms

    @cached_property
    def unknown_of_loads(self) -> tuple[str, ...]:
        """The missing keys that would state how closely readings follow the load."""
        return loads.unknown_keys(self.terms)

    @cached_property
    def level_of_loads(self) -> Fraction:
        """The level at which a change in the load itself is hidden, as far as is known."""
        return self.terms.level * loads.level_factor(self.terms)

    @cached_property
    def level_of_curves(self) -> Fraction | None:
        """The level for two load curves that differ by the radius; None if the dead band is unknown or 0."""
        return loads.level_of_curves(self.terms) if self.terms.readings.dead_band else None

    @property
    def step(self) -> Fraction:
        """The dead band of the power, or the sum of the steps of all energy counters, in the unit."""
        return (self.terms.readings.dead_band or Fraction(0)) * self.terms.readings.counters

    @property
    def level_of_step(self) -> Fraction:
        """The level of the step by which each slot (in l1, each window) may still differ after a change."""
        return self.terms.epsilon * loads.step_wh(self.terms) / loads.wh_per_unit(self.terms)

    @property
    def is_in_all(self) -> bool:
        """Whether the promise for a change over all slots needs no limit on days (see `IN_ALL_SHARE`)."""
        terms, slots = self.terms, self.in_all[-1].slots
        rounding_wh = loads.rounding_wh(terms) if terms.rounding == "half-up" else 0
        added_wh = loads.in_all_wh(terms, terms.hides_wh, slots) - terms.hides_wh + slots * rounding_wh
        return added_wh <= IN_ALL_SHARE * terms.hides_wh

    @property
    def follows_loads(self) -> bool:
        """Whether the promise holds for the load as it does for the readings."""
        is_exact = not self.unknown_of_loads and self.level_of_curves is None
        return is_exact and self.level_of_loads == self.terms.level


def compute_guarantee(
    stream: config.Stream,
    events: Sequence[Event] = EVENTS,
    stored_streams: Collection[str] = (),
    other_charges: Fraction = Fraction(0),
    *,
    is_archived: bool = False,
) -> Guarantee:
    """Compute a stream's guarantee, and an attacker's success limits for events.

    `stored_streams` are the names of the streams in the store. `other_charges` is the daily charge, as
    epsilon in 1/W, of the configuration's other streams on a meter that all of them read. If `is_archived`,
    the configuration has an [archive], and `sanitise` releases the stream. `report.whole` adds what depends
    on the configuration's other streams and tariffs.
    """
    terms = config.terms(stream, other_charges, "half-up" if is_archived else "dithered")
    shard, topic = stream.source.shard, config.topic_of(stream.source)
    return Guarantee(
        stream.name,
        None if shard is None else Fleet(shard, topic.filter, topic.shard is not None),
        config.topics_formula(stream.source) if stream.source.part else None,
        describe_terms(terms, is_archive=is_archived),
        dict(_errors(terms)),
        tuple(_exposure(event, terms) for event in events),
        tuple(_in_all(terms)),
        partial(warn.stream_warnings, stream, terms, stored_streams, is_archived=is_archived),
    )


# Errors -------------------------------------------------------------------------------------------


def _errors(terms: Terms) -> Iterator[tuple[str, Error]]:
    sds = {homes: terms.sd / math.sqrt(homes) for homes in CROWDS}
    unit, home_value = terms.value_unit, _home_value(terms)
    if isinstance(terms.shape, Share):  # no home's value is sent, and a total has the noise of both operators
        sds = {homes: sd_of_crowd(terms.mechanism, homes) / homes for homes in CROWDS}
        unit, home_value = "Wh", MEAN_W * terms.step_ms / HOUR_MS
    else:
        yield "number", make_error(terms.sd, unit, home_value)
        yield "ci95", make_error(terms.half_width(0.95), unit, 0.0)
        yield from _errors_of_sums(terms, home_value)
    for homes, sd in sds.items():
        yield f"mean_of_{homes}", make_error(sd, unit, home_value)


def _home_value(terms: Terms) -> float:
    """Return an average home's value, with which errors are compared; 0 if there is no such value."""
    if isinstance(terms.shape, Amount):
        pieces_u = cut_at_prices(terms.prices, terms.shape.default_u, 0, terms.length_ms)
        absolute = sum(abs(price_u) * (to_ms - from_ms) for from_ms, to_ms, price_u in pieces_u)
        return absolute / MICRO * MEAN_W / HOUR_MS / 1000
    if not terms.shape.counts_all:
        return 0.0
    return MEAN_W * terms.step_ms / HOUR_MS / 1000 / min(_kwh_per_unit(terms))


def _errors_of_sums(terms: Terms, home_value: float) -> Iterator[tuple[str, Error]]:
    """Yield the errors of the sums of a day's and a month's values."""
    is_filled = sum(map(terms.slot_ms, range(terms.n))) == terms.length_ms
    for name, days in (("day_kwh", 1), ("month_kwh", MONTH_DAYS)):
        windows = days * DAY_MS / terms.length_ms
        sd = terms.sd * math.sqrt(windows)
        if windows >= 1 and isinstance(terms.shape, Amount) and days == MONTH_DAYS:
            yield "month_total", make_error(sd, terms.value_unit, home_value * windows)
        elif windows >= 1 and terms.shape.is_additive and is_filled:
            yield (name, make_error(sd * math.hypot(*_kwh_per_unit(terms)), "kWh", MEAN_W * 24 * days / 1000))


def make_error(value: float, unit: str, home_value: float) -> Error:
    """Return an error; it is compared with `home_value`, an average home's value, unless that is 0."""
    return Error(value, unit, value < USEFUL_ERROR_SHARE * home_value)


def _kwh_per_unit(terms: Terms) -> list[float]:
    """Return, for each slot of a window, the energy, in kWh, that one unit of its value stands for."""
    base = Fraction(UNIT_FACTOR[terms.readings.unit], 1000)
    hours = [1 if terms.is_energy else Fraction(terms.slot_ms(slot), HOUR_MS) for slot in range(terms.n)]
    return [float(base * part) for part in hours]


# Events -------------------------------------------------------------------------------------------


def _exposure(event: Event, terms: Terms) -> Exposure:
    repetitions = REPETITIONS if event.is_daily else REPETITIONS[:1]
    limits = {days: success_limit(event, terms, days) for days in repetitions}
    percent = {days: whole_percent(limit) for days, limit in limits.items()}
    return Exposure(event, percent, {days for days, limit in limits.items() if limit > REVEALED_FROM})


def success_limit(event: Event, terms: Terms, days: int) -> float:
    """Return an attacker's success limit, as a probability, for an event that happens on `days` days.

    Before the attack, it is equally likely that the event happened and that it did not. If an event starts
    just off the grid, its change is rounded up in two windows instead of one. To cover this, a quantum (in
    l1, a quantum for each slot) is added to every window if windows last a day or longer, otherwise to the
    window that the event changes least. If a window spans several days, the distances for these days add up.
    If each slot has its own dithered noise, the sum of all distances also bounds the limit (THEORY T.7). An
    event off the grid can touch one more window per day, so one step per day is added to this sum.
    """
    off_grid = terms.metric.norm([terms.quantum] * terms.n)
    step = loads.step_wh(terms) / loads.wh_per_unit(terms)
    if terms.length_ms < DAY_MS:
        repetitions, alignments = days, distance_runs(event, terms)
        moves = [
            [*larger, (nearest, count - 1), (nearest + off_grid, 1)]
            for *larger, (nearest, count) in alignments
        ]
    else:
        repetitions, alignments = 1, distance_runs(event, terms, days)
        moves = [[(distance + off_grid, count) for distance, count in runs] for runs in alignments]
    chance = max(success_bound_of_runs(terms.mechanism, move, repetitions) for move in moves)
    sums = (sum(distance * count for distance, count in runs) for runs in alignments)
    in_all = repetitions * max(sums) + days * step
    return _combined_limit(chance, terms, in_all)


def _combined_limit(chance: float, terms: Terms, in_all: Fraction) -> float:
    """Return `chance`, capped by the limit for a sum `in_all` if each slot has its own dithered noise."""
    is_smaller = terms.slots_per_bound == 1 and terms.rounding != "half-up"
    return min(chance, success_in_all(terms.mechanism, in_all)) if is_smaller else chance


def whole_percent(limit: float) -> int:
    """Return a success limit in per cent, rounded up."""
    return math.ceil(100 * limit - _ROUNDING)


def _in_all(terms: Terms) -> Iterator[InAllCost]:
    """Yield the costs of a change that adds up to the hidden energy in a day, a month or a longer window."""
    for days in (1, MONTH_DAYS):
        if terms.length_ms <= days * DAY_MS:
            yield _in_all_cost(terms, days, days * DAY_MS // terms.length_ms)
    if terms.length_ms > MONTH_DAYS * DAY_MS:
        yield _in_all_cost(terms, terms.length_ms // DAY_MS, 1)


def _in_all_cost(terms: Terms, days: int, windows: int) -> InAllCost:
    """Return the cost of a change that adds up to the hidden energy over `windows` windows."""
    slots, per_unit = windows * terms.n, loads.wh_per_unit(terms)
    step = loads.step_wh(terms) / per_unit
    # A change within one slot may also change every later window by one step.
    first = max(loads.distance_bound(terms, terms.hides_wh), step)
    chance = success_bound_of_runs(terms.mechanism, [(first, 1), (step, windows - 1)])
    level = loads.level_in_all(terms, terms.hides_wh, slots)
    change = loads.in_all_wh(terms, terms.hides_wh, slots) / per_unit
    return InAllCost(days, slots, level, whole_percent(_combined_limit(chance, terms, change)))
