"""Presets, and the conversion of watts into the unit of a stream."""

from dataclasses import dataclass
from fractions import Fraction

from meteragent.domain.shapes import Space
from meteragent.domain.units import HOUR_MS, MINUTE_MS, UNIT_FACTOR, Kind


@dataclass(frozen=True, slots=True)
class Preset:
    """Named settings, in W and Wh, that are both private and useful (DESIGN 5).

    `length` is the length of a window in ms, or a unit of the calendar; `blocks` is the number of slots in a
    window or, for a profile, in a day. `quantum` is in W, or in Wh for the energies of bands.
    """

    length: int | str
    hide_wh: Fraction
    quantum: Fraction
    level: Fraction = Fraction(1)
    space: Space = Space.LINF
    blocks: int = 1

    @property
    def has_calendar(self) -> bool:
        """Whether windows are local days or months, so that a configuration must state a time zone."""
        return isinstance(self.length, str)

    @property
    def slots(self) -> int:
        """The number of equal slots in a window; 1 for a kind of window that is divided otherwise."""
        return self.blocks if self.space is Space.LINF else 1


SLOT_MS = HOUR_MS // 2
"""The length of a slot under the default preset."""
PRESETS = {
    "television": Preset(SLOT_MS, Fraction(20), Fraction(1)),
    "appliance": Preset(SLOT_MS, Fraction(110), Fraction(1)),
    "street": Preset(SLOT_MS, Fraction(300), Fraction(1)),
    "signature": Preset(5 * MINUTE_MS, Fraction("0.1"), Fraction(1), blocks=30),
    "day": Preset("1d", Fraction(300), Fraction("0.1")),
    "bill": Preset("1mo", Fraction(6000), Fraction("0.01")),
    "typical-day": Preset("1mo", Fraction(1500), Fraction("0.01"), space=Space.PROFILE, blocks=4),
    "peak": Preset("1mo", Fraction("27.5"), Fraction(1), space=Space.PEAK),
    "tariff": Preset("1mo", Fraction(1000), Fraction(1), space=Space.BANDS),
}
OFFERED_PRESETS = tuple(
    name for name, preset in PRESETS.items() if preset.space is Space.LINF and preset.slots == 1
)
"""The presets of one number per window, which `init` offers."""
DEFAULT = "appliance"
"""The preset of a stream that names none, which `discover` and `init` propose first."""


def units_per_watt(kind: Kind, unit: str, duration_ms: int) -> Fraction:
    """Return 1 W in `unit` or, unless the kind is power, the energy of 1 W over `duration_ms` in `unit`."""
    hours = Fraction(1) if kind is Kind.POWER else Fraction(duration_ms, HOUR_MS)
    return hours / UNIT_FACTOR[unit]
