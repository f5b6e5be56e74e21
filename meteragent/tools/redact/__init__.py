"""A recorded payload, made fit for a bug report: its structure stays, what it says does not.

Theory of operation
-------------------
Default deny. A text is read token by token, not parsed, so malformed payloads stay malformed in the same way.
What stays is what is known to mean nobody: punctuation, words of metering (keys, units, states), 0, null, the
booleans, NaN, OBIS codes. Every other text and number is replaced by one of the same shape, drawn afresh:
its output is a function of the shape, the order of first appearance, and randomness. Times keep their form
and their time of day; they are moved by the same number of days, so that the first falls on a fixed date,
and with it those that lie more than a week from it.

Rules
1. Every replacement is as long as the original (in characters), so nothing moves.
2. The same text gets the same replacement within one `Redactor`: an id that comes again can be seen to.
3. Numbers keep sign, point, exponent, leading zeros and count of digits. They begin with 1, then 0 to 5: so
   they fit wherever the original did (16777216, 65535, 511, 4800 are limits in meters' formats).
4. The check sum of a P1 telegram that was right is right afterwards; one that was wrong is wrong.
"""

from meteragent.tools.redact.text import Redactor

__all__ = ["Redactor"]
