"""Redaction of a recorded payload for a bug report: its structure stays, its content does not.

Theory of operation
-------------------
Everything is replaced by default. A text is read token by token, not parsed, so malformed payloads stay
malformed in the same way. Only tokens that identify nobody stay: punctuation, metering words (keys, units,
states), 0, null, the booleans, NaN, OBIS codes. Every other string and number is replaced by a random one of
the same shape: the output depends only on shapes, the order of first appearance, and randomness. Times keep
their form and their time of day; all are shifted by the same number of days, so that the first falls on a
fixed date. Times more than a week from the first fall on that date too.

Rules
1. Every replacement is as long as the original (in characters), so nothing moves.
2. Within one `Redactor` the same string gets the same replacement, so a repeated id can be recognised.
3. Numbers keep sign, point, exponent, leading zeros and number of digits. They begin with 1, then 0 to 5, so
   they fit wherever the original did (16777216, 65535, 511, 4800 are limits in meters' formats).
4. A correct checksum of a P1 telegram stays correct, a wrong one stays wrong.
"""

from meteragent.tools.redact.text import Redactor

__all__ = ["Redactor"]
