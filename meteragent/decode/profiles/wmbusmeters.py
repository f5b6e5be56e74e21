"""wmbusmeters: a telegram as JSON, with the unit in each key, on a topic set by the user's shell command.

``timestamp`` is the time at which the telegram was received, in UTC; ``device_date_time``, the meter's local
time without a zone, is not used. The driver iem3000 reports registers a thousand times too small in telegrams
without a power, which are not read.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from meteragent.decode import PayloadNumber, Read
from meteragent.decode.json import document_of, number_of, time_of, value_at
from meteragent.decode.number import sum_clamped
from meteragent.decode.profile import CodedPart, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import Kind

_KILO = Fraction(1000)
_USUAL_FIELDS = {
    "power": "current_power_consumption_kw",
    "power-production": "current_power_production_kw",
    "import": "total_energy_consumption_kwh",
    "export": "total_energy_production_kwh",
}
_FIELDS: dict[str, dict[str, str]] = {
    "em24": {"power": "power_kw"},
    "iem3000": {"power": "active_consumption_kw"},
    "abbb23": {"power": "active_consumption_kw"},
    "nemo": {
        "power": "active_positive_3phase_kw",
        "power-production": "active_negative_3phase_kw",
        "import": "total_active_positive_3phase_kwh",
    },
    "ime": {
        "power": "three_phase_total_active_power_kw",
        "import": "positive_total_active_energy_kwh",
        "export": "negative_total_active_energy_kwh",
    },
}
"""The field names of drivers that do not use the usual names."""
_REQUIRED_FIELDS = {"iem3000": "active_consumption_kw"}
"""For each driver, the field that a telegram must have to be read."""
_TARIFFS = re.compile(r"(import|export) of ([2-4]) tariffs", re.ASCII)
_DIRECTIONS = {"import": "consumption", "export": "production"}
_TARIFF_DRIVERS = ("amiplus",)
"""Drivers whose telegrams contain exactly the registers in use; other drivers also send unused registers,
which are 0."""


def _telegram_reader(find: Callable[[Any, str | None], Decimal]) -> Read:
    """Make a reader of the number that `find` returns; heat meters have fields of the same names."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the number, its time and its meter. Raises PayloadError (`other` for telegrams to skip)."""
        document = document_of(payload)
        media, driver = value_at(document, "media"), value_at(document, "meter")
        if not isinstance(media, str):
            raise PayloadError("refused_missing")
        if not isinstance(driver, str | None):
            raise PayloadError("refused_type")
        if media != "electricity":
            raise PayloadError("other")
        if driver in _REQUIRED_FIELDS and value_at(document, _REQUIRED_FIELDS[driver]) is None:
            raise PayloadError("other")
        time_ms, id_ = time_of(value_at(document, "timestamp")), value_at(document, "id")
        return (PayloadNumber(time_ms, find(document, driver), id_ if isinstance(id_, str) else None),)

    return read


def _field_reader(name: str) -> Read:
    """Make a reader of the quantity `name`, in the field that the telegram's driver uses for it."""
    return _telegram_reader(
        lambda document, driver: number_of(
            value_at(document, _FIELDS.get(driver or "", {}).get(name, _USUAL_FIELDS[name]))
        )
    )


def _tariff_sum_reader(direction: str, count: int) -> Read:
    """Make a reader of the sum of exactly `count` tariffs' registers."""
    names = _tariff_names(direction, count + 1)

    def find(document: Any, driver: str | None) -> Decimal:
        """Return the sum. Raises PayloadError unless the registers in use are known to be exactly `count`."""
        if driver not in _TARIFF_DRIVERS:
            raise PayloadError("refused_ambiguous")
        if value_at(document, names[-1]) is not None:
            raise PayloadError("refused_columns")
        return sum_clamped(number_of(value_at(document, name)) for name in names[:-1])

    return _telegram_reader(find)


def _tariff_names(direction: str, count: int) -> list[str]:
    """Return the field names of the registers of the first tariffs."""
    return [f"total_energy_{direction}_tariff_{number}_kwh" for number in range(1, count + 1)]


def _tariffs_quantity(kind: Kind, name: str) -> Quantity | None:
    """Make the quantity for a sum of tariffs, such as `import of 2 tariffs`; None for other names."""
    match = _TARIFFS.fullmatch(name)
    if match is None or kind is not Kind.REGISTER:
        return None
    count = int(match[2])
    return Quantity(kind, _KILO, _tariff_sum_reader(_DIRECTIONS[match[1]], count), counters=count)


CODED_PARTS = {
    "wmbusmeters": CodedPart(
        {
            "power": Quantity(Kind.POWER, _KILO, _field_reader("power")),
            "power-production": Quantity(Kind.POWER, _KILO, _field_reader("power-production")),
            "import": Quantity(Kind.REGISTER, _KILO, _field_reader("import")),
            "export": Quantity(Kind.REGISTER, _KILO, _field_reader("export")),
        },
        named=_tariffs_quantity,
        fields=(
            *("media", "electricity", "meter", "timestamp"),
            *(*_USUAL_FIELDS.values(), *_TARIFF_DRIVERS, *_FIELDS),
            *(name for names in _FIELDS.values() for name in names.values()),
            *(name for direction in _DIRECTIONS.values() for name in _tariff_names(direction, 5)),
        ),
    )
}
