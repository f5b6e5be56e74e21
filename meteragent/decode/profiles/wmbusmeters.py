"""wmbusmeters: a telegram as JSON, the unit in each key, on a topic of the user's own shell command.

``timestamp`` is when the telegram was received, in UTC; ``device_date_time`` is the meter's local time,
without a zone, and not used.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

from meteragent.decode import Found
from meteragent.decode.json import at, document_of, number_of, time_of
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import HOUR_MS, MINUTE_MS, Kind

_KILO = Fraction(1000)


def _field(name: str) -> Callable[[bytes], Sequence[Found]]:
    """The reader of one field; heat meters have fields of the same names, which are not meant."""

    def read(payload: bytes) -> tuple[Found]:
        document = document_of(payload)
        media = at(document, "media")
        if not isinstance(media, str):
            raise PayloadError("refused_missing")
        if media != "electricity":
            raise PayloadError("other")
        number = number_of(at(document, name))
        id_ = at(document, "id")
        return (Found(time_of(at(document, "timestamp")), number, id_ if isinstance(id_, str) else None),)

    return read


WMBUSMETERS = Profile(
    name="wmbusmeters",
    title="an electricity meter heard by wmbusmeters",
    topics=("wmbusmeters/{meter}",),
    quantities={
        "power": Quantity(Kind.POWER, _KILO, _field("current_power_consumption_kw")),
        "power-production": Quantity(Kind.POWER, _KILO, _field("current_power_production_kw")),
        "import": Quantity(Kind.REGISTER, _KILO, _field("total_energy_consumption_kwh")),
        "export": Quantity(Kind.REGISTER, _KILO, _field("total_energy_production_kwh")),
    },
    every_ms=MINUTE_MS,
    hold_ms=HOUR_MS,
    identifies="the meter's id or the name that it was given",
    personal=("id", "name", "customer"),
    traps=(
        "power is null in some telegrams: no reading, not 0",
        "registers of single tariffs are not offered: when each was used is a secret too",
        "heat meters have fields of the same names: messages of another medium are counted as other",
        "telegrams come by radio every few seconds to a quarter of an hour, and some are not heard",
        "how far apart those are that come, only you know: source.every states it",
    ),
)

PROFILES = (WMBUSMETERS,)
