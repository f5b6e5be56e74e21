"""Times and durations as records and descriptors write them, from the standard library's calendar alone."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def parse_time(text: str) -> int:
    """Return a time such as 2026-03-02T11:59:50Z in Unix ms."""
    return (datetime.fromisoformat(text) - _EPOCH) // _MS


def time_text(time_ms: int) -> str:
    """Return a time as records write it: UTC, with milliseconds only if there are any."""
    text = (_EPOCH + time_ms * _MS).isoformat(timespec="milliseconds").removesuffix("+00:00")
    return text.removesuffix(".000") + "Z"


def duration_text(duration_ms: int) -> str:
    """Return a duration as records write it: hours, minutes and seconds, such as PT1H30M or PT0.5S."""
    minutes, ms = divmod(duration_ms, 60_000)
    seconds = f"{ms / 1000:g}S" if ms or not minutes else ""
    return (
        "PT" + "".join(f"{n}{unit}" for n, unit in ((minutes // 60, "H"), (minutes % 60, "M")) if n) + seconds
    )
