"""What is left to do for P1 telegrams (DSMR) when their lines have been redacted: header and check sum."""

import re

from meteragent.decode.p1 import checksum

_TELEGRAM = re.compile(r"/\w{3}\d[^\n!]*(?:\n(?!/)[^\n!]*)+!(?P<sum>[0-9A-Fa-f]{4})?")
"""From a header to the first ``!``, unless another header comes first: many without an end take no longer."""
_BAUD = 4
"""The place of the 5 in ``/XXX5``."""
_LINE_END = re.compile(r"\r?\n")


def restore(before: str, after: str) -> str:
    """Give each telegram in a redacted text its header's mark, and a check sum as right as it was.

    Both are equally long. The sum is that of the lines as they are, or as they were before some program made
    LF of CR LF.
    """
    out = after
    for found in _TELEGRAM.finditer(before):
        start, end = found.span()
        mark = start + _BAUD
        out = out[:mark] + before[mark] + out[mark + 1 :]
        if found["sum"] is None:
            continue
        at, told = found.start("sum"), int(found["sum"], 16)
        ways = (_as_it_is, _as_it_was)
        way = next((one for one in ways if checksum(one(before[start:at])) == told), None)
        new = checksum(_as_it_is(out[start:at])) ^ 0xFFFF if way is None else checksum(way(out[start:at]))
        out = f"{out[:at]}{new:04X}{out[end:]}"
    return out


def _as_it_is(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _as_it_was(text: str) -> bytes:
    return _as_it_is(_LINE_END.sub("\r\n", text))
