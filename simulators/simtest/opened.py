"""The data that the invariants keep about opened windows and about messages that left."""

from dataclasses import dataclass, field
from typing import NamedTuple

from meteragent.domain.terms import Terms
from simulators.simtest.peak_run import PeakRun


class MessageKey(NamedTuple):
    """The topic and payload by which receivers distinguish messages."""

    topic: str
    payload: bytes


class Key(NamedTuple):
    """The key of a window: its stream, its meter and its start."""

    stream: str
    meter: str
    start_ms: int


@dataclass
class Window:
    """A window that was opened, with its noise and records so far.

    `public_id` is the meter's public name; `initial` is each slot's accumulator without energy, which is
    noise and dither. `is_lost` is whether the store was lost or restored, or the stream retired, before all
    slots closed.
    """

    terms: Terms
    public_id: str
    topic: str
    noise_bound: int | None = None
    draws: int = 0
    initial: dict[int, int] = field(default_factory=dict)
    records: dict[int, MessageKey] = field(default_factory=dict)
    is_lost: bool = False
    peak: PeakRun = field(default_factory=PeakRun)
