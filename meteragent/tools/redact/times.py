"""Times in a payload: recognised by their format, shifted by whole days, and written back in that format."""

import re
from datetime import UTC, date, datetime, timedelta

BASE_DATE = date(2020, 1, 15)
"""The date to which the first time is shifted."""
NEAR_DAYS = 7
"""A time that is further than this from the first time also moves to BASE_DATE, because a meter's
installation day identifies the meter."""

_FORMS = (
    re.compile(r"(?P<y>(?:19|20)\d\d)-(?P<m>\d\d)-(?P<d>\d\d)(?P<rest>(?:[Tt ]\d\d:\d\d.*)?)", re.DOTALL),
    re.compile(r"(?P<y>20\d\d)(?P<m>\d\d)(?P<d>\d\d)(?P<rest>[Tt]\d{4,6}.*)", re.DOTALL),
    re.compile(
        r"(?P<d>\d\d)(?P<sep>[./])(?P<m>\d\d)(?P=sep)(?P<y>20\d\d)(?P<rest>(?: \d\d:\d\d.*)?)", re.DOTALL
    ),
    re.compile(r"(?P<y>\d\d)(?P<m>[01]\d)(?P<d>[0-3]\d)(?P<rest>[0-2]\d[0-5]\d[0-5]\d[WS])"),
    re.compile(r"(?P<head>[HEhe])(?P<y>\d\d)(?P<m>[01]\d)(?P<d>[0-3]\d)(?P<rest>[0-2]\d[0-5]\d[0-5]\d)"),
)
"""Formats: RFC 3339 and similar, ISO 8601 basic, dates with the day first, P1 (W, S), Teleinfo (H, E)."""

_REST = re.compile(r"(?:[Tt ]?\d\d:?\d\d(?::?\d\d)?(?:\.(?P<fraction>\d+))?(?: ?[Zz]|[+-]\d\d:?\d\d)?)?[WS]?")
CLOCK_TIME = re.compile(r"[0-2]?\d:[0-5]\d(?::[0-5]\d)?")
"""A time of day, which stays unchanged."""
_UNIX = {10: 1, 13: 10**3, 16: 10**6, 19: 10**9}
_DAY_S = 86_400
_UNIX_MIN, _UNIX_MAX = 1_000_000_000, 4_000_000_000


class Shift:
    """A shift by as many days as move the first time to BASE_DATE; distant times move to BASE_DATE, too."""

    def __init__(self) -> None:
        self._days: int | None = None

    def _shift_day(self, day: date) -> date:
        if self._days is None:
            self._days = (BASE_DATE - day).days
        offset_days = (day - BASE_DATE).days + self._days
        return BASE_DATE + timedelta(days=offset_days if abs(offset_days) <= NEAR_DAYS else 0)

    def shift_text(self, text: str) -> tuple[str, str | None] | None:
        """Return the shifted time, and the digits of its fraction of a second (None without a fraction).

        Return None if `text` is not a time. The digits of an impossible date, such as the 45th, become nines.
        """
        for form in _FORMS:
            match = form.fullmatch(text)
            clock = match and _REST.fullmatch(match["rest"])
            if match and clock:
                break
        else:
            return None
        year = int(match["y"]) + (2000 if len(match["y"]) == 2 else 0)
        characters = list(text)
        try:
            day = self._shift_day(date(year, int(match["m"]), int(match["d"])))
            parts = {"y": f"{day:%Y}"[-len(match["y"]) :], "m": f"{day:%m}", "d": f"{day:%d}"}
        except ValueError:
            parts = {name: "9" * len(match[name]) for name in "ymd"}
        for name, digits in parts.items():
            characters[match.start(name) : match.end(name)] = digits
        return "".join(characters), clock["fraction"]

    def shift_unix(self, digits: str) -> str | None:
        """Shift a Unix time in s, ms, us or ns; return None unless the time is from 2001 to 2096."""
        scale = _UNIX.get(len(digits))
        if scale is None or not _UNIX_MIN <= int(digits) // scale < _UNIX_MAX:
            return None
        day = datetime.fromtimestamp(int(digits) // scale, UTC).date()
        shifted = int(digits) + (self._shift_day(day) - day).days * _DAY_S * scale
        return f"{shifted:0{len(digits)}}" if shifted >= 0 and len(str(shifted)) <= len(digits) else None
