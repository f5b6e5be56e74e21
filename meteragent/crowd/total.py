"""The published total of a slot, and the descriptor that states its promise (crowd.md 11)."""

import json
from functools import cached_property
from typing import Any

from meteragent.crowd.error import crowd_half_width, crowd_sd
from meteragent.crowd.group import Group
from meteragent.domain.grid import iso_duration, iso_time
from meteragent.domain.units import MICRO
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.wire.descriptor import facts_id
from meteragent.wire.number import decimal_text, shorten
from meteragent.wire.shapes import TWO_OPERATORS

ASSUMES = (
    "leader and helper do not collude",
    "both add their noise",
    "HPKE, Ed25519, SHA-256, HMAC-SHA256 and AES-256 are secure",
    "pads and keys come from secure random generators",
)
IF_BOTH_COLLUDE = "every home's energy in every slot is known, without noise"

_PLAUSIBLE_LOSS, _PLAUSIBLE_QUANTA = 16, 2


class TotalFormat:
    """The form of one group's totals: their records and their descriptor."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.noise = LInfLaplace(group.level / group.hide_wh, group.quantum_wh, 1)

    def is_plausible(self, quanta: int, homes: int) -> bool:
        """Return whether a total is in the range of its homes, widened by 16/a + 2 quanta on both sides."""
        # A margin of 8 standard deviations would refuse too many honest totals if a is between 2.5 and 12.
        # A float would round a sum near 2^60 quanta by more than the margin.
        low, high = (
            homes * limit / self.group.quantum_wh for limit in (self.group.lowest_wh, self.group.highest_wh)
        )
        margin = _PLAUSIBLE_LOSS / self.noise.a + _PLAUSIBLE_QUANTA
        return low - margin <= quanta <= high + margin

    def encode_record(self, slot_s: int, quanta: int, homes: int) -> bytes:
        """Encode the record of a slot's total, which is `quanta` quanta."""
        quantum_u = int(self.group.quantum_wh * MICRO)
        head = {"v": 1, "group": self.group.name, "t": iso_time(slot_s * 1000)}
        head |= {"for": iso_duration(self.group.slot_s * 1000), "homes": homes}
        tail = {"unit": "Wh", "sd": shorten(crowd_sd(self.noise, homes))}
        tail |= {"ci95": shorten(crowd_half_width(self.noise, homes)), "d": self.descriptor_id}
        # Insert the value as text, because json would turn the exact decimal into a float.
        return f'{_json(head)[:-1]},"value":{decimal_text(quanta * quantum_u)},{_json(tail)[1:]}'.encode()

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The facts of the descriptor."""
        group = self.group
        return {
            "v": 1,
            "mechanism": TWO_OPERATORS["mechanism"],
            "group": group.name,
            "group_id": group.id.hex(),
            "metric": "linf",
            "epsilon": str(group.level / group.hide_wh),
            "epsilon_unit": "1/Wh",
            "level": str(group.level),
            "hides_wh": str(group.hide_wh),
            "n": 1,
            "quantum": str(group.quantum_wh),
            "unit": "Wh",
            "step": iso_duration(group.slot_s * 1000),
            "draws": 2,
            "smallest_crowd": group.smallest_crowd,
            "operators": [group.leader.name, group.helper.name],
            "counts": "gateways that reported, not people and not proven meters",
            "unbiased": "of the sum of slot energies after fill and clamp",
            "rounding": "dithered",
            "noise": "prf",
            "assumes": list(ASSUMES),
            "if_both_collude": IF_BOTH_COLLUDE,
        }

    @cached_property
    def descriptor_id(self) -> str:
        """The id of the descriptor, which is the beginning of a hash of its facts."""
        return facts_id(self.facts)

    def encode_descriptor(self) -> bytes:
        """Encode the descriptor."""
        return _json({"v": 1, "id": self.descriptor_id, **self.facts}).encode()


def _json(fields: dict[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
