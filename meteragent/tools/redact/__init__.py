"""Redaction of a recorded payload for a bug report, which keeps its structure and replaces its content.

Theory of operation
-------------------
Everything is replaced by default. A payload is read token by token, not parsed, so malformed payloads stay
malformed in the same way. Only tokens that identify nobody are kept: punctuation, metering words (keys,
units, states), keys of one or two characters, 0, null, the booleans, NaN, OBIS codes, and short numbers under
keys such as `version`. Every other string or number is replaced by a random string or number of the same
shape, which depends only on that shape, on the order of first appearance, and on randomness. Times keep their
format and time of day; all are shifted by the same number of days, so that the first falls on a fixed date.
Times more than a week from the first are moved to that date, too.

Rules
1. Every replacement has as many characters as the original, so the positions of all tokens are unchanged.
2. Within one `Redactor`, equal strings get equal replacements, so a repeated id can be recognised.
3. Numbers keep their sign, point, exponent, leading zeros and number of digits. A replacement of two or more
   digits begins with 1 and a digit from 0 to 5, so it fits wherever the original did (16777216, 65535, 511
   and 4800 are limits in meters' formats).
4. The checksum of a P1 telegram stays correct if it was correct, and wrong if it was wrong.
"""

from meteragent.tools.redact.text import Redactor

__all__ = ["Redactor"]
