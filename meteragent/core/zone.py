"""A detector of meters whose local times are read in the wrong time zone.

A single time far from its arrival proves nothing, because its message may have waited in a broker. But
messages that waited arrive at shorter intervals than those at which they were sent, so their times catch up
with their arrivals. If the difference between times and arrivals stays nearly constant for a minute, and is
close to a whole number of hours, the meter's times are taken to be in another zone. Each message of the meter
is then refused until the difference changes. The state is in memory only: after a restart, the first minute
is treated as at the first start.
"""

from meteragent.domain.units import HOUR_MS, MINUTE_MS

SETTLED_MS = MINUTE_MS
"""The time for which the difference from the arrival must be steady before readings are refused."""
_STEADY_MS = 10_000
"""The largest change in a difference that counts as steady; delays of messages cause such changes."""
_CLOCK_MS = 2 * MINUTE_MS
"""The largest assumed error of a meter's clock."""


class ZoneWatch:
    """The difference between the time and the arrival of each meter's readings, while it is steady."""

    __slots__ = ("_steady",)

    def __init__(self) -> None:
        self._steady: dict[object, tuple[int, int]] = {}

    def is_off(self, meter: object, time_ms: int, received_ms: int) -> bool:
        """Note the time of a reading; return whether the meter's times have been off by whole hours.

        The difference must have been steady for `SETTLED_MS` or longer.
        """
        off_ms = time_ms - received_ms
        since_ms, first_off_ms = self._steady.get(meter, (received_ms, off_ms))
        if abs(off_ms - first_off_ms) > _STEADY_MS or received_ms < since_ms:
            since_ms, first_off_ms = received_ms, off_ms
        self._steady[meter] = since_ms, first_off_ms
        hours = (abs(first_off_ms) + HOUR_MS // 2) // HOUR_MS
        is_whole = hours > 0 and abs(abs(first_off_ms) - hours * HOUR_MS) <= _CLOCK_MS
        return is_whole and received_ms - since_ms >= SETTLED_MS

    def clear(self) -> None:
        """Forget all meters."""
        self._steady.clear()
