"""The homes of a crowd, its group, and the identities of its operators.

A home uses the agent's own part of a crowd, which has a judge of its own (`judge.crowd`).
"""

from meteragent.crowd import group as groups
from meteragent.crowd import home as homes
from meteragent.crowd.codec import Malformed
from meteragent.crowd.seal import Identity
from meteragent.privacy.bits import Bits
from simulators.simtest.mqtt.brokers import RetainingBroker
from simulators.simtest.operators.judge import BEGIN, DEADLINE_S, HOMES_MAX, SLOT_S, SMALLEST, energy_wh

ROLES = ("leader", "helper")
IDENTITIES = {role: Identity(bytes([number]) * 32) for number, role in enumerate(ROLES, 1)}
GROUP = groups.parse_group(
    f"""version = 1
name = "street"
slot_s = {SLOT_S}
quantum_wh = 1
level = 16
hide_wh = 1
lowest_wh = -1
highest_wh = {16**HOMES_MAX}
smallest_crowd = {SMALLEST}
deadline_s = {DEADLINE_S}
answer_s = 86400
"""
    + "".join(
        f'[{role}]\nname = "{role}"\nidentity = "{identity.public.hex()}"\n'
        for role, identity in IDENTITIES.items()
    )
)
_LATTICE = 3


class Homes:
    """The homes: `reports` holds each open slot or, once it is closed, its report, by home and slot."""

    def __init__(self, broker: RetainingBroker, bits: Bits) -> None:
        self._broker, self._bits = broker, bits
        self.reports: dict[tuple[int, int], homes.OpenSlot | bytes] = {}

    def open_slot(self, home: int, slot: int) -> None:
        """Open a home's slot, if both operators have published keys for its day."""
        start_s = round(BEGIN.timestamp()) + slot * SLOT_S
        try:
            payloads = {role: self._broker.retained[f"crowd/street/keys/{role}"] for role in ROLES}
            lists = {role: homes.decode_key_list(GROUP, role, payloads[role], 0) for role in ROLES}
        except (KeyError, Malformed):
            return
        keys = homes.slot_keys(lists["leader"], lists["helper"], start_s)
        if keys is not None and (home, slot) not in self.reports:
            opened = homes.open_slot(GROUP, f"h{home}", start_s, _LATTICE, keys, self._bits)
            self.reports[home, slot] = opened.with_energy(_LATTICE * energy_wh(home, slot))

    def send_report(self, home: int, slot: int) -> None:
        """Send a report, the same bytes each time."""
        report = self.reports.get((home, slot))
        if isinstance(report, homes.OpenSlot):
            report = self.reports[home, slot] = homes.close_slot(GROUP.id, f"h{home}", report)
        if report is not None:
            self._broker.publish(f"crowd/street/report/h{home}", report, 1, retain=False)
