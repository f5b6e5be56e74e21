"""wmbusmeters: a telegram as JSON, with the unit in each key, on a topic that the user's shell command sets.

``timestamp`` is the time at which the telegram was received, in UTC. ``device_date_time``, the meter's local
time without a zone, is not used.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

from meteragent.decode import PayloadNumber
from meteragent.decode.json import document_of, number_of, time_of, value_at
from meteragent.decode.profile import Profile, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import HOUR_MS, MINUTE_MS, Kind

_KILO = Fraction(1000)


def _field(name: str) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make the reader of a field of an electricity meter; heat meters use the same field names."""

    def read(payload: bytes) -> tuple[PayloadNumber]:
        """Read the number, its time and its meter; raises PayloadError, `other` for another medium."""
        document = document_of(payload)
        media = value_at(document, "media")
        if not isinstance(media, str):
            raise PayloadError("refused_missing")
        if media != "electricity":
            raise PayloadError("other")
        number = number_of(value_at(document, name))
        id_ = value_at(document, "id")
        return (
            PayloadNumber(
                time_of(value_at(document, "timestamp")), number, id_ if isinstance(id_, str) else None
            ),
        )

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
    identifies="the meter's id or its name in the configuration",
    personal=("id", "name", "customer"),
    traps=(
        "power is null in some telegrams: no reading, not 0",
        "registers of single tariffs are not offered: the times of their use are a secret, too",
        "heat meters have fields of the same names: messages of another medium are counted as other",
        "telegrams come by radio every few seconds to every quarter of an hour, and some are lost",
        "source.every states the longest time between received telegrams, which depends on your radio",
    ),
)

PROFILES = (WMBUSMETERS,)
