"""The tokens of a payload, and their replacements."""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable

from meteragent.tools.redact import p1
from meteragent.tools.redact.times import CLOCK, Shift
from meteragent.tools.redact.words import SMALL, TIME_WORDS, UNITS, is_known, parts

_QUOTED = r'"(?:[^"\\\n]|\\.)*(?:"|(?=\n)|\\?\Z)'
_RUN = r"[^\W][^\s,;(){}\[\]\"'<>|=]*|[+\-.](?=[\w.])[^\s,;(){}\[\]\"'<>|=]*"
_TOKEN = re.compile(rf"(?P<quoted>{_QUOTED})|(?P<run>{_RUN})|(?P<other>.)", re.DOTALL)
_KEY_FOLLOWS = re.compile(r"\s*[:=]")
_MEASURED = re.compile(
    r"(?P<number>[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?)(?P<space> ?)(?P<unit>[A-Za-z%°]?[A-Za-z0-9]*)",
    re.ASCII,
)
_OBIS = re.compile(
    r"\d{1,3}-\d{1,3}:\d{1,3}\.\d{1,3}\.\d{1,3}(?:[.*]\d{1,3})?(?:_\d,\d_\d)?|0100[0-9a-f]{6}ff", re.ASCII
)
_OPAQUE = re.compile(
    r"(?:[0-9A-Fa-f]{2}[:-]){5,7}[0-9A-Fa-f]{2}|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
    r"|(?:\d{1,3}\.){3}\d{1,3}"
)
"""MAC, EUI, UUID and IPv4 addresses, which are replaced as a whole, even if their parts are short."""
_HEX = re.compile(r"(?=.*\d)[0-9a-f:\-]+|(?=.*\d)[0-9A-F:\-]+", re.ASCII)
_ESCAPE = re.compile(r"\\u[0-9A-Fa-f]{4}|\\.", re.DOTALL)
_SPLIT = re.compile(r"([:/*@#&?\\])")
_CODE = re.compile(r"0x[0-9A-Fa-f]{1,2}", re.ASCII)
_TYPE = 3
"""The largest number of digits in a device type that is kept."""
_SHORT = 2
"""Keys up to this length are kept, because two characters identify nobody."""
_SURROGATE = re.compile("[\udc80-\udcff]")


