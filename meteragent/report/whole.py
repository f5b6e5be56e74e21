"""The guarantees of a configuration's streams, with the errors that depend on other streams and tariffs."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from meteragent import config
from meteragent.report import combined, guarantee, tariffs
from meteragent.report.event import EVENTS, Event
from meteragent.report.guarantee import Guarantee


def of(
    settings: config.Config,
    stream: config.Stream,
    events: Sequence[Event] = EVENTS,
    stored_streams: Collection[str] = (),
) -> Guarantee:
    """Compute the guarantee of a configuration's stream, released by the agent or from an archive.

    `stored_streams` are the names of the streams in the store.
    """
    other_charges = config.others_per_day(settings, stream)
    archived = settings.archive is not None
    promise = guarantee.of(stream, events, stored_streams, other_charges, archived=archived)
    return replace(
        promise,
        errors={**promise.errors, **combined.errors(settings, stream, promise.terms)},
        tariffs=tariffs.of(stream, promise.terms, config.tariffs(settings, stream)),
    )
