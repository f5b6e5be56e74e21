"""The published total of a slot, its error, and the descriptor that states its promise (crowd.md 12).

The error of a total of n homes is the sum of two draws of discrete Laplace noise and of n dithering errors.
The variance of a dithering error is f (1 - f) quanta^2, where f is the fractional part of the home's energy
in quanta. The variance is 1/6 on average over f, and at most 1/4. So with the quantum q, one draw z and the
privacy loss a per quantum,

    sd = q sqrt(2 Var z + n/6),     Var z = 1 / (2 sinh(a/2)^2).

`half_width` is for the worst loads, with n/4 in place of n/6. The distribution of the error lies between two
others: that of the two draws, which dominate if a is small, and the normal distribution, which many dithering
errors approach. So the half-width is the standard deviation of the error, times the larger of the half-widths
of these two distributions at a standard deviation of 1, plus half a quantum for the lattice.
tests/crowd/test_total.py compares the result with exact convolutions.
"""

import json
import math
from functools import cached_property
from statistics import NormalDist
from typing import Any

from meteragent.crowd.group import Group
from meteragent.domain.grid import iso_duration, iso_time
from meteragent.domain.units import MICRO
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.totals import Part, half_width_of_total, sd_of_total
from meteragent.wire.descriptor import MECHANISM, facts_id
from meteragent.wire.number import decimal_text, figure

ASSUMES = (
    "leader and helper do not collude",
    "both add their noise",
    "HPKE, Ed25519, SHA-256, HMAC-SHA256 and AES-256 are secure",
    "pads and keys come from secure random generators",
)
IF_BOTH_COLLUDE = "every home's energy in every slot is known, without noise"
COVERAGE = 0.95

_PLAUSIBLE_LOSS, _PLAUSIBLE_QUANTA = 16, 2
_DITHER_MEAN, _DITHER_MAX = 1 / 6, 1 / 4


def sd(noise: LInfLaplace, homes: int) -> float:
    """Return the standard deviation of a total of `homes` homes, in the unit of the quantum."""
    return _deviation(noise, homes * _DITHER_MEAN)


def half_width(noise: LInfLaplace, homes: int, coverage: float = COVERAGE) -> float:
    """Return the half-width, in the quantum's unit, of the interval around a total of `homes` homes.

    The interval contains the true value with a probability of about `coverage` or more, for all loads.
    """
    two_draws, quantum = [Part(noise, windows=2)], float(noise.quantum)
    rounding_sd = quantum / math.sqrt(6)  # of the two rounding errors that `half_width_of_total` includes
    draws_factor = half_width_of_total(two_draws, coverage) / math.hypot(sd_of_total(two_draws), rounding_sd)
    normal_factor = NormalDist().inv_cdf((1 + coverage) / 2)
    return max(draws_factor, normal_factor) * _deviation(noise, homes * _DITHER_MAX) + quantum / 2


def _deviation(noise: LInfLaplace, dither_variance: float) -> float:
    draw_variance = 1 / (2 * math.sinh(float(noise.a) / 2) ** 2)
    return float(noise.quantum) * math.sqrt(2 * draw_variance + dither_variance)


class TotalFormat:
    """The form of one group's totals: their records and their descriptor."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.noise = LInfLaplace(group.level / group.hide_wh, group.quantum_wh, 1)

    def is_plausible(self, quanta: int, homes: int) -> bool:
        """Return whether a total is in the range of its homes, widened by 16/a + 2 quanta on both sides.

        The margin is wider than eight standard deviations of the sum of both draws, because a margin of eight
        would refuse too many honest totals if a is between 2.5 and 12. Totals are compared as exact numbers,
        because a float would round a sum near 2^60 quanta by more than the margin.
        """
        low, high = (
            homes * limit / self.group.quantum_wh for limit in (self.group.lowest_wh, self.group.highest_wh)
        )
        margin = _PLAUSIBLE_LOSS / self.noise.a + _PLAUSIBLE_QUANTA
        return low - margin <= quanta <= high + margin

    def record(self, slot_s: int, quanta: int, homes: int) -> bytes:
        """Encode the record of a slot's total, which is `quanta` quanta."""
        quantum_u = int(self.group.quantum_wh * MICRO)
        head = {"v": 1, "group": self.group.name, "t": iso_time(slot_s * 1000)}
        head |= {"for": iso_duration(self.group.slot_s * 1000), "homes": homes}
        tail = {"unit": "Wh", "sd": figure(sd(self.noise, homes))}
        tail |= {"ci95": figure(half_width(self.noise, homes)), "d": self.descriptor_id}
        # Insert the value as text, because json would turn the exact decimal into a float.
        return f'{_json(head)[:-1]},"value":{decimal_text(quanta * quantum_u)},{_json(tail)[1:]}'.encode()

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The facts of the descriptor."""
        group = self.group
        return {
            "v": 1,
            "mechanism": MECHANISM,
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

    def descriptor(self) -> bytes:
        """Encode the descriptor."""
        return _json({"v": 1, "id": self.descriptor_id, **self.facts}).encode()


def _json(fields: dict[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
