"""Streams of the local calendar, and what must come of each, computed without the agent's code.

A shape is one stream by the event clock. Its windows, and the bands of their days, are read off a wall
clock that is looked at every quarter of an hour: a window begins where the date first belongs to another
day or month, and a quarter of an hour belongs to the band whose hours that clock shows. What is in them
is an exact sample-and-hold on integers (`plan.Curve`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tests.integration.plan import MICRO, Curve, Reading
from tests.integration.service import stream

QUARTER_MS = 900_000
HOUR_MS = 4 * QUARTER_MS
DAY_MS = 24 * HOUR_MS
HOLD_MS = HOUR_MS * 3 // 2
LATENESS_MS = 2 * HOUR_MS
QUIET = 10**9
"""A level with noise that is zero but for a chance below e^-1000."""
USUAL_MS = {"1d": DAY_MS, "1mo": 30 * DAY_MS}


class Key(NamedTuple):
    """What a record says that it is of: its time, its duration, and its band or ''."""

    start_ms: int
    duration: str
    band: str


class Part(NamedTuple):
    """A slot of a window: what its record says, and the stretches of time in it, in ms."""

    key: Key
    stretches: tuple[tuple[int, int], ...]

    @property
    def duration_ms(self) -> int:
        """How long it lasts in all."""
        return sum(end - start for start, end in self.stretches)

    def energy_wh(self, curve: Curve) -> Fraction:
        """Return its energy."""
        energy = sum(curve.energy(end) - curve.energy(start) for start, end in self.stretches)
        return Fraction(energy, MICRO * HOUR_MS)


class Window(NamedTuple):
    """A window: from and to, and its slots."""

    start_ms: int
    end_ms: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """One stream: a day or a month of a zone, in equal blocks or in bands of the day."""

    name: str
    preset: str
    length: str
    zone: str
    hide_wh: int
    quantum: Fraction
    space: str = "linf"
    blocks: int = 1
    bands: tuple[tuple[int, int], ...] = ()
    level: int = QUIET

    @property
    def is_exact(self) -> bool:
        """Whether the noise is negligible."""
        return self.level > 1

    def topic(self, meter: str) -> str:
        """Return the topic of a meter's records."""
        return f"private/{self.name}/{meter}"

    def toml(self, url: str) -> str:
        """Return the stream's configuration."""
        return stream(
            url,
            name=self.name,
            source=f'hold = "{HOLD_MS}ms"',
            window=f'length = "{self.length}"\ntimezone = "{self.zone}"\n{self.slots_toml}\n'
            f'lateness = "{LATENESS_MS}ms"\nclock = "event"',
            privacy=f'preset = "{self.preset}"\nhide = "{self.hide_wh}Wh"\nspace = "{self.space}"\n'
            f"quantum = {float(self.quantum)}\nlevel = {self.level}",
        )

    @property
    def slots_toml(self) -> str:
        """The slots in the configuration of the window."""
        names = ", ".join(f'"{start:02}-{end:02}"' for start, end in self.bands)
        return f"bands = [{names}]" if self.bands else f"blocks = {self.blocks}"

    # --- windows -------------------------------------------------------------------------------

    @lru_cache  # noqa: B019 -- a handful of shapes live as long as the tests
    def windows(self, from_ms: int, to_ms: int) -> list[Window]:
        """Return the windows that begin in a stretch of time, both ends included."""
        starts_ms = _starts_ms(self.zone, self.length, from_ms, to_ms)
        return [self._window(start, end) for start, end in pairwise(starts_ms) if start <= to_ms]

    def _window(self, start_ms: int, end_ms: int) -> Window:
        return Window(start_ms, end_ms, tuple(self.parts(start_ms, end_ms)))

    def parts(self, start_ms: int, end_ms: int) -> Iterator[Part]:
        """Yield the slots of a window."""
        return self._bands(start_ms, end_ms) if self.bands else self._blocks(start_ms, end_ms)

    def _blocks(self, start_ms: int, end_ms: int) -> Iterator[Part]:
        step_ms, remainder = divmod(end_ms - start_ms, self.blocks)
        assert remainder == 0
        for at_ms in range(start_ms, end_ms, step_ms):
            yield Part(Key(at_ms, iso(step_ms), ""), ((at_ms, at_ms + step_ms),))

    def _bands(self, start_ms: int, end_ms: int) -> Iterator[Part]:
        quarters = {at_ms: clock(self.zone, at_ms) for at_ms in range(start_ms, end_ms, QUARTER_MS)}
        for first, last in self.bands:
            inside = [at_ms for at_ms, local in quarters.items() if first <= local.hour < last]
            if inside:
                key = Key(start_ms, iso(end_ms - start_ms), f"{first:02}:00/{last:02}:00")
                yield Part(key, tuple((at_ms, at_ms + QUARTER_MS) for at_ms in inside))

    # --- what must come ------------------------------------------------------------------------

    def opened(self, readings: Sequence[Reading]) -> list[Window]:
        """Return the windows that must have been charged: those that have begun, from the first boundary."""
        return self.windows(readings[0].time_ms, max(reading.time_ms for reading in readings))

    def due(self, readings: Sequence[Reading]) -> list[Part]:
        """Return the slots that must leave, for readings in order of arrival."""
        until_ms = max(reading.time_ms for reading in readings) - LATENESS_MS
        parts = [part for window in self.opened(readings) for part in window.parts]
        return [part for part in parts if part.stretches[-1][1] <= until_ms]

    def truth(self, readings: Sequence[Reading]) -> dict[Key, Fraction]:
        """Return the exact mean of each, in watts."""
        curve = Curve(readings, HOLD_MS)
        return {part.key: self.value(part, curve) for part in self.due(readings)}

    def value(self, part: Part, curve: Curve) -> Fraction:
        """Return the exact mean of a slot, in watts."""
        return part.energy_wh(curve) * HOUR_MS / part.duration_ms

    def is_released(self, value: Fraction, mean: Fraction) -> bool:
        """Return whether a value without noise can be of a mean: its whole quanta, or one more."""
        return abs(value - mean) < self.quantum

    # --- what it costs -------------------------------------------------------------------------

    def epsilon(self, window: Window) -> Fraction:
        """Return level / radius in 1/W; the radius hides the energy in the shortest slot, on the lattice."""
        return self._epsilon(min(part.duration_ms for part in window.parts))

    def stated(self, window: Window) -> tuple[Fraction, str]:
        """Return epsilon and its unit as a descriptor states them."""
        return self.epsilon(window), "1/W"

    def _epsilon(self, shortest_ms: int) -> Fraction:
        return self.level / (
            ceil(Fraction(self.hide_wh * HOUR_MS, shortest_ms) / self.quantum) * self.quantum
        )

    def per_day(self, window: Window) -> Fraction:
        """Return epsilon for 24 hours of such a window."""
        return self.epsilon(window) * DAY_MS / (window.end_ms - window.start_ms)

    @property
    def usual_per_day(self) -> Fraction:
        """Epsilon for 24 hours of a day of 24 hours, or a month of 30 days."""
        usual_ms = USUAL_MS[self.length]
        hours = min((last - first for first, last in self.bands), default=0)
        shortest_ms = hours * HOUR_MS * usual_ms // DAY_MS if hours else usual_ms // self.blocks
        return self._epsilon(shortest_ms) * DAY_MS / usual_ms