class Redactor:
    """A redactor that gives equal strings equal replacements, except for fractions of a second.

    `replaced` counts the replacements by kind. `entropy` returns a requested number of random bytes; `keep`
    has names to keep in addition to the known words.
    """

    def __init__(self, entropy: Callable[[int], bytes], keep: Iterable[str] = ()) -> None:
        self.replaced: Counter[str] = Counter()
        self._entropy = entropy
        self._keep = frozenset(keep)
        self._replacements: dict[tuple[str, str], str] = {}
        self._shift = Shift()
        self._key: tuple[str, ...] = ()

    def payload(self, payload: bytes) -> bytes:
        """Redact a payload or a recording of several payloads; invalid UTF-8 stays invalid."""
        text = self.text(payload.decode(errors="surrogateescape"))
        return _SURROGATE.sub("\udcff", text).encode(errors="surrogateescape")

    def text(self, text: str) -> str:
        """Redact a string without changing its length."""
        self._key = ()
        pieces = []
        for token in _TOKEN.finditer(text):
            if token["quoted"] is not None:
                pieces.append(self._quoted(token[0], is_key=bool(_KEY_FOLLOWS.match(text, token.end()))))
            elif token["run"] is not None:
                pieces.append(self._bare_word(token[0], is_key=bool(_KEY_FOLLOWS.match(text, token.end()))))
            else:
                pieces.append(self._letters(token[0]))
        return p1.restore(text, "".join(pieces))

    def _quoted(self, text: str, *, is_key: bool) -> str:
        end = len(text) - (len(text) > 1 and text.endswith('"'))
        content = text[1:end]
        if not is_key:
            return '"' + self._value(content) + text[end:]
        self._key = parts(content)
        return '"' + self._name(content) + text[end:]

    def _name(self, text: str) -> str:
        """Redact a key, unless it is short, known or an OBIS code."""
        if len(text) <= _SHORT or self._stays(text) or _OBIS.fullmatch(text):
            return text
        pieces = _SPLIT.split(text)
        if "\\" in pieces or _OPAQUE.fullmatch(text):
            return self._replacement("key", text)
        return "".join(p if len(p) <= 1 or self._stays(p) else self._replacement("key", p) for p in pieces)

    def _bare_word(self, text: str, *, is_key: bool) -> str:
        """Redact a word outside quotes."""
        bare = text.rstrip(":.!?")
        if is_key or bare != text:
            self._key = parts(bare)
        return self._value(bare) + text[len(bare) :]

    def _value(self, text: str) -> str:
        """Redact a value, unless it is a known word, an OBIS code, a time of day or a small code."""
        if not text or self._stays(text) or _OBIS.fullmatch(text) or CLOCK.fullmatch(text):
            return text
        if self._small and _CODE.fullmatch(text):
            return text
        shifted = self._shift.text(text)
        if shifted is not None:
            return self._time(text, *shifted)
        measured = _MEASURED.fullmatch(text)
        if measured and (not measured["unit"] or measured["unit"].lower() in UNITS):
            return self._number(measured["number"]) + measured["space"] + measured["unit"]
        return self._string(text)

    def _string(self, text: str) -> str:
        """Redact a string that may identify somebody; if it has parts, redact each separately."""
        pieces = _SPLIT.split(text)
        if len(pieces) == 1 or "\\" in pieces or _OPAQUE.fullmatch(text):
            return self._replacement("text", text)
        return "".join(self._value(p) if i % 2 == 0 else p for i, p in enumerate(pieces))

    def _stays(self, text: str) -> bool:
        return text in self._keep or is_known(text)

    def _time(self, text: str, shifted: str, fraction: str | None) -> str:
        self.replaced["time"] += 1
        if fraction is None:
            return shifted
        start = text.rindex("." + fraction) + 1
        return shifted[:start] + "".join(self._digit() for _ in fraction) + shifted[start + len(fraction) :]

    def _number(self, text: str) -> str:
        digits = text.lstrip("+-")
        mantissa, mark, exponent = _partition(digits)
        if not mantissa.strip("0."):
            return text
        integer, point, fraction = mantissa.partition(".")
        if not exponent and TIME_WORDS.intersection(self._key):
            shifted = self._shift.unix(integer)
            if shifted is not None:
                self.replaced["time"] += 1
                return shifted + point + "".join(self._digit() for _ in fraction)
        if integer == digits and self._small and len(digits) <= (_TYPE if "type" in self._key else _SHORT):
            return text
        sign = text[: len(text) - len(digits)]
        return sign + self._recall("number", mantissa, self._draw_number) + mark + exponent

    @property
    def _small(self) -> bool:
        words = {part for part in self._key if not part.isdecimal()}
        return bool(words) and words <= SMALL

    def _draw_number(self, mantissa: str) -> str:
        """Draw a number of the same length whose first two digits are 10 to 15; a single digit is 1 to 9."""
        leading = len(mantissa) - len(mantissa.lstrip("0."))
        count = sum(character.isdigit() for character in mantissa[leading:])
        start = "1" + string.digits[self._random(6)] if count > 1 else string.digits[1 + self._random(9)]
        digits = iter(start + "".join(self._digit() for _ in range(count - len(start))))
        return mantissa[:leading] + "".join(next(digits) if c.isdigit() else c for c in mantissa[leading:])

    def _replacement(self, kind: str, text: str) -> str:
        if not any(character.isalnum() or ord(character) > 127 for character in text):
            return text
        return self._recall(kind, text, self._draw_word)

    def _recall(self, kind: str, text: str, draw: Callable[[str], str]) -> str:
        """Return a string's replacement, which is drawn when the string first appears."""
        self.replaced[kind] += 1
        shape = "number" if kind == "number" else "text"  # a key may occur again as a value
        if (shape, text) not in self._replacements:
            self._replacements[shape, text] = draw(text)
        return self._replacements[shape, text]

    def _draw_word(self, text: str) -> str:
        """Draw a string of the same shape; a string of more than two characters is never a known word."""
        word = self._letters(text)
        while len(text) > _SHORT and self._stays(word):
            word = self._letters(text)
        return word

    def _letters(self, text: str) -> str:
        """Replace letters with letters and digits with digits; escapes stay escapes."""
        pieces, end = [], 0
        hexadecimal = _HEX.fullmatch(text) is not None
        for escape in _ESCAPE.finditer(text):
            pieces.append(self._characters(text[end : escape.start()], hexadecimal=hexadecimal))
            plain = len(escape[0]) == 6 or escape[0][1:] in '"\\/bfnrtu'
            pieces.append("\\u00" + self._pair() if len(escape[0]) == 6 else escape[0] if plain else "\\q")
            end = escape.end()
        pieces.append(self._characters(text[end:], hexadecimal=hexadecimal))
        return "".join(pieces)

    def _pair(self) -> str:
        return "6" + string.digits[1 + self._random(9)]

    def _characters(self, text: str, *, hexadecimal: bool) -> str:
        return "".join(self._character(character, 6 if hexadecimal else 26) for character in text)

    def _character(self, character: str, letters: int) -> str:
        if character.isdigit():
            return self._digit()
        if character.isalpha():
            alphabet = string.ascii_uppercase if character.isupper() else string.ascii_lowercase
            return alphabet[self._random(letters)]
        return character if character.isascii() or _SURROGATE.match(character) else "*"

    def _digit(self) -> str:
        return string.digits[self._random(10)]

    def _random(self, limit: int) -> int:
        return int.from_bytes(self._entropy(8)) % limit


def _partition(digits: str) -> tuple[str, str, str]:
    """Split a number into mantissa, e and exponent."""
    mark = "e" if "e" in digits else "E"
    return digits.partition(mark)
