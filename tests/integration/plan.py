"""What a test asks of the agent, and what must come of it, computed without the agent's code.

A plan is one stream by the event clock. Its truth is an exact sample-and-hold on integers: a reading
stands until the next, for at most HOLD_MS; time without one counts 0 (gap); a slot's value is the mean in
whole quanta of 1 W, or one more with the chance of the mean's remainder (the dither).
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import accumulate, pairwise
from math import floor
from typing import NamedTuple, Self

from tests.integration.service import stream

HOLD_MS = 900_000
MICRO = 10**6
SOURCE_TOPIC = "meters/{meter}/power"


class Reading(NamedTuple):
    """A power as it is sent: whole milliseconds, and watts in decimal."""

    time_ms: int
    watts: str

    @property
    def payload(self) -> bytes:
        """As JSON, the time in Unix seconds."""
        seconds, millis = divmod(self.time_ms, 1000)
        return f'{{"t": {seconds}.{millis:03d}, "power": {self.watts}}}'.encode()


@dataclass(frozen=True, slots=True)
class Plan:
    """One stream: its grid and how much noise; negligible (below 1e-40 a window) unless `noisy`."""

    name: str
    length_ms: int
    step_ms: int
    lateness_ms: int = 0
    level: int = 1000
    radius: int = 10

    @property
    def noisy(self) -> Self:
        """The same under another name with the noise of a real promise: level 1, radius 220 W."""
        return replace(self, name=f"{self.name}-noisy", level=1, radius=220)

    @property
    def is_exact(self) -> bool:
        """Whether the noise is negligible."""
        return self.level > 1

    @property
    def n(self) -> int:
        """Slots in a window."""
        return self.length_ms // self.step_ms

    @property
    def epsilon(self) -> Fraction:
        """In 1/W."""
        return Fraction(self.level, self.radius)

    def topic(self, meter: str) -> str:
        """Return the topic of a meter's records."""
        return f"private/{self.name}/{meter}"

    def toml(self, source_url: str, sink_url: str | None, source: str = "", sink: str = "") -> str:
        """Return the stream's configuration, with more lines for its source and its sink."""
        return stream(
            source_url,
            sink_url,
            name=self.name,
            source=f'hold = "{HOLD_MS}ms"\n{source}',
            window=f'length = "{self.length_ms}ms"\nstep = "{self.step_ms}ms"\n'
            f'lateness = "{self.lateness_ms}ms"\nclock = "event"',
            privacy=f"level = {self.level}\nradius = {self.radius}",
            sink=sink,
        )

    def truth(self, readings: Sequence[Reading]) -> dict[int, Fraction]:
        """Return the exact watts of every slot that must leave, by start, for readings in order of arrival.

        Windows begin at the first boundary at or after the first reading; slots leave once the
        newest reading has passed their end by `lateness`.
        """
        curve = Curve(readings)
        start_ms = -(-readings[0].time_ms // self.length_ms) * self.length_ms
        until_ms = max(r.time_ms for r in readings) - self.lateness_ms
        edges_ms = range(start_ms, until_ms + 1, self.step_ms)
        energies = [curve.energy(edge_ms) for edge_ms in edges_ms]
        means = (Fraction(end - begin, self.step_ms * MICRO) for begin, end in pairwise(energies))
        return dict(zip(edges_ms, means, strict=False))

    def opened(self, readings: Sequence[Reading]) -> list[int]:
        """Return the starts of the windows that must have been charged: those whose time has begun."""
        start_ms = -(-readings[0].time_ms // self.length_ms) * self.length_ms
        return list(range(start_ms, max(r.time_ms for r in readings) + 1, self.length_ms))


class Curve:
    """The integral of readings held for at most `hold_ms`, in millionths of a watt times milliseconds."""

    def __init__(self, readings: Iterable[Reading], hold_ms: int = HOLD_MS) -> None:
        ordered = sorted(readings)
        self._times_ms = [r.time_ms for r in ordered]
        self._values_u = [floor(Fraction(r.watts) * MICRO + Fraction(1, 2)) for r in ordered]
        next_ms = [*self._times_ms[1:], self._times_ms[-1] + hold_ms]
        self._held_ms = [min(b - a, hold_ms) for a, b in zip(self._times_ms, next_ms, strict=True)]
        spans = (value * span_ms for value, span_ms in zip(self._values_u, self._held_ms, strict=True))
        self._before = list(accumulate(spans, initial=0))

    def energy(self, time_ms: int) -> int:
        """Return the energy up to a time."""
        at = bisect_right(self._times_ms, time_ms) - 1
        if at < 0:
            return 0
        held_ms = min(time_ms - self._times_ms[at], self._held_ms[at])
        return self._before[at] + self._values_u[at] * held_ms


def time_ms(text: str) -> int:
    """Parse a record's time."""
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)