@dataclass(frozen=True, slots=True)
class Tariff(Shape):
    """Energies of two bands, hidden in all: working days but for holidays from 6 to 22, and the rest."""

    holidays: tuple[str, ...] = ()

    @property
    def slots_toml(self) -> str:
        """The bands in the configuration of the window."""
        band = '{ name = "day", days = "mon-fri", hours = ["06-22"] }'
        return f'band = [{band}]\nrest = "night"\nholidays = [{", ".join(self.holidays)}]'

    def parts(self, start_ms: int, end_ms: int) -> Iterator[Part]:
        """Yield the bands of a window."""
        quarters: dict[str, list[int]] = {"day": [], "night": []}
        for at_ms in range(start_ms, end_ms, QUARTER_MS):
            local = clock(self.zone, at_ms)
            works = local.weekday() < 5 and local.date().isoformat() not in self.holidays
            quarters["day" if works and 6 <= local.hour < 22 else "night"].append(at_ms)
        for name, inside in quarters.items():
            key = Key(start_ms, iso(end_ms - start_ms), name)
            yield Part(key, tuple((at_ms, at_ms + QUARTER_MS) for at_ms in inside))

    def value(self, part: Part, curve: Curve) -> Fraction:
        """Return the exact energy of a band, in watt-hours."""
        return part.energy_wh(curve)

    def epsilon(self, window: Window) -> Fraction:
        """Return the charge in 1/W: each watt moves all hours of the window."""
        return Fraction(self.level * (window.end_ms - window.start_ms), self.hide_wh * HOUR_MS)

    def stated(self, window: Window) -> tuple[Fraction, str]:
        """Return epsilon and its unit as a descriptor states them."""
        del window
        return Fraction(self.level, self.hide_wh), "1/Wh"

    @property
    def usual_per_day(self) -> Fraction:
        """Epsilon for 24 hours."""
        return Fraction(24 * self.level, self.hide_wh)


