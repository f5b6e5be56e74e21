"""DSMR and related formats: raw P1 telegrams, D0 readouts, and the messages of dsmr-reader."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial

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
_NET = (
    "power excludes feed-in, and power-net subtracts it: with solar panels, window.range must reach below 0"
)


def _sum(numbers: Sequence[Decimal | None]) -> Decimal:
    """Return the sum of numbers. Raises PayloadError if a number is missing."""
    present_numbers = [number for number in numbers if number is not None]
    if not present_numbers or len(present_numbers) < len(numbers):
        raise PayloadError("refused_missing")
    return total(present_numbers)


# P1 telegrams -------------------------------------------------------------------------------------


def _telegram(
    find: Callable[[Telegram], Decimal], zone: str | None = None
) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make a reader of the number that `find` returns for a telegram, with times in `zone`."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read a telegram's number and time. Raises PayloadError if the telegram is refused."""
        message = telegram(payload, zone)
        return (PayloadNumber(message.time_ms, find(message)),)

    return read


def _power(find: Callable[[Telegram], Decimal]) -> Quantity:
    """Make the quantity for a power in a telegram."""
    return Quantity(Kind.POWER, _KILO, _telegram(find), in_zone=partial(_telegram, find))


def _energy(direction: int) -> Quantity:
    """Make the quantity for one direction's register."""
    find = _register(direction)
    in_zone = partial(_telegram, find)
    return Quantity(Kind.REGISTER, _KILO, _telegram(find), step_wh=_WH, counters=2, in_zone=in_zone)


def _register(direction: int) -> Callable[[Telegram], Decimal]:
    """Make a function that returns one direction's register, 1 (import) or 2 (export), in kWh.

    The register is the meter's own sum over all tariffs or, if it sends no such sum, the sum of its two to
    eight tariffs. A telegram with only one of the first two tariffs is refused.
    """

    def find(message: Telegram) -> Decimal:
        """Return the register. Raises PayloadError if a line is missing."""
        all_tariffs, *tariffs = (message.number(f"1-0:{direction}.8.{tariff}", "kWh") for tariff in range(9))
        if all_tariffs is not None and (tariffs[0] is None) == (tariffs[1] is None):
            return all_tariffs
        while len(tariffs) > 2 and tariffs[-1] is None:
            tariffs.pop()
        return _sum(tariffs)

    return find


def _import_kw(message: Telegram) -> Decimal:
    return _sum([message.number("1-0:1.7.0", "kW")])


def _export_kw(message: Telegram) -> Decimal:
    return _sum([message.number("1-0:2.7.0", "kW")])


def _net_kw(message: Telegram) -> Decimal:
    """Return import minus export or, if the meter does not send both, the meter's own net power."""
    import_kw, export_kw = message.number("1-0:1.7.0", "kW"), message.number("1-0:2.7.0", "kW")
    if import_kw is not None and export_kw is not None:
        return total([import_kw, export_kw.copy_negate()])
    return _sum([message.number("1-0:16.7.0", "kW", signed=True)])


P1 = Profile(
    name="dsmr-p1",
    title="a meter's P1 port (DSMR 2 to 5 and related formats) or D0 readout, as raw telegrams",
    topics=("dsmr/raw",),
    quantities={
        "power": _power(_import_kw),
        "power-returned": _power(_export_kw),
        "power-net": _power(_net_kw),
        "import": _energy(1),
        "export": _energy(2),
    },
    every_ms=_EVERY_MS,
    period_ms=_EVERY_MS,
    hold_ms=5 * MINUTE_MS,
    personal=(
        "/ header",
        "0-0:96.1.1",
        "0-0:96.1.0",
        "0-n:96.1.0",
        "1-0:0.0.0",
        "1-0:96.1.0",
        "0-0:42.0.0",
        "0-0:96.13.0",
        "0-0:96.13.1",
        "0-n:24.2.1",
    ),
    traps=(
        _TARIFFS,
        _NET,
        "0-0:98.1.0, 1-0:1.6.0 and 1-0:1.4.0 (Belgium) are means and peaks of 13 months: not offered",
        "the time is local, with S or W: outside Central European Time, source.timezone names the zone",
        "the time of arrival counts if source.timezone = 'arrival', and for DSMR 2, DSMR 3 and D0",
        "a time that stays whole hours off its arrival is refused as refused_zone: set source.timezone",
        "numbers in W and Wh (Austria) are read, too; of a D0 readout, only codes for present values (*255)",
        "a D0 meter that sends only 1-0:16.7.0 has no power: read power-net",
        "DSMR 2 and 3 and D0 have no checksum: errors in transmission are not detected",
        "from DSMR 5 on, telegrams come every second (source.every = '1s'); up to DSMR 4, every 10 s",
    ),
)

# dsmr-reader --------------------------------------------------------------------------------------


def _difference(
    positive_names: tuple[str, ...], negative_names: tuple[str, ...] = ()
) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make a reader of the sum of the positive fields minus the sum of the negative fields."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the difference and the time, if any. Raises PayloadError if a field is missing or wrong."""
        document = document_of(payload)
        positive_sum, negative_sum = (
            total(number_or_text(value_at(document, name)) for name in names)
            for names in (positive_names, negative_names)
        )
        has_time = isinstance(document, dict) and "timestamp" in document
        time_ms = time_of(document["timestamp"]) if has_time else None
        return (PayloadNumber(time_ms, total([positive_sum, negative_sum.copy_negate()])),)

    return read


_IMPORT, _EXPORT = ("electricity_currently_delivered",), ("electricity_currently_returned",)

READER = Profile(
    name="dsmr-reader",
    title="dsmr-reader's telegrams as JSON",
    topics=("dsmr/json",),
    quantities={
        "power": Quantity(Kind.POWER, _KILO, _difference(_IMPORT)),
        "power-returned": Quantity(Kind.POWER, _KILO, _difference(_EXPORT)),
        "power-net": Quantity(Kind.POWER, _KILO, _difference(_IMPORT, _EXPORT)),
        "import": Quantity(
            Kind.REGISTER,
            _KILO,
            _difference(("electricity_delivered_1", "electricity_delivered_2")),
            step_wh=_WH,
            counters=2,
        ),
        "export": Quantity(
            Kind.REGISTER,
            _KILO,
            _difference(("electricity_returned_1", "electricity_returned_2")),
            step_wh=_WH,
            counters=2,
        ),
    },
    every_ms=_EVERY_MS,
    period_ms=_EVERY_MS,
    hold_ms=5 * MINUTE_MS,
    personal=("id", "extra_device_timestamp", "extra_device_delivered"),
    traps=(
        "numbers are strings; fields have dsmr-reader's default names, which its configuration can change",
        "without the field timestamp, which its configuration can drop, the time of arrival counts",
        _TARIFFS,
        _NET,
        "dsmr/day-consumption and dsmr/current-month are sums of the same energy: not offered",
    ),
)
TOPICS = Profile(
    name="dsmr-reader-topics",
    title="dsmr-reader's topics with one number each",
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
