"""DSMR and its relatives: raw P1 telegrams, and the messages that dsmr-reader makes of them."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

from meteragent.decode import PayloadNumber
from meteragent.decode.json import document_of, number_or_text, time_of, value_at
from meteragent.decode.number import bare, total
from meteragent.decode.p1 import Telegram, telegram
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import MINUTE_MS, Kind

_KILO, _WH = Fraction(1000), Fraction(1)
_EVERY_MS = 10_000
_TARIFFS = "the registers of all tariffs are summed: one alone would show when the tariff changes"
_NET = "power excludes feed-in; power-net subtracts it: with panels window.range must reach below 0"


def _sum(numbers: Sequence[Decimal | None]) -> Decimal:
    """Add numbers; raises PayloadError if one is missing."""
    available = [number for number in numbers if number is not None]
    if not available or len(available) < len(numbers):
        raise PayloadError("refused_missing")
    return total(available)


# P1 telegrams -------------------------------------------------------------------------------------


def _telegram(find: Callable[[Telegram], Decimal]) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make the reader of a telegram's number, which `find` returns."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the number and the time of the telegram; raises PayloadError."""
        message = telegram(payload)
        return (PayloadNumber(message.time_ms, find(message)),)

    return read


def _register(direction: int) -> Callable[[Telegram], Decimal]:
    """Make the reader of the register of a direction, 1 (import) or 2 (export), in kWh.

    The register is the meter's sum of all tariffs, or else the sum of the two tariffs.
    """

    def find(message: Telegram) -> Decimal:
        """Return the register; raises PayloadError if a line is missing."""
        all_tariffs, tariff_1, tariff_2 = (
            message.number(f"1-0:{direction}.8.{tariff}", "kWh") for tariff in range(3)
        )
        if all_tariffs is not None and (tariff_1 is None) == (tariff_2 is None):
            return all_tariffs
        return _sum([tariff_1, tariff_2])

    return find


def _import_kw(message: Telegram) -> Decimal:
    return _sum([message.number("1-0:1.7.0", "kW")])


def _export_kw(message: Telegram) -> Decimal:
    return _sum([message.number("1-0:2.7.0", "kW")])


def _net_kw(message: Telegram) -> Decimal:
    return total([_import_kw(message), _export_kw(message).copy_negate()])


P1 = Profile(
    name="dsmr-p1",
    title="a meter's P1 port (DSMR 2 to 5, Fluvius, Luxembourg, EON Hungary), as raw telegrams",
    topics=("dsmr/raw",),
    quantities={
        "power": Quantity(Kind.POWER, _KILO, _telegram(_import_kw)),
        "power-returned": Quantity(Kind.POWER, _KILO, _telegram(_export_kw)),
        "power-net": Quantity(Kind.POWER, _KILO, _telegram(_net_kw)),
        "import": Quantity(Kind.REGISTER, _KILO, _telegram(_register(1)), step_wh=_WH, counters=2),
        "export": Quantity(Kind.REGISTER, _KILO, _telegram(_register(2)), step_wh=_WH, counters=2),
    },
    every_ms=_EVERY_MS,
    period_ms=_EVERY_MS,
    hold_ms=5 * MINUTE_MS,
    personal=(
        "/ header",
        "0-0:96.1.1",
        "0-0:96.1.0",
        "0-n:96.1.0",
        "0-0:96.13.0",
        "0-0:96.13.1",
        "0-n:24.2.1",
    ),
    traps=(
        _TARIFFS,
        _NET,
        "0-0:98.1.0, 1-0:1.6.0 and 1-0:1.4.0 (Belgium) are means and peaks of 13 months: not offered",
        "the time is YYMMDDhhmmss with S or W in Central European Time; DSMR 2 has none: arrival counts",
        "in Finland and Lithuania the time is an hour ahead: readings are refused as ahead of the clock",
        "DSMR 2 and 3 have no checksum: errors in transmission are not detected",
        "telegrams come every second from DSMR 5 on (source.every = '1s'), every 10 s before",
    ),
)

# dsmr-reader --------------------------------------------------------------------------------------


def _document(
    positive_names: tuple[str, ...], negative_names: tuple[str, ...] = ()
) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make the reader of the sum of fields minus the sum of other fields."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the difference and the time of the telegram; raises PayloadError."""
        document = document_of(payload)
        positive, negative = (
            total(number_or_text(value_at(document, name)) for name in names)
            for names in (positive_names, negative_names)
        )
        return (
            PayloadNumber(
                time_of(value_at(document, "timestamp")), total([positive, negative.copy_negate()])
            ),
        )

    return read


_IMPORT, _EXPORT = ("electricity_currently_delivered",), ("electricity_currently_returned",)

READER = Profile(
    name="dsmr-reader",
    title="dsmr-reader's telegrams as JSON",
    topics=("dsmr/json",),
    quantities={
        "power": Quantity(Kind.POWER, _KILO, _document(_IMPORT)),
        "power-returned": Quantity(Kind.POWER, _KILO, _document(_EXPORT)),
        "power-net": Quantity(Kind.POWER, _KILO, _document(_IMPORT, _EXPORT)),
        "import": Quantity(
            Kind.REGISTER,
            _KILO,
            _document(("electricity_delivered_1", "electricity_delivered_2")),
            step_wh=_WH,
            counters=2,
        ),
        "export": Quantity(
            Kind.REGISTER,
            _KILO,
            _document(("electricity_returned_1", "electricity_returned_2")),
            step_wh=_WH,
            counters=2,
        ),
    },
    every_ms=_EVERY_MS,
    period_ms=_EVERY_MS,
    hold_ms=5 * MINUTE_MS,
    personal=("id", "extra_device_timestamp", "extra_device_delivered"),
    traps=(
        "numbers are texts; the fields have dsmr-reader's default names, which its configuration can change",
        _TARIFFS,
        _NET,
        "dsmr/day-consumption and dsmr/current-month are sums of the same energy: not offered",
    ),
)
TOPICS = Profile(
    name="dsmr-reader-topics",
    title="dsmr-reader's single topics",
    topics=("dsmr/reading/electricity_currently_delivered", "dsmr/reading/{phase}"),
    quantities={
        "power": Quantity(Kind.POWER, _KILO, bare, timed=False),
        "register": Quantity(Kind.REGISTER, _KILO, bare, timed=False, step_wh=_WH),
    },
    every_ms=_EVERY_MS,
    period_ms=_EVERY_MS,
    hold_ms=5 * MINUTE_MS,
    traps=(
        "a register needs both tariffs: phases = ['electricity_delivered_1', 'electricity_delivered_2']",
        "a bare number does not state its quantity: the end of the topic must match it",
    ),
)

PROFILES = (P1, READER, TOPICS)
