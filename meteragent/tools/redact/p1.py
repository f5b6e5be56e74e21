"""The last step of redacting P1 telegrams (DSMR): restoring the header and the checksum."""

import re

from meteragent.decode.p1 import checksum

_TELEGRAM = re.compile(
    r"(?:^/\w{3}|/\w{3}\d)[^\n!]*(?:\n(?!/)[^\n!]*)+!(?P<sum>[0-9A-Fa-f]{4})?", re.MULTILINE
)
"""A telegram from the header to the first ``!``, with no other header between, so the search is linear.

A header that is not at the beginning of a line must have a digit after its three letters.
"""
_BAUD = 4
"""The index of the 5 in ``/XXX5``."""
_LINE_END = re.compile(r"\r?\n")


def restore(recorded: str, redacted: str) -> str:
    """Restore the baud digit in each telegram's header, and replace its checksum if it has one.

    A correct checksum stays correct, and a wrong checksum stays wrong. `recorded` and `redacted` have the
    same length. The checksum may cover the lines as recorded, or with CR LF where a program has written LF.
    """
    text = redacted
    for telegram in _TELEGRAM.finditer(recorded):
        start, end = telegram.span()
        mark = start + _BAUD
        if recorded[mark].isdecimal():
            text = text[:mark] + recorded[mark] + text[mark + 1 :]
        if telegram["sum"] is None:
            continue
        sum_start, stated = telegram.start("sum"), int(telegram["sum"], 16)
        encodings = (_encode, _encode_with_cr)
        matches = (encode for encode in encodings if checksum(encode(recorded[start:sum_start])) == stated)
        encode, lines = next(matches, None), text[start:sum_start]
        # A wrong checksum stays wrong: all bits of the correct one are inverted.
        new_sum = checksum(_encode(lines)) ^ 0xFFFF if encode is None else checksum(encode(lines))
        text = f"{text[:sum_start]}{new_sum:04X}{text[end:]}"
    return text


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _encode_with_cr(text: str) -> bytes:
    return _encode(_LINE_END.sub("\r\n", text))