PRICE_MAX = Fraction(2, 5)
"""The largest price of an amount, in EUR for each kWh."""


@dataclass(frozen=True, slots=True)
class Amount(Shape):
    """The cost of a window: prices of working days, of the middle of Sundays and holidays, and the rest."""

    holidays: tuple[str, ...] = ()

    @property
    def slots_toml(self) -> str:
        """The prices in the configuration of the window."""
        work = '{ days = "mon-fri", hours = ["06-22"], price = 0.4 }'
        sunday = '{ days = "sun", hours = ["11-15"], price = -0.02 }'
        weights = f"{{ bound = {float(PRICE_MAX)}, default = 0.25, price = [{work}, {sunday}] }}"
        return f"weights = {weights}\nholidays = [{', '.join(self.holidays)}]"

    def parts(self, start_ms: int, end_ms: int) -> Iterator[Part]:
        """Yield the window."""
        yield Part(Key(start_ms, iso(end_ms - start_ms), ""), ((start_ms, end_ms),))

    def value(self, part: Part, curve: Curve) -> Fraction:
        """Return the exact cost of the window, in EUR."""
        [(start_ms, end_ms)] = part.stretches
        quarters = range(start_ms, end_ms, QUARTER_MS)
        energies = {at_ms: curve.energy(at_ms + QUARTER_MS) - curve.energy(at_ms) for at_ms in quarters}
        cost = sum((self.price(at_ms) * energy for at_ms, energy in energies.items()), Fraction(0))
        return cost / (1000 * MICRO * HOUR_MS)

    def price(self, at_ms: int) -> Fraction:
        """Return the price of a quarter of an hour."""
        local = clock(self.zone, at_ms)
        weekday = 6 if local.date().isoformat() in self.holidays else local.weekday()
        if weekday < 5 and 6 <= local.hour < 22:
            return Fraction(2, 5)
        return Fraction(-1, 50) if weekday == 6 and 11 <= local.hour < 15 else Fraction(1, 4)

    def epsilon(self, window: Window) -> Fraction:
        """Return the charge in 1/W: each watt moves all hours of the window."""
        return Fraction(self.level * (window.end_ms - window.start_ms), self.hide_wh * HOUR_MS)

    def stated(self, window: Window) -> tuple[Fraction, str]:
        """Return epsilon and its unit as a descriptor states them."""
        del window
        return self.level / (PRICE_MAX * self.hide_wh / 1000), "1/EUR"

    @property
    def usual_per_day(self) -> Fraction:
        """Epsilon for 24 hours."""
        return Fraction(24 * self.level, self.hide_wh)


@lru_cache(maxsize=100_000)
def clock(zone: str, time_ms: int) -> datetime:
    """Return what a clock on the wall shows."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone(ZoneInfo(zone))


def _starts_ms(zone: str, length: str, from_ms: int, to_ms: int) -> Iterator[int]:
    """The quarters of an hour, from the first on, at which a new day or month begins, and one beyond."""

    def unit(at_ms: int) -> tuple[int, ...]:
        """Return the day or month of a time."""
        local = clock(zone, at_ms)
        return local.timetuple()[: 2 if length == "1mo" else 3]

    at_ms = -(-from_ms // QUARTER_MS) * QUARTER_MS
    while True:
        if unit(at_ms) != unit(at_ms - QUARTER_MS):
            yield at_ms
            if at_ms > to_ms:
                return
        at_ms += QUARTER_MS


def iso(duration_ms: int) -> str:
    """Format a duration in ISO 8601, by hand."""
    hours, remainder = divmod(timedelta(milliseconds=duration_ms), timedelta(hours=1))
    minutes, remainder = divmod(remainder, timedelta(minutes=1))
    seconds = f"{remainder.total_seconds():g}S" if remainder else ""
    return "PT" + (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "") + seconds


def usual_sum(shapes: Sequence[Shape], but: Shape) -> Fraction:
    """Return what the other streams of a meter charge it on a day."""
    return sum((shape.usual_per_day for shape in shapes if shape is not but), Fraction(0))
