"""Redaction of a recorded payload for a bug report, which keeps its structure and replaces its content.

Theory of operation
-------------------
A payload is redacted only if it is, to its last character, JSON (`document`), a P1 telegram or D0 readout
(`p1`), or CSV (`table`): in these formats, structure and content can be distinguished. All content is
replaced (`replacement`), except for what identifies nobody: names in the built-in profiles, keys of one or
two characters, units, states, OBIS codes, 0, and codes of a few digits for the kind of message. Anything
else, such as prose or a damaged message, is refused.

Rules
1. Every replacement has as many characters as the original, so the positions of all tokens are unchanged.
2. Within one `Redactor`, equal strings get equal replacements, so a repeated id can be recognised.
3. Numbers keep their sign, point, exponent, leading zeros and number of digits. A replacement of two or more
   digits begins with 1 and a digit from 0 to 5, so it fits wherever the original did (16777216, 65535, 511
   and 4800 are limits in meters' formats).
4. Times keep their format and time of day; all are shifted by the same number of days, so that the first
   falls on a fixed date. Times more than a week from the first are moved to that date, too.
5. The checksum of a P1 telegram stays correct if it was correct, and wrong if it was wrong.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from meteragent.domain.errors import FormatError
from meteragent.tools.redact import document, p1, table
from meteragent.tools.redact.replacement import Replacements

_FORMATS = (document.redact, p1.redact, table.redact)


class Redactor:
    """A redactor that gives equal strings equal replacements, and leaves the names in `keep`."""

    def __init__(self, entropy: Callable[[int], bytes], keep: Iterable[str] = ()) -> None:
        self._replacements = Replacements(entropy, frozenset(keep))

    @property
    def replaced_counts(self) -> Counter[str]:
        """The number of replacements of each kind."""
        return self._replacements.replaced

    def redact_topic(self, topic: str) -> str:
        """Redact each level of a topic."""
        return "/".join(self._replacements.redact_name(level) for level in topic.split("/"))

    def redact_payload(self, payload: bytes) -> bytes:
        """Redact a payload. Raises FormatError if it is neither JSON nor a P1 telegram nor CSV, in UTF-8."""
        content = payload.rstrip(b"\0 \t\r\n")
        text = content.decode(errors="replace")
        for redact in _FORMATS if text.encode() == content else ():
            redacted = redact(text, self._replacements) if text else ""
            if redacted is not None:
                return redacted.encode() + payload[len(content) :]
        raise FormatError("neither JSON, a P1 telegram nor CSV, in UTF-8")


__all__ = ["Redactor"]
