"""Windows of bands as a receiver gets them, without an agent."""

import functools
from collections.abc import Mapping, Sequence

from meteragent import config
from meteragent.consume import Series, collect
from meteragent.domain.grid import parse_time
from meteragent.domain.schedule import Schedule
from meteragent.domain.shapes import UNKNOWN_BAND
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.support.configurations import written

JUNE_MS = parse_time("2026-05-31T22:00:00Z")
JULY_MS = parse_time("2026-06-30T22:00:00Z")
AUGUST_MS = parse_time("2026-07-31T22:00:00Z")
"""The starts of months in Amsterdam."""

BANDS = """
[[window.band]]
name = "day"
days = "mon-fri"
hours = ["07:00/23:00"]
[[window.band]]
name = "weekend"
days = "sat,sun"
hours = ["07:00/23:00"]
"""
REGISTER = "kind = 'register'\nunit = 'kWh'\nevery = '10s'\ndead_band = 0.001"
POWER = "hold = '60s'\nevery = '10s'\ndead_band = 1"


@functools.cache
def text_of_bands(privacy: str = "", length: str = "1mo", source: str = POWER, more: str = "") -> str:
    """Return a configuration of the preset `tariff` with three bands; `more` is appended to the file."""
    window = f"length = '{length}'\ntimezone = 'Europe/Amsterdam'\nrest = 'night'"
    return written(privacy=f"preset = 'tariff'\n{privacy}", window=window, source=source) + BANDS + more


@functools.cache
def schedule_of_bands(privacy: str = "", length: str = "1mo", source: str = POWER) -> Schedule:
    """Return the schedule of `text_of_bands`."""
    return config.schedule(config.parse(text_of_bands(privacy, length, source)).stream[0])


def received(schedule: Schedule, windows: Sequence[Mapping[str, int]], start_ms: int = JUNE_MS) -> Series:
    """Return the series of a meter that sent these quanta, by band in a mapping for each window."""
    assert schedule.first_start_ms(start_ms) == start_ms
    messages: list[bytes] = []
    for quanta in windows:
        shared = describe_terms(schedule.terms_at(start_ms))
        messages.append(shared.encode_message("m1", start_ms))
        for index, band in enumerate(shared.terms.places):
            value = quanta.get(band.name, 0) if band.name == UNKNOWN_BAND else quanta[band.name]
            messages.append(RecordFormat.of(shared).encode("m1", start_ms, index, value))
        start_ms = schedule.grid.end_ms(start_ms)
    return collect(messages)["m1"]
