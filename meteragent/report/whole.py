"""The guarantees of a configuration's streams, with the errors that depend on other streams and tariffs.

A receiver gets further numbers by combining nested streams (`consume.nested`).
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise

from meteragent import config
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, UNIT_FACTOR
from meteragent.privacy import nested
from meteragent.privacy.nested import Node, Path
from meteragent.report import guarantee, tariffs
from meteragent.report.event import EVENTS, Event
from meteragent.report.format import MEAN_W
from meteragent.report.guarantee import Error, Guarantee, make_error


def compute_whole_guarantee(
    settings: config.Config,
    stream: config.Stream,
    events: Sequence[Event] = EVENTS,
    stored_streams: Collection[str] = (),
) -> Guarantee:
    """Compute the guarantee of a configuration's stream; `stored_streams` are the names in the store."""
    charges = config.other_charges_per_day(settings, stream)
    is_archived = settings.archive is not None
    promise = guarantee.compute_guarantee(stream, events, stored_streams, charges, is_archived=is_archived)
    return replace(
        promise,
        errors={**promise.errors, **combined_errors(settings, stream, promise.terms)},
        tariffs=tariffs.tariff_errors(stream, promise.terms, config.tariffs_of(settings, stream)),
    )


def nested_path(settings: config.Config, stream: config.Stream) -> Path:
    """Return the path to a stream's numbers in the tree of nested streams; () if the stream is not nested."""
    streams = settings.nested_with(stream)
    if len(streams) < 2:
        return ()
    terms = [config.terms(part) for part in streams]
    counts = [coarse.length_ms // fine.length_ms for fine, coarse in pairwise(terms)]
    path = nested.regular_path([Node(part.mechanism, part.rounding, _kwh(part)) for part in terms], counts)
    [index] = [index for index, part in enumerate(streams) if part is stream]
    return path[: len(path) - index]


def combined_errors(settings: config.Config, stream: config.Stream, terms: Terms) -> dict[str, Error]:
    """Return the errors of numbers that a receiver combines with those of the other nested streams."""
    path = nested_path(settings, stream)
    if not path:
        return {}
    per_kwh, unit, home_value = 1 / _kwh(terms), terms.value_unit, 0.0
    if terms.length_ms >= DAY_MS:
        per_kwh, unit, home_value = 1.0, "kWh", MEAN_W * terms.length_ms / HOUR_MS / 1000
    return {
        "combined": make_error(nested.sd(path) * per_kwh, unit, home_value),
        "combined_ci95": make_error(nested.half_width(path) * per_kwh, unit, 0.0),
    }


def _kwh(terms: Terms) -> float:
    """Return the energy, in kWh, of one unit of a window's value."""
    hours = 1.0 if terms.is_energy else terms.length_ms / HOUR_MS
    return float(UNIT_FACTOR[terms.readings.unit]) * hours / 1000
