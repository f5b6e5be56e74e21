"""The windows of a stream, as its setting places them: on the epoch grid, or on the local calendar.

The time zone sets its clocks at 02:00 and 03:00, when no window or band of a setting begins or ends. So every
local time here occurs once.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from zoneinfo import ZoneInfo

from meteragent.domain.units import DAY_MS, HOUR_MS, KILO, MICRO
from simulators.simtest.model.setting import (
    DEFAULT_PRICE_U,
    GROUP_HIDE_WH,
    GROUP_QUANTUM_U,
    HOLIDAYS,
    ZONE,
    Pace,
    Setting,
    counter_of,
    kind_of,
    phases_of,
)
from simulators.simtest.model.spec import UNKNOWN, Place, PriceRule, ReadingSpec, WindowSpec

_ORDINARY_DAY = date(1974, 4, 1)  # a Monday, in UTC
_DAY, _SUNDAY = timedelta(days=1), 6


@dataclass(frozen=True)
class Windows:
    """The windows of a stream with a setting; `group_id` is the id of its group, or empty."""

    setting: Setting
    pace: Pace
    group_id: str = ""
    others_per_day: Fraction = Fraction(0)

    @property
    def is_local(self) -> bool:
        """Whether the windows are days of the local calendar."""
        return self.setting.grid.startswith("1d")

    @property
    def ordinary(self) -> WindowSpec:
        """An ordinary window: one of 24 hours, without holidays, if windows are local days."""
        return _ordinary(self)

    def first_ms(self, time_ms: int) -> int:
        """Return the start of the first window that starts at or after `time_ms`."""
        if not self.is_local:
            return -(-time_ms // self._length_ms) * self._length_ms
        day = datetime.fromtimestamp(time_ms / 1000, ZONE).date()
        start_ms = _instant_ms(day, 0, ZONE)
        return start_ms if start_ms >= time_ms else _instant_ms(day + _DAY, 0, ZONE)

    def at(self, start_ms: int) -> WindowSpec:
        """Return the window that starts at `start_ms`."""
        return _window_at(self, start_ms) if self.is_local else self.ordinary

    @property
    def largest_charge(self) -> Fraction:
        """The largest charge of a window; for local days, the largest charge of any day of a year."""
        if not self.is_local:
            return self.ordinary.charge
        first = date(2026, 1, 1)
        starts_ms = (_instant_ms(first + number * _DAY, 0, ZONE) for number in range(365))
        return max(self.at(start_ms).charge for start_ms in starts_ms)

    @property
    def _length_ms(self) -> int:
        """The length of the windows of the epoch grid."""
        return int(self.setting.grid.translate(_SLASHES).split("/")[0]) * self.pace.tick_ms


_SLASHES = str.maketrans("^~", "//")


@lru_cache(maxsize=512)
def _ordinary(windows: Windows) -> WindowSpec:
    if not windows.is_local:
        return _window(windows, windows._length_ms, ())  # noqa: SLF001 -- this module's class
    return _window(windows, DAY_MS, _bands(windows.setting, _ORDINARY_DAY, ZoneInfo("UTC")))


@lru_cache(maxsize=2048)
def _window_at(windows: Windows, start_ms: int) -> WindowSpec:
    day = datetime.fromtimestamp(start_ms / 1000, ZONE).date()
    length_ms = _instant_ms(day + _DAY, 0, ZONE) - start_ms
    return _window(windows, length_ms, _bands(windows.setting, day, ZONE))


def _window(windows: Windows, length_ms: int, bands: tuple[Place, ...]) -> WindowSpec:
    setting, pace = windows.setting, windows.pace
    space = setting.space
    step_ms = _step_ms(setting, pace, length_ms)
    places = bands or _equal_slots(length_ms, length_ms if space == "peak" else step_ms)
    if bands:
        step_ms = min(place.duration_ms for place in bands if place.name != UNKNOWN)
    price, radius, quantum_u = (
        None,
        Fraction(setting.radius),
        MICRO if kind_of(setting) == "power" else MICRO // 2,
    )
    if space == "weighted":
        price = PriceRule(setting.bound * MICRO // 100, DEFAULT_PRICE_U)
        radius, quantum_u = radius * price.bound_u / (KILO * MICRO), price.bound_u // KILO
    if space == "share":
        radius, quantum_u = Fraction(GROUP_HIDE_WH), GROUP_QUANTUM_U
    return WindowSpec(
        space,
        length_ms,
        step_ms,
        places,
        _readings(setting, pace),
        setting.lateness * pace.tick_ms,
        setting.clock,
        radius,
        quantum_u,
        price,
        ZONE.key if windows.is_local else None,
        windows.group_id,
        setting.group_deadline_s(pace) * 1000 if space == "share" else 0,
        windows.others_per_day,
    )


def _step_ms(setting: Setting, pace: Pace, length_ms: int) -> int:
    """Return the length of equal slots or of a peak's parts."""
    if setting.space in {"weighted", "above", "share"}:
        return length_ms
    _, _, part = setting.grid.translate(_SLASHES).partition("/")
    if not part:
        return length_ms
    is_number = setting.grid.startswith("1d") and setting.space != "peak"
    return length_ms // int(part) if is_number else int(part) * pace.tick_ms


