"""Times in a text: found by their form, moved by whole days, written in the same form."""

import re
from datetime import UTC, date, datetime, timedelta

BASE = date(2020, 1, 15)
"""Where the first time of a text comes to lie."""
NEAR_DAYS = 7
"""What lies further from the first is of that day too: when a meter was installed is nobody's business."""

_FORMS = (
    re.compile(r"(?P<y>(?:19|20)\d\d)-(?P<m>\d\d)-(?P<d>\d\d)(?P<rest>(?:[Tt ]\d\d:\d\d.*)?)", re.DOTALL),
    re.compile(r"(?P<y>20\d\d)(?P<m>\d\d)(?P<d>\d\d)(?P<rest>[Tt]\d{4,6}.*)", re.DOTALL),
    re.compile(
        r"(?P<d>\d\d)(?P<sep>[./])(?P<m>\d\d)(?P=sep)(?P<y>20\d\d)(?P<rest>(?: \d\d:\d\d.*)?)", re.DOTALL
    ),
    re.compile(r"(?P<y>\d\d)(?P<m>[01]\d)(?P<d>[0-3]\d)(?P<rest>[0-2]\d[0-5]\d[0-5]\d[WS])"),
    re.compile(r"(?P<head>[HEhe])(?P<y>\d\d)(?P<m>[01]\d)(?P<d>[0-3]\d)(?P<rest>[0-2]\d[0-5]\d[0-5]\d)"),
)
"""RFC 3339 and what looks like it, ISO 8601 basic, day first, P1 (W, S), Teleinfo (H, E)."""

_REST = re.compile(r"(?:[Tt ]?\d\d:?\d\d(?::?\d\d)?(?:\.(?P<fraction>\d+))?(?: ?[Zz]|[+-]\d\d:?\d\d)?)?[WS]?")
CLOCK = re.compile(r"[0-2]?\d:[0-5]\d(?::[0-5]\d)?")
"""A time of day, which stays."""
_UNIX = {10: 1, 13: 10**3, 16: 10**6, 19: 10**9}
_DAY_S = 86_400
_UNIX_MIN, _UNIX_MAX = 1_000_000_000, 4_000_000_000


class Shift:
    """By how many days times are moved: so many that the first lies on BASE; far ones lie there as well."""

    def __init__(self) -> None:
        self._days: int | None = None

    def _moved(self, day: date) -> date:
        if self._days is None:
            self._days = (BASE - day).days
        moved_days = (day - BASE).days + self._days
        return BASE + timedelta(days=moved_days if abs(moved_days) <= NEAR_DAYS else 0)

    def text(self, text: str) -> tuple[str, str | None] | None:
        """A time as text, moved, and the fraction of its second; None when it is no time.

        A date that is none, such as the 45th, becomes one of nines.
        """
        for form in _FORMS:
            found = form.fullmatch(text)
            rest = found and _REST.fullmatch(found["rest"])
            if found and rest:
                break
        else:
            return None
        year = int(found["y"]) + (2000 if len(found["y"]) == 2 else 0)
        out = list(text)
        try:
            moved = self._moved(date(year, int(found["m"]), int(found["d"])))
            new = {
                "y": f"{moved.year:04}"[-len(found["y"]) :],
                "m": f"{moved.month:02}",
                "d": f"{moved.day:02}",
            }
        except ValueError:
            new = {name: "9" * len(found[name]) for name in "ymd"}
        for name, digits in new.items():
            out[found.start(name) : found.end(name)] = digits
        return "".join(out), rest["fraction"]

    def unix(self, digits: str) -> str | None:
        """Whole Unix seconds, milliseconds, .. moved; None when it is no time of our years."""
        scale = _UNIX.get(len(digits))
        if scale is None or not _UNIX_MIN <= int(digits) // scale < _UNIX_MAX:
            return None
        day = datetime.fromtimestamp(int(digits) // scale, UTC).date()
        moved = int(digits) + (self._moved(day) - day).days * _DAY_S * scale
        return f"{moved:0{len(digits)}}" if moved >= 0 and len(str(moved)) <= len(digits) else None
