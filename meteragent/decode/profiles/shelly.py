"""Shelly's energies of whole minutes, which need code; all other quantities of Shelly devices are in files.

`by_minute` lists the last three minutes, newest first; the newest ends at `minute_ts`. `aenergy` counts both
the energy drawn and the energy fed in (`ret_aenergy`), so their difference is the energy drawn.
"""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from meteragent.decode import PayloadNumber, Read
from meteragent.decode.json import document_of, number_of, time_of, value_at
from meteragent.decode.number import sum_clamped
from meteragent.decode.profile import CodedPart, Direction, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import MINUTE_MS, Kind

_NOTIFICATIONS = ("NotifyStatus", "NotifyFullStatus")
_MWH = Fraction(1, 1000)
_FIELDS = ("aenergy", "ret_aenergy", "minute_ts", "by_minute")
"""The names in payloads on which the energies of minutes depend."""


def _read_status(payload: bytes, component: str) -> Any:
    """Return a component's status. Raises PayloadError (`other` if the message lacks its energy)."""
    document = document_of(payload)
    if not isinstance(document, dict):
        raise PayloadError("refused_type")
    if "method" not in document:
        return document
    if document["method"] not in _NOTIFICATIONS:
        raise PayloadError("other")
    status = value_at(document, "params", component)
    if not isinstance(status, dict) or "aenergy" not in status:
        raise PayloadError("other")
    return status


def _read_minutes(energy: Any) -> tuple[int, list[Decimal]]:
    """Return the end of the newest minute, and the energies, newest first. Raises PayloadError if wrong."""
    end_ms, blocks = time_of(value_at(energy, "minute_ts")), value_at(energy, "by_minute")
    if end_ms % MINUTE_MS:
        raise PayloadError("refused_time")
    if not isinstance(blocks, list):
        raise PayloadError("refused_missing" if blocks is None else "refused_type")
    if not blocks:
        raise PayloadError("refused_missing")
    return end_ms, [number_of(block) for block in blocks]


def _energy_reader(component: str) -> Read:
    """Make a reader of the energy in both directions in each of the last full minutes."""

    def read(payload: bytes) -> list[PayloadNumber]:
        """Read the minutes' energies, oldest first. Raises PayloadError if one is missing or wrong."""
        end_ms, blocks = _read_minutes(value_at(_read_status(payload, component), "aenergy"))
        return _numbers(end_ms, blocks)

    return read


def _numbers(end_ms: int, blocks: Sequence[Decimal]) -> list[PayloadNumber]:
    """Return the energies `blocks`, which are newest first, with their minutes' ends, oldest first."""
    numbers = [PayloadNumber(end_ms - position * MINUTE_MS, block) for position, block in enumerate(blocks)]
    return numbers[::-1]


def _import_reader(component: str) -> Read:
    """Make a reader of the energy drawn in each of the last full minutes."""

    def read(payload: bytes) -> list[PayloadNumber]:
        """Read the minutes' energies, oldest first. Raises PayloadError if one is missing or wrong."""
        status = _read_status(payload, component)
        end_ms, energy_blocks = _read_minutes(value_at(status, "aenergy"))
        export_end_ms, export_blocks = _read_minutes(value_at(status, "ret_aenergy"))
        if export_end_ms != end_ms or len(export_blocks) != len(energy_blocks):
            raise PayloadError("refused_time")
        import_blocks = [
            sum_clamped([energy, exported.copy_negate()])
            for energy, exported in zip(energy_blocks, export_blocks, strict=True)
        ]
        return _numbers(end_ms, import_blocks)

    return read


def _quantity(read: Read, counters: int, direction: Direction) -> Quantity:
    return Quantity(
        Kind.INTERVAL_ENERGY,
        _MWH,
        read,
        interval_ms=MINUTE_MS,
        step_wh=_MWH,
        counters=counters,
        direction=direction,
    )


def _quantities(component: str, channels: int) -> dict[str, Quantity]:
    keys = {f"-{channel}" if channel else "": f"{component}:{channel}" for channel in range(channels)}
    import_quantities = {
        f"minutes{suffix}": _quantity(_import_reader(key), 2, "import") for suffix, key in keys.items()
    }
    return import_quantities | {
        f"energy-minutes{suffix}": _quantity(_energy_reader(key), 1, "both") for suffix, key in keys.items()
    }


CODED_PARTS = {
    "shelly-gen2-switch": CodedPart(_quantities("switch", 4), fields=_FIELDS),
    "shelly-gen2-pm1": CodedPart(_quantities("pm1", 1), fields=_FIELDS),
}
