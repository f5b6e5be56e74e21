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
_NET = "power is the power drawn; power-net subtracts feed-in: with panels window.range must reach below 0"


def _all(numbers: Sequence[Decimal | None]) -> Decimal:
    """Add numbers; raises PayloadError if one is missing."""
    present = [number for number in numbers if number is not None]
    if not present or len(present) < len(numbers):
        raise PayloadError("refused_missing")
    return total(present)


# P1 telegrams -------------------------------------------------------------------------------------


def _telegram(find: Callable[[Telegram], Decimal]) -> Callable[[bytes], Sequence[PayloadNumber]]:
    def read(payload: bytes) -> tuple[PayloadNumber]:
        message = telegram(payload)
        return (PayloadNumber(message.time_ms, find(message)),)

    return read


def _register(direction: int) -> Callable[[Telegram], Decimal]:
    """Make the reader of a direction's register, 1 or 2: the meter's own sum, or that of its two tariffs."""

    def find(message: Telegram) -> Decimal:
        summed, tariff_1, tariff_2 = (
            message.number(f"1-0:{direction}.8.{tariff}", "kWh") for tariff in range(3)
        )
        if summed is not None and (tariff_1 is None) == (tariff_2 is None):
            return summed
        return _all([tariff_1, tariff_2])

    return find


def _drawn(message: Telegram) -> Decimal:
    return _all([message.number("1-0:1.7.0", "kW")])


def _fed_in(message: Telegram) -> Decimal:
    return _all([message.number("1-0:2.7.0", "kW")])


def _net(message: Telegram) -> Decimal:
    return total([_drawn(message), _fed_in(message).copy_negate()])


P1 = Profile(
    name="dsmr-p1",
    title="a meter's P1 port (DSMR 2 to 5, Fluvius, Luxembourg, EON Hungary), as raw telegrams",
    topics=("dsmr/raw",),
    quantities={
        "power": Quantity(Kind.POWER, _KILO, _telegram(_drawn)),
        "power-returned": Quantity(Kind.POWER, _KILO, _telegram(_fed_in)),
        "power-net": Quantity(Kind.POWER, _KILO, _telegram(_net)),
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
    more: tuple[str, ...], less: tuple[str, ...] = ()
) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make the reader of the sum of fields, less the sum of others."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        document = document_of(payload)
        more_sum, less_sum = (
            total(number_or_text(value_at(document, name)) for name in names) for names in (more, less)
        )
        return (
            PayloadNumber(
                time_of(value_at(document, "timestamp")), total([more_sum, less_sum.copy_negate()])
            ),
        )

    return read


_DRAWN, _FED_IN = ("electricity_currently_delivered",), ("electricity_currently_returned",)

READER = Profile(
    name="dsmr-reader",
    title="dsmr-reader's telegrams as JSON",
    topics=("dsmr/json",),
    quantities={
        "power": Quantity(Kind.POWER, _KILO, _document(_DRAWN)),
        "power-returned": Quantity(Kind.POWER, _KILO, _document(_FED_IN)),
        "power-net": Quantity(Kind.POWER, _KILO, _document(_DRAWN, _FED_IN)),
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
