"""Replacements of names, numbers, times and other strings, and what is kept."""

import re
import string
from collections import Counter
from collections.abc import Callable
from functools import cache

from meteragent.decode.profiles import PROFILES
from meteragent.tools.redact.times import CLOCK_TIME, Shift

OBIS = r"\d-\d{1,3}:\d{1,3}(?:[.:]\d{1,3}){1,3}(?:\*\d{1,3})?"
"""The pattern of an OBIS code."""

_OBIS = re.compile(OBIS, re.ASCII)
_UNITS = ["w", "kw", "mw", "va", "kva", "var", "kvar", "wh", "kwh", "mwh", "kvah", "kvarh", "varh"]
_UNITS += ["v", "mv", "a", "ma", "hz", "j", "kj", "mj", "gj", "m3", "l", "s"]
_STATES = ["true", "false", "null", "none", "nan", "inf", "infinity", "unknown", "unavailable"]
_STATES += ["on", "off", "online", "offline"]
_WORDS = frozenset([*_UNITS, *_STATES])
_NUMBER = re.compile(r"([+-]?)(\d+(?:[.,]\d*)?|[.,]\d+)((?:[eE][+-]?\d+)?)", re.ASCII)
"""A number: its sign, mantissa and exponent."""
_ESCAPE = re.compile(r"\\u[0-9A-Fa-f]{4}|\\.", re.DOTALL)


@cache
def known_names() -> frozenset[str]:
    """Return the names in the payloads and topics of the built-in profiles."""
    all_names: set[str] = set()
    for profile in PROFILES.values():
        all_names |= {level for topic in profile.topics for level in topic.split("/") if "{" not in level}
        all_names |= {*profile.fields, *profile.personal}
    return frozenset(all_names)


class Replacements:
    """The replacements of one recording; `replaced` counts them by kind."""

    def __init__(self, entropy: Callable[[int], bytes], keep: frozenset[str]) -> None:
        self.replaced: Counter[str] = Counter()
        self._entropy = entropy
        self._keep = keep
        self._replacements: dict[tuple[str, str], str] = {}
        self._shift = Shift()

    def redact_name(self, text: str) -> str:
        """Redact a key or a level of a topic, unless it is kept."""
        return text if self._stays(text) else self._replace("key", text)

    def redact_value(self, text: str) -> str:
        """Redact a value, unless it is kept or a time of day."""
        if self._stays(text) or CLOCK_TIME.fullmatch(text):
            return text
        if (shifted := self._shift.shift_text(text)) is not None:
            return self._time(text, *shifted)
        number = _NUMBER.fullmatch(text)
        if number is None:
            return self.redact_word(text)
        sign, mantissa, exponent = number.groups()
        is_zero = not mantissa.strip("0.,")
        return text if is_zero else sign + self._recall("number", mantissa, self._draw_number) + exponent

    def redact_word(self, text: str) -> str:
        """Redact a string, even if it is a name to keep."""
        return self._replace("text", text)

    def shift_unix_time(self, text: str) -> str | None:
        """Shift a Unix time; return None if `text` is not one."""
        integer, point, fraction = text.partition(".")
        shifted = (
            self._shift.shift_unix(integer) if integer.isdecimal() and (fraction or "0").isdecimal() else None
        )
        if shifted is None:
            return None
        self.replaced["time"] += 1
        return shifted + point + self._digits(len(fraction))

    def is_datum(self, text: str) -> bool:
        """Return whether a string is a number, a time or a state."""
        is_time = CLOCK_TIME.fullmatch(text) or Shift().shift_text(text)
        return bool(_NUMBER.fullmatch(text) or is_time or text.lower() in _STATES)

    def _stays(self, text: str) -> bool:
        is_known = text in self._keep or text in known_names() or text.lower() in _WORDS
        return is_known or _OBIS.fullmatch(text) is not None

    def _time(self, text: str, shifted: str, fraction: str | None) -> str:
        self.replaced["time"] += 1
        if fraction is None:
            return shifted
        start = text.rindex("." + fraction) + 1
        return shifted[:start] + self._digits(len(fraction)) + shifted[start + len(fraction) :]

    def _replace(self, kind: str, text: str) -> str:
        if not any(character.isalnum() or not character.isascii() for character in text):
            return text
        return self._recall(kind, text, self._draw_word)

    def _recall(self, kind: str, text: str, draw: Callable[[str], str]) -> str:
        """Return a string's replacement, which is drawn when the string first appears."""
        self.replaced[kind] += 1
        shape = "number" if kind == "number" else "text"  # a key may occur again as a value
        if (shape, text) not in self._replacements:
            self._replacements[shape, text] = draw(text)
        return self._replacements[shape, text]

    def _draw_number(self, mantissa: str) -> str:
        """Draw a number of the same length whose first two digits are 10 to 15; a single digit is 1 to 9."""
        digits = mantissa.lstrip("0.,")
        leading = mantissa[: len(mantissa) - len(digits)]
        count = sum(character.isdigit() for character in digits)
        start = "1" + string.digits[self._random(6)] if count > 1 else string.digits[1 + self._random(9)]
        new_digits = iter(start + self._digits(count - len(start)))
        characters = (next(new_digits) if character.isdigit() else character for character in digits)
        return leading + "".join(characters)

    def _draw_word(self, text: str) -> str:
        """Draw a string of the same shape that is not one to keep: letters for letters, digits for digits."""
        word = self._draw_shape(text)
        while len(text) > 2 and self._stays(word):
            word = self._draw_shape(text)
        return word

    def _draw_shape(self, text: str) -> str:
        """Replace letters with letters and digits with digits; escapes stay escapes."""
        pieces, end = [], 0
        for escape in _ESCAPE.finditer(text):
            pieces += [*map(self._character, text[end : escape.start()]), self._escape(escape[0])]
            end = escape.end()
        return "".join([*pieces, *map(self._character, text[end:])])

    def _escape(self, escape: str) -> str:
        if len(escape) == 6:
            return f"\\u006{1 + self._random(9)}"
        return escape if escape[1] in '"\\/bfnrt' else "\\q"

    def _character(self, character: str) -> str:
        if character.isdigit():
            return self._digits(1)
        if character.isalpha():
            alphabet = string.ascii_uppercase if character.isupper() else string.ascii_lowercase
            return alphabet[self._random(26)]
        return character if character.isascii() else "*"

    def _digits(self, count: int) -> str:
        return "".join(string.digits[self._random(10)] for _ in range(count))

    def _random(self, limit: int) -> int:
        return int.from_bytes(self._entropy(8)) % limit
