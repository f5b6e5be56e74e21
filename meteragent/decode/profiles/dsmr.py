"""DSMR and related formats: raw P1 telegrams, D0 readouts, and the messages of dsmr-reader."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial

from meteragent.decode import PayloadNumber, Read
from meteragent.decode.json import document_of, number_or_text, time_of, value_at
from meteragent.decode.number import read_bare, sum_clamped
from meteragent.decode.p1 import Telegram, parse_telegram
from meteragent.decode.profile import CodedPart, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import Kind

_KILO, _WH = Fraction(1000), Fraction(1)


def _total(numbers: Sequence[Decimal | None]) -> Decimal:
    """Return the sum of numbers. Raises PayloadError if a number is missing."""
    present_numbers = [number for number in numbers if number is not None]
    if not present_numbers or len(present_numbers) < len(numbers):
        raise PayloadError("refused_missing")
    return sum_clamped(present_numbers)


# P1 telegrams -------------------------------------------------------------------------------------


def _telegram_reader(find: Callable[[Telegram], Decimal], zone: str | None = None) -> Read:
    """Make a reader of the number that `find` returns for a telegram, with times in `zone`."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read a telegram's number and time. Raises PayloadError if the telegram is refused."""
        message = parse_telegram(payload, zone)
        return (PayloadNumber(message.time_ms, find(message)),)

    return read


def _power(find: Callable[[Telegram], Decimal]) -> Quantity:
    return Quantity(Kind.POWER, _KILO, _telegram_reader(find), in_zone=partial(_telegram_reader, find))


def _energy_quantity(direction: int) -> Quantity:
    find = _register_finder(direction)
    in_zone = partial(_telegram_reader, find)
    return Quantity(Kind.REGISTER, _KILO, _telegram_reader(find), step_wh=_WH, counters=2, in_zone=in_zone)


def _register_finder(direction: int) -> Callable[[Telegram], Decimal]:
    """Make a function that returns one direction's register, 1 (import) or 2 (export), in kWh.

    The register is the meter's own sum over all tariffs or, if it sends no such sum, the sum of its two to
    eight tariffs. A telegram with only one of the first two tariffs is refused.
    """

    def find(message: Telegram) -> Decimal:
        """Return the register. Raises PayloadError if a line is missing."""
        all_tariffs, *tariffs = (
            message.read_code(f"1-0:{direction}.8.{tariff}", "kWh") for tariff in range(9)
        )
        if all_tariffs is not None and (tariffs[0] is None) == (tariffs[1] is None):
            return all_tariffs
        while len(tariffs) > 2 and tariffs[-1] is None:
            tariffs.pop()
        return _total(tariffs)

    return find


def _net_kw(message: Telegram) -> Decimal:
    """Return import minus export or, if the meter does not send both, the meter's own net power."""
    import_kw, export_kw = message.read_code("1-0:1.7.0", "kW"), message.read_code("1-0:2.7.0", "kW")
    if import_kw is not None and export_kw is not None:
        return sum_clamped([import_kw, export_kw.copy_negate()])
    return _total([message.read_code("1-0:16.7.0", "kW", is_signed=True)])


_P1 = CodedPart(
    {
        "power": _power(lambda message: _total([message.read_code("1-0:1.7.0", "kW")])),
        "power-returned": _power(lambda message: _total([message.read_code("1-0:2.7.0", "kW")])),
        "power-net": _power(_net_kw),
        "import": _energy_quantity(1),
        "export": _energy_quantity(2),
    }
)

# dsmr-reader --------------------------------------------------------------------------------------


def _difference_reader(positive_names: tuple[str, ...], negative_names: tuple[str, ...] = ()) -> Read:
    """Make a reader of the sum of the positive fields minus the sum of the negative fields."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the difference and the time, if any. Raises PayloadError if a field is missing or wrong."""
        document = document_of(payload)
        positive_sum, negative_sum = (
            sum_clamped(number_or_text(value_at(document, name)) for name in names)
            for names in (positive_names, negative_names)
        )
        has_time = isinstance(document, dict) and "timestamp" in document
        time_ms = time_of(document["timestamp"]) if has_time else None
        return (PayloadNumber(time_ms, sum_clamped([positive_sum, negative_sum.copy_negate()])),)

    return read


_IMPORT, _EXPORT = ("electricity_currently_delivered",), ("electricity_currently_returned",)
_IMPORT_REGISTERS = ("electricity_delivered_1", "electricity_delivered_2")
_EXPORT_REGISTERS = ("electricity_returned_1", "electricity_returned_2")


def _pair_quantity(names: tuple[str, ...]) -> Quantity:
    """Make the quantity for the sum of two tariffs' registers."""
    return Quantity(Kind.REGISTER, _KILO, _difference_reader(names), step_wh=_WH, counters=2)


_READER = CodedPart(
    {
        "power": Quantity(Kind.POWER, _KILO, _difference_reader(_IMPORT)),
        "power-returned": Quantity(Kind.POWER, _KILO, _difference_reader(_EXPORT)),
        "power-net": Quantity(Kind.POWER, _KILO, _difference_reader(_IMPORT, _EXPORT)),
        "import": _pair_quantity(_IMPORT_REGISTERS),
        "export": _pair_quantity(_EXPORT_REGISTERS),
    },
    fields=(*_IMPORT, *_EXPORT, *_IMPORT_REGISTERS, *_EXPORT_REGISTERS, "timestamp"),
)
_TOPICS = CodedPart(
    {
        "power": Quantity(Kind.POWER, _KILO, read_bare, has_time=False),
        "register": Quantity(Kind.REGISTER, _KILO, read_bare, has_time=False, step_wh=_WH),
    }
)

CODED_PARTS = {"dsmr-p1": _P1, "dsmr-reader": _READER, "dsmr-reader-topics": _TOPICS}
