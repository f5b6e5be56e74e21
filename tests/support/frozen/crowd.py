"""The keys of a crowd's operators, and the content of the reports that homes seal for them."""

from typing import Any

from meteragent.agent.link.crowd import OperatorKeys
from meteragent.crowd.message import Report
from meteragent.crowd.seal import PAD, SHARE, seal_info
from meteragent.crowd.share import MODULUS, to_signed_64
from tests.support.crowd import Street
from tests.support.frozen.cases import SPRING_MS
from tests.support.frozen.special import GROUP


async def _commit(_role: str, _serial: int, _payload: bytes) -> None:
    """Commit nothing."""


def _street() -> Street:
    """Return the operators, whose keys of the days of the readings are published."""
    street = Street(GROUP)
    street.prepare(SPRING_MS // 1000)
    return street


STREET = _street()


def keys() -> OperatorKeys:
    """Return the operators' keys, as a home has them."""
    return OperatorKeys(GROUP, STREET.lists, _commit)


def opened(payload: bytes) -> dict[str, Any]:
    """Return what a report says to both operators together; its sealed bytes differ each time."""
    report = Report.decode(GROUP.id, payload)
    parts = []
    for machine, purpose, sealed in (
        (STREET.leader, SHARE, report.share),
        (STREET.helper, PAD, report.pad),
    ):
        day_keys = machine.keys_of_slot(report.slot_s)
        assert day_keys is not None
        place = seal_info(purpose, GROUP.id, report.slot_s, day_keys.id, report.label.encode())
        parts.append(day_keys.unseal_number(sealed, place) or 0)
    share, pad = parts
    quanta = to_signed_64((share + pad) % MODULUS)
    return {
        "label": report.label,
        "slot_s": report.slot_s,
        "share": str(share),
        "pad": str(pad),
        "quanta": quanta,
        "bytes": len(payload),
    }
