"""The corpus of payloads in tests/data/payloads: what each one holds, and what the profiles read in it."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from meteragent import config
from meteragent.decode.profile import Profile
from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import ConfigError, PayloadError
from meteragent.domain.units import MICRO, UNIT_FACTOR, Kind

FOLDER = Path(__file__).parents[1] / "data" / "payloads"
_OPTIONS = ("id", "timezone")
_ENERGIES = (Kind.REGISTER, Kind.INTERVAL_ENERGY)


class Statement(NamedTuple):
    """A quantity of a payload: what it is stated to hold, and what was read."""

    file: str
    profile: str
    quantity: str
    expected: str
    actual: str

    @property
    def is_right(self) -> bool:
        """Whether the payload is read as stated."""
        return self.expected == self.actual


class Payload(NamedTuple):
    """An entry of the manifest: a payload, where it is from, and what it holds."""

    file: str
    profile: str
    topic: str
    facts: Mapping[str, Any]
    reads: Mapping[str, str]

    @property
    def bytes(self) -> bytes:
        """The payload itself."""
        return (FOLDER / self.file).read_bytes()

    def __str__(self) -> str:
        return self.file

    def statements(self) -> Iterator[Statement]:
        """Yield each quantity as it is stated and as it is read."""
        for name, expected in self.reads.items():
            stated = expected
            if " " in expected:
                time_ms = self.facts.get("time")
                stated = expected if time_ms is None else f"{expected} at {time_ms}"
            yield Statement(self.file, self.profile, name, stated, self._actual(name, expected))

    def _actual(self, name: str, expected: str) -> str:
        """Return what a configured source reads, in W or Wh with its time, or why it is refused."""
        try:
            source = config.parse(self._configuration(name, expected)).stream[0].source
            readings = config.build_decoder(source)(self.bytes)
        except PayloadError as error:
            return error.reason
        except ConfigError as error:
            return f"{error.key} is refused"
        texts = []
        for time_ms, value_u, _ in readings:
            value = Fraction(value_u * UNIT_FACTOR[source.unit], MICRO)
            texts.append(f"{_decimal(value)} {'W' if source.kind is Kind.POWER else 'Wh'}")
            texts[-1] += "" if time_ms is None else f" at {time_ms}"
        return ", ".join(texts)

    def _configuration(self, name: str, expected: str) -> str:
        """Return a configuration that reads a quantity."""
        profile = PROFILES[self.profile]
        kind = _kind(profile, name, expected)
        base = "W" if kind is Kind.POWER else "Wh"
        quantity = profile.find_quantity(kind, name)
        unit = self.facts.get("unit", base) if quantity is not None and quantity.scale is None else base
        unit = unit if unit.endswith(base) else base
        keys = {"topic": "t", "meter": "home", "profile": self.profile, "kind": str(kind), "unit": unit}
        keys |= {"value": name} | {key: self.facts[key] for key in _OPTIONS if key in self.facts}
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        return "\n".join(["[source]", *lines, "[sink]", 'topic = "private/{meter}"'])


def _kind(profile: Profile, name: str, expected: str) -> Kind:
    """Return the kind of a quantity; an energy if that is what it is stated to hold."""
    kinds = [kind for kind in Kind if profile.find_quantity(kind, name) is not None]
    if expected.endswith(" Wh"):
        kinds = [kind for kind in kinds if kind in _ENERGIES]
    return Kind.REGISTER if Kind.REGISTER in kinds and Kind.POWER not in kinds else next(iter(kinds))


def _decimal(value: Fraction) -> str:
    """Return a number of millionths, or of thousandths of them, as a decimal without zeros at its end."""
    return f"{Decimal(int(value * 10**9)).scaleb(-9):f}".rstrip("0").rstrip(".") if value else "0"


def payloads() -> tuple[Payload, ...]:
    """Return every payload of the manifest."""
    entries = tomllib.loads((FOLDER / "manifest.toml").read_text())["payload"]
    return tuple(
        Payload(entry["file"], entry["profile"], entry["topic"], entry, entry["reads"]) for entry in entries
    )
