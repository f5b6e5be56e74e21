"""Time <-> slot arithmetic on the epoch grid, and how times and durations are written.

Times are whole milliseconds since the Unix epoch, durations whole milliseconds; both are exact.
"""

import re
from datetime import UTC, datetime, timedelta

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DURATION_MS = {"ms": 1, "s": 1000, "min": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_DURATION = re.compile(r"(\d{1,12})(ms|s|min|h|d)", re.ASCII)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def floor(time_ms: int, step_ms: int) -> int:
    """The last boundary of the epoch grid at or before a time."""
    return time_ms - time_ms % step_ms


def ceil(time_ms: int, step_ms: int) -> int:
    """The first boundary of the epoch grid at or after a time."""
    return time_ms + -time_ms % step_ms


def day(time_ms: int) -> int:
    """The start of the UTC day that holds a time."""
    return floor(time_ms, DAY_MS)


def parse_duration(text: str) -> int:
    """A duration such as ``30min``, ``10s``, ``24h`` or ``30d`` in milliseconds.

    Raises ValueError when it is not a whole number followed by ms, s, min, h or d.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("a whole number and ms, s, min, h or d, such as '30min'")
    return int(match[1]) * _DURATION_MS[match[2]]


def format_duration(duration_ms: int) -> str:
    """A duration as people write it in the configuration: the largest unit that fits, ``30min``."""
    for unit in ("d", "h", "min", "s"):
        if duration_ms and duration_ms % _DURATION_MS[unit] == 0:
            return f"{duration_ms // _DURATION_MS[unit]}{unit}"
    return f"{duration_ms}ms" if duration_ms else "0s"


def iso_duration(duration_ms: int) -> str:
    """A duration in ISO 8601 with time designators only: ``PT30M``, ``PT24H``, ``PT0.5S``."""
    hours, rest = divmod(duration_ms, HOUR_MS)
    minutes, rest = divmod(rest, MINUTE_MS)
    seconds, millis = divmod(rest, 1000)
    fraction = f".{millis:03d}".rstrip("0") if millis else ""
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else ""]
    parts.append(f"{seconds}{fraction}S" if seconds or fraction else "")
    return "PT" + ("".join(parts) or "0S")


def iso_time(time_ms: int) -> str:
    """A time in RFC 3339, UTC, with milliseconds only where there are any."""
    seconds, millis = divmod(time_ms, 1000)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{millis:03d}Z" if millis else f"{text}Z"


def parse_time(text: str) -> int:
    """An RFC 3339 time with its zone, in milliseconds (rounded down).

    Raises ValueError for anything else, a time without a zone included.
    """
    if _RFC3339.fullmatch(text) is None:
        raise ValueError("not an RFC 3339 time with a zone, such as 2026-11-20T12:00:00Z")
    return (datetime.fromisoformat(text.upper()) - _EPOCH) // _MILLISECOND