def _equal_slots(length_ms: int, step_ms: int) -> tuple[Place, ...]:
    return tuple(Place(((start, start + step_ms),)) for start in range(0, length_ms, step_ms))


def _readings(setting: Setting, pace: Pace) -> ReadingSpec:
    stands_ms = setting.stands * pace.tick_ms
    signs, has_parts = phases_of(setting)
    if kind_of(setting) == "power":
        threshold_u = setting.threshold * MICRO if setting.space == "above" else 0
        gap_u, high_u = setting.gap * MICRO, setting.high_w * MICRO
        low_u = -high_u if has_parts else 0
        return ReadingSpec("power", stands_ms, 0, gap_u, low_u, high_u, threshold_u, phases=signs)
    kind, (modulus, step, is_on_change) = kind_of(setting), counter_of(setting)
    interval_ms = HOUR_MS if kind == "register" else stands_ms
    high_u = (2 * setting.high_w * MICRO * interval_ms + HOUR_MS) // (2 * HOUR_MS)  # rounded half up
    low_u, step_u = -high_u if has_parts else 0, step * MICRO * max(1, len(signs))
    limits, modulus_u = (low_u, high_u, 0), modulus * MICRO
    return ReadingSpec(kind, 0, interval_ms, 0, *limits, modulus_u, step_u, signs, is_on_change)


# --- local days --------------------------------------------------------------------------------


def _instant_ms(day: date, hour: int, zone: ZoneInfo) -> int:
    """Return the instant of a full hour of a local day; hour 24 is the next day's midnight."""
    day, hour = (day + _DAY, 0) if hour == 24 else (day, hour)
    local = datetime(day.year, day.month, day.day, hour, tzinfo=zone)
    return round((local.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)


def _bands(setting: Setting, day: date, zone: ZoneInfo) -> tuple[Place, ...]:
    """Return the bands of a local day in the order in which they begin; none if the slots are not bands."""
    if setting.space == "profile":
        bands = [_band(hours, day, zone) for hours in setting.grid[3:].split(",")]
        return tuple(sorted(bands, key=lambda band: band.stretches))
    if setting.space == "bands":
        bands = [*_tariff_bands(setting.grid[3:], day, zone)]
        length_ms = _instant_ms(day + _DAY, 0, zone) - _instant_ms(day, 0, zone)
        unknown = Place(((length_ms, length_ms),), UNKNOWN)
        return (*bands, unknown) if kind_of(setting) == "register" else tuple(bands)
    return ()


def _band(hours: str, day: date, zone: ZoneInfo) -> Place:
    """Return the band with the hours of a day, such as `22-06`, named after them."""
    first, last = map(int, hours.split("-"))
    parts = [(first, last)] if first < last else [(0, last), (first, 24)]
    midnight_ms = _instant_ms(day, 0, zone)
    stretches = tuple(
        (_instant_ms(day, start, zone) - midnight_ms, _instant_ms(day, end, zone) - midnight_ms)
        for start, end in parts
    )
    return Place(stretches, f"{first:02}:00/{last:02}:00")


def _tariff_bands(hours: str, day: date, zone: ZoneInfo) -> tuple[Place, ...]:
    """Return the band `night` and, on working days, the band `day` with the hours of a day."""
    length_ms = _instant_ms(day + _DAY, 0, zone) - _instant_ms(day, 0, zone)
    is_working_day = day.weekday() < _SUNDAY - 1 and f"{day}" not in HOLIDAYS
    if not is_working_day:
        return (Place(((0, length_ms),), "night"),)
    [(start, end)] = _band(hours, day, zone).stretches
    night = Place(((0, start), (end, length_ms)), "night")
    return night, Place(((start, end),), "day")
