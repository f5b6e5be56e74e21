"""The tokens of a text, and what stands in the place of each."""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable

from meteragent.tools.redact import p1
from meteragent.tools.redact.times import CLOCK, Shift
from meteragent.tools.redact.words import SMALL, TIME_WORDS, UNITS, known, parts

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
"""MAC, EUI, UUID, IPv4: replaced as a whole, however short their parts are."""
_HEX = re.compile(r"(?=.*\d)[0-9a-f:\-]+|(?=.*\d)[0-9A-F:\-]+", re.ASCII)
_ESCAPE = re.compile(r"\\u[0-9A-Fa-f]{4}|\\.", re.DOTALL)
_SPLIT = re.compile(r"([:/*@#&?\\])")
_SHORT = 2
"""A key of two characters names nobody."""
_SURROGATE = re.compile("[\udc80-\udcff]")


class Redactor:
    """Replaces what a text says, always the same by the same; `replaced` counts, by kind.

    `entropy` gives so many random bytes; `keep` are names that stay beside those that are known.
    """

    def __init__(self, entropy: Callable[[int], bytes], keep: Iterable[str] = ()) -> None:
        self.replaced: Counter[str] = Counter()
        self._entropy = entropy
        self._keep = frozenset(keep)
        self._known: dict[tuple[str, str], str] = {}
        self._shift = Shift()
        self._key: tuple[str, ...] = ()

    def payload(self, payload: bytes) -> bytes:
        """A payload or a recording of several; what is no UTF-8 stays none."""
        text = self.text(payload.decode(errors="surrogateescape"))
        return _SURROGATE.sub("\udcff", text).encode(errors="surrogateescape")

    def text(self, text: str) -> str:
        """A text, as long as it was."""
        self._key = ()
        found = []
        for token in _TOKEN.finditer(text):
            if token["quoted"] is not None:
                found.append(self._quoted(token[0], is_key=bool(_KEY_FOLLOWS.match(text, token.end()))))
            elif token["run"] is not None:
                found.append(self._free(token[0], is_key=bool(_KEY_FOLLOWS.match(text, token.end()))))
            else:
                found.append(self._letters(token[0]))
        return p1.restore(text, "".join(found))

    def _quoted(self, text: str, *, is_key: bool) -> str:
        end = len(text) - (len(text) > 1 and text.endswith('"'))
        inside = text[1:end]
        if not is_key:
            return '"' + self._value(inside) + text[end:]
        self._key = parts(inside)
        return '"' + self._name(inside) + text[end:]

    def _name(self, text: str) -> str:
        """A key."""
        if len(text) <= _SHORT or self._stays(text) or _OBIS.fullmatch(text):
            return text
        pieces = _SPLIT.split(text)
        if "\\" in pieces or _OPAQUE.fullmatch(text):
            return self._drawn("key", text)
        return "".join(p if len(p) <= 1 or self._stays(p) else self._drawn("key", p) for p in pieces)

    def _free(self, text: str, *, is_key: bool) -> str:
        """A word outside quotes."""
        bare = text.rstrip(":.!?")
        if is_key or bare != text:
            self._key = parts(bare)
        return self._value(bare) + text[len(bare) :]

    def _value(self, text: str) -> str:
        """What is said: a known word, a time, a number, or something else."""
        if not text or self._stays(text) or _OBIS.fullmatch(text) or CLOCK.fullmatch(text):
            return text
        moved = self._shift.text(text)
        if moved is not None:
            return self._time(text, *moved)
        measured = _MEASURED.fullmatch(text)
        if measured and (not measured["unit"] or measured["unit"].lower() in UNITS):
            return self._number(measured["number"]) + measured["space"] + measured["unit"]
        return self._other(text)

    def _other(self, text: str) -> str:
        """What may name somebody: its parts by themselves where it has some, else as a whole."""
        pieces = _SPLIT.split(text)
        if len(pieces) == 1 or "\\" in pieces or _OPAQUE.fullmatch(text):
            return self._drawn("text", text)
        return "".join(self._value(p) if at % 2 == 0 else p for at, p in enumerate(pieces))

    def _stays(self, text: str) -> bool:
        return text in self._keep or known(text)

    def _time(self, text: str, moved: str, fraction: str | None) -> str:
        self.replaced["time"] += 1
        if fraction is None:
            return moved
        at = text.rindex("." + fraction) + 1
        return moved[:at] + "".join(self._digit() for _ in fraction) + moved[at + len(fraction) :]

    def _number(self, text: str) -> str:
        digits = text.lstrip("+-")
        mantissa, mark, exponent = _partition(digits)
        if not mantissa.strip("0."):
            return text
        whole, point, fraction = mantissa.partition(".")
        if not exponent and TIME_WORDS.intersection(self._key):
            moved = self._shift.unix(whole)
            if moved is not None:
                self.replaced["time"] += 1
                return moved + point + "".join(self._digit() for _ in fraction)
        if len(digits) <= _SHORT and whole == digits and self._small:
            return text
        sign = text[: len(text) - len(digits)]
        return sign + self._once("number", mantissa, self._like) + mark + exponent

    @property
    def _small(self) -> bool:
        named = {part for part in self._key if not part.isdecimal()}
        return bool(named) and named <= SMALL

    def _like(self, mantissa: str) -> str:
        """A number with as many digits: 1, then 0 to 5, then any; one digit alone is any but 0."""
        leading = len(mantissa) - len(mantissa.lstrip("0."))
        count = sum(one.isdigit() for one in mantissa[leading:])
        first = "1" + string.digits[self._below(6)] if count > 1 else string.digits[1 + self._below(9)]
        fresh = iter(first + "".join(self._digit() for _ in range(count - len(first))))
        return mantissa[:leading] + "".join(next(fresh) if c.isdigit() else c for c in mantissa[leading:])

    def _drawn(self, kind: str, text: str) -> str:
        if not any(one.isalnum() or ord(one) > 127 for one in text):
            return text
        return self._once(kind, text, self._unknown)

    def _once(self, kind: str, text: str, draw: Callable[[str], str]) -> str:
        """The replacement of a text: drawn when it first comes."""
        self.replaced[kind] += 1
        of = "number" if kind == "number" else "text"  # a key may come again as a value
        if (of, text) not in self._known:
            self._known[of, text] = draw(text)
        return self._known[of, text]

    def _unknown(self, text: str) -> str:
        """A text of the same shape that is no known word, so that it means nothing."""
        drawn = self._letters(text)
        while len(text) > _SHORT and self._stays(drawn):
            drawn = self._letters(text)
        return drawn

    def _letters(self, text: str) -> str:
        """Other letters for letters and other digits for digits; escapes stay escapes."""
        pieces, at = [], 0
        hexadecimal = _HEX.fullmatch(text) is not None
        for escape in _ESCAPE.finditer(text):
            pieces.append(self._characters(text[at : escape.start()], hexadecimal=hexadecimal))
            plain = len(escape[0]) == 6 or escape[0][1:] in '"\\/bfnrtu'
            pieces.append("\\u00" + self._pair() if len(escape[0]) == 6 else escape[0] if plain else "\\q")
            at = escape.end()
        pieces.append(self._characters(text[at:], hexadecimal=hexadecimal))
        return "".join(pieces)

    def _pair(self) -> str:
        return "6" + string.digits[1 + self._below(9)]

    def _characters(self, text: str, *, hexadecimal: bool) -> str:
        return "".join(self._character(one, 6 if hexadecimal else 26) for one in text)

    def _character(self, one: str, letters: int) -> str:
        if one.isdigit():
            return self._digit()
        if one.isalpha():
            alphabet = string.ascii_uppercase if one.isupper() else string.ascii_lowercase
            return alphabet[self._below(letters)]
        return one if one.isascii() or _SURROGATE.match(one) else "*"

    def _digit(self) -> str:
        return string.digits[self._below(10)]

    def _below(self, limit: int) -> int:
        return int.from_bytes(self._entropy(8)) % limit


def _partition(digits: str) -> tuple[str, str, str]:
    """Mantissa, the e, exponent."""
    mark = "e" if "e" in digits else "E"
    return digits.partition(mark)
