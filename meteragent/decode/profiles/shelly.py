"""Shelly's energies of whole minutes, which need code; the rest of Shelly's profiles is in files.

`by_minute` lists the energies of the last three minutes, newest first; the first minute ends at `minute_ts`.
`aenergy` counts both the energy drawn and the energy fed in, and `ret_aenergy` only the energy fed in, so
their difference is the energy drawn.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from meteragent.decode import PayloadNumber
from meteragent.decode.json import document_of, number_of, time_of, value_at
from meteragent.decode.number import total
from meteragent.decode.profile import Direction, Quantity
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import MINUTE_MS, Kind

_NOTIFICATIONS = ("NotifyStatus", "NotifyFullStatus")
_MWH = Fraction(1, 1000)


def _status(payload: bytes, component: str) -> Any:
    """Return a component's status. Raises PayloadError (`other` if a notification lacks its energy)."""
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


def _blocks(energy: Any) -> tuple[int, list[Decimal]]:
    """Return the end of the newest minute, and the energies, newest first. Raises PayloadError."""
    end_ms, blocks = time_of(value_at(energy, "minute_ts")), value_at(energy, "by_minute")
    if end_ms % MINUTE_MS:
        raise PayloadError("refused_time")
    if not isinstance(blocks, list):
        raise PayloadError("refused_missing" if blocks is None else "refused_type")
    if not blocks:
        raise PayloadError("refused_missing")
    return end_ms, [number_of(block) for block in blocks]


def _minutes_of_all(component: str) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make a reader of the energy in both directions in the last full minutes."""

    def read(payload: bytes) -> list[PayloadNumber]:
        """Read the energies of the minutes, oldest first. Raises PayloadError."""
        end_ms, blocks = _blocks(value_at(_status(payload, component), "aenergy"))
        return _of_minutes(end_ms, blocks)

    return read


def _of_minutes(end_ms: int, blocks: Sequence[Decimal]) -> list[PayloadNumber]:
    """Return the energies, which are given newest first, with the ends of their minutes, oldest first."""
    numbers = [PayloadNumber(end_ms - place * MINUTE_MS, block) for place, block in enumerate(blocks)]
    return numbers[::-1]


def _minutes(component: str) -> Callable[[bytes], Sequence[PayloadNumber]]:
    """Make a reader of the energy drawn in the last full minutes."""

    def read(payload: bytes) -> list[PayloadNumber]:
        """Read the energies of the minutes, oldest first. Raises PayloadError."""
        status = _status(payload, component)
        end_ms, all_blocks = _blocks(value_at(status, "aenergy"))
        fed_ms, fed_blocks = _blocks(value_at(status, "ret_aenergy"))
        if fed_ms != end_ms or len(fed_blocks) != len(all_blocks):
            raise PayloadError("refused_time")
        import_blocks = [
            total([block, fed.copy_negate()]) for block, fed in zip(all_blocks, fed_blocks, strict=True)
        ]
        return _of_minutes(end_ms, import_blocks)

    return read


def _quantity(
    read: Callable[[bytes], Sequence[PayloadNumber]], counters: int, direction: Direction
) -> Quantity:
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
    """Return the quantities of a component's channels."""
    suffixes = {f"-{channel}" if channel else "": f"{component}:{channel}" for channel in range(channels)}
    import_quantities = {
        f"minutes{suffix}": _quantity(_minutes(part), 2, "import") for suffix, part in suffixes.items()
    }
    return import_quantities | {
        f"energy-minutes{suffix}": _quantity(_minutes_of_all(part), 1, "both")
        for suffix, part in suffixes.items()
    }


MINUTES: Mapping[str, dict[str, Quantity]] = {
    "shelly-gen2-switch": _quantities("switch", 4),
    "shelly-gen2-pm1": _quantities("pm1", 1),
}
"""The quantities to add to each profile."""
