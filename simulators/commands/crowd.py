"""Compare promised and measured errors of crowd totals, and time the protocol (docs/crowd.md 11).

For each number of homes and hidden energy, SLOTS totals are computed from pads, dithers and shares modulo
2^64 and the operators' keyed draws, without sealing. Their error is compared with the standard deviation that
the totals state, and with the deviation that results if every home adds noise. Then, for each number of
homes, one slot runs through the whole protocol, with sealing and signatures, and the CPU time of each party
is printed. The exit code is 1 if a measured deviation is more than 5 standard errors from the promised one.
"""

import argparse
import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from meteragent.consume import Estimate, crowd_totals
from meteragent.crowd import group as groups
from meteragent.crowd import home, share
from meteragent.crowd.draw import draw_noise
from meteragent.crowd.group import Group
from meteragent.crowd.helper import Helper
from meteragent.crowd.home import SlotKeys
from meteragent.crowd.leader import Leader
from meteragent.crowd.message import KeyList
from meteragent.crowd.seal import DayKeys, Identity
from meteragent.crowd.total import TotalFormat
from meteragent.privacy import accuracy
from meteragent.privacy.bits import SeededBits

DIFFERENT = 1
HOMES = (10, 100, 1000)
HIDDEN_WH = (110, 300, 6000)
LATTICE = 1_800_000
"""One quantum of 0.5 Wh in W ms, the unit of all energies here."""
MEAN_W = 303
_SLOT_S, _SLOT_HOURS = 1800, 0.5
_START_S = 1_767_225_600  # 2026-01-01
_KURTOSIS = 4.5  # of the sum of two Laplace variables
_ALARM_ERRORS = 5

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """Standard deviations, in W, of the error in the mean power of `homes` homes over a half hour.

    `every_home_w` results if every home adds noise, and `promised_w` is stated by the totals.
    `standard_error_w` is the standard error of `measured_w`; `covered` is the share of totals whose 95%
    interval contains the truth.
    """

    hides_wh: int
    homes: int
    every_home_w: float
    promised_w: float
    measured_w: float
    standard_error_w: float
    covered: float

    @property
    def agrees(self) -> bool:
        """Whether the measured deviation is within 5 standard errors of the promised one."""
        return abs(self.measured_w - self.promised_w) <= _ALARM_ERRORS * self.standard_error_w


@dataclass(frozen=True)
class Cost:
    """The cost of one slot per home: CPU times as in `Protocol`, and sizes of the report and the request."""

    homes: int
    home_us: float
    leader_us: float
    helper_us: float
    report_bytes: int
    request_bytes: int


def secret(name: str) -> bytes:
    """Return 32 bytes derived from a public name, which therefore protect nothing."""
    return hashlib.sha256(f"simulated crowd: {name}".encode()).digest()


def make_group(hides_wh: int) -> Group:
    """Return a group that hides `hides_wh` at level 1."""
    operators = "".join(
        f'[{role}]\nname = "{role}"\nidentity = "{Identity(secret(role)).public.hex()}"\n'
        for role in groups.ROLES
    )
    text = f"""version = 1
name = "simulated"
slot_s = {_SLOT_S}
quantum_wh = 0.5
level = 1
hide_wh = {hides_wh}
lowest_wh = -5000
highest_wh = 10000
smallest_crowd = 10
deadline_s = 1200
answer_s = 3600
"""
    return groups.parse_group(text + operators)


def rows(slots: int, seed: int) -> Iterator[Row]:
    """Yield the errors of `slots` totals for each hidden energy and number of homes."""
    random = np.random.default_rng(seed)
    for hides_wh in HIDDEN_WH:
        group = make_group(hides_wh)
        for homes in HOMES:
            yield measure(group, hides_wh, homes, slots, random)


def measure(group: Group, hides_wh: int, homes: int, slots: int, random: np.random.Generator) -> Row:
    """Measure the error in the mean power of `homes` homes over `slots` slots."""
    per_home_w = float(group.quantum_wh) / (homes * _SLOT_HOURS)
    format_ = TotalFormat(group)
    keys = {role: DayKeys(secret(role), role, group.id) for role in groups.ROLES}
    errors_w = np.empty(slots)
    for slot in range(slots):
        energies = random.integers(0, 2 * MEAN_W * _SLOT_S * 1000, homes, dtype=np.int64)
        pads, shares = split(energies, random)
        slot_s = _START_S + slot * _SLOT_S
        digest = hashlib.sha256(shares.tobytes() + pads.tobytes()).digest()
        noises = [
            draw_noise(key.noise, group.id, slot_s, digest, group.loss_per_quantum) for key in keys.values()
        ]
        quanta = share.to_signed_64(share.sum_modulo([*map(int, pads), *map(int, shares), *noises]))
        errors_w[slot] = (quanta - energies.sum() / LATTICE) * per_home_w
    record = json.loads(format_.encode_record(_START_S, 0, homes))
    promised_w = record["sd"] / (homes * _SLOT_HOURS)
    return Row(
        hides_wh=hides_wh,
        homes=homes,
        every_home_w=accuracy.sd(format_.noise, "dithered") / (_SLOT_HOURS * math.sqrt(homes)),
        promised_w=promised_w,
        measured_w=float(np.sqrt(np.mean(errors_w**2))),
        standard_error_w=promised_w * math.sqrt((_KURTOSIS - 1) / (4 * slots)),
        covered=float(np.mean(np.abs(errors_w) <= record["ci95"] / (homes * _SLOT_HOURS))),
    )


def split(energies: Ints, random: np.random.Generator) -> tuple[Words, Words]:
    """Add dithers to energies in W ms, round them down to quanta, and split them into pads and shares."""
    dithers = random.integers(0, LATTICE, energies.size, dtype=np.int64)
    pads = random.integers(0, share.MODULUS, energies.size, dtype=np.uint64)
    return pads, ((energies + dithers) // LATTICE).astype(np.uint64) - pads


class Protocol:
    """One slot of the whole protocol, with sealing and signatures.

    `cpu_us` holds each party's CPU time; the leader's does not include the acceptance of reports.
    """

    def __init__(self, homes: int, seed: int) -> None:
        self.group, self.bits = make_group(HIDDEN_WH[0]), SeededBits(seed)
        self.labels = [f"home-{number:04}" for number in range(homes)]
        self.leader = Leader(self.group, Identity(secret("leader")), {})
        self.helper = Helper(self.group, Identity(secret("helper")), {})
        self.cpu_us = {"home": 0.0, "leader": 0.0, "helper": 0.0}
        self.reports: list[bytes] = []
        self.request: list[bytes] = []

    def key_list(self, machine: Leader | Helper) -> KeyList:
        """Return an operator's published list of keys, as a home reads it from the operator's topic."""
        effects = machine.renew_keys(_START_S, lambda size: self.bits.integer(8 * size).to_bytes(size, "big"))
        return home.decode_key_list(self.group, machine.role, effects.messages[0].payload, 0)

    def run(self) -> Estimate:
        """Run the protocol; return the mean in W, whose interval misses the truth once in a million runs."""
        keys = home.slot_keys(self.key_list(self.leader), self.key_list(self.helper), _START_S)
        if keys is None:
            raise AssertionError("the lists have no keys of the first day")
        now_s = self.group.closing_s(_START_S)
        self.reports = self._timed("home", lambda: self._report(keys))
        for label, report in zip(self.labels, self.reports, strict=True):
            self.leader.take_report(label, report, now_s)
        fixed = self._timed("leader", lambda: self.leader.tick(now_s + 1))
        self.request = [chunk.payload for chunk in fixed.messages]
        answers = self._timed(
            "helper", lambda: [self.helper.take_request(chunk, now_s + 1) for chunk in self.request]
        )
        [answer] = answers[-1].messages
        total = self._timed("leader", lambda: self.leader.take_answer(answer.payload, now_s + 1))
        messages = [total.messages[0].payload, TotalFormat(self.group).encode_descriptor()]
        return crowd_totals(messages)[self.group.name][0].mean(1 - 1e-6)

    def _report(self, keys: SlotKeys) -> list[bytes]:
        """Open and close the slot in each home; return the reports."""
        energy = MEAN_W * _SLOT_S * 1000
        reports = []
        for label in self.labels:
            slot = home.open_slot(self.group, label, _START_S, LATTICE, keys, self.bits)
            reports.append(home.close_slot(self.group.id, label, slot.with_energy(energy)))
        return reports

    def _timed(self, party: str, step: Callable[[], T]) -> T:
        """Run one party's step, and add the CPU time that it takes to the party's total."""
        start = time.process_time()
        result = step()
        self.cpu_us[party] += 1e6 * (time.process_time() - start)
        return result


def costs(seed: int) -> Iterator[Cost]:
    """Yield the cost of one slot of the whole protocol, for each number of homes.

    Raises AssertionError if the interval of the mean does not contain the true mean of the homes.
    """
    for homes in HOMES:
        protocol = Protocol(homes, seed)
        mean = protocol.run()
        if not mean.low <= MEAN_W <= mean.high:
            raise AssertionError(f"the mean of {homes} homes of {MEAN_W} W is {mean}")
        home_us, leader_us, helper_us = (cpu_us / homes for cpu_us in protocol.cpu_us.values())
        request_bytes = round(sum(map(len, protocol.request)) / homes)
        yield Cost(homes, home_us, leader_us, helper_us, len(protocol.reports[0]), request_bytes)


def run(options: argparse.Namespace) -> int:
    """Print the figures; return 1 if a measured deviation disagrees with the promised one."""
    measured, timed = list(rows(options.slots, options.seed)), list(costs(options.seed))
    if options.json:
        facts = {"errors": [asdict(row) for row in measured], "costs": [asdict(cost) for cost in timed]}
        json.dump(facts, sys.stdout, indent=1)
        print()
    else:
        print("\n".join(table(measured, timed)))
    return 0 if all(row.agrees for row in measured) else DIFFERENT


def table(measured: Sequence[Row], timed: Sequence[Cost]) -> Iterator[str]:
    """Yield the lines of both tables."""
    yield "Standard deviation of the error of a half hour's mean, in W"
    yield "  hides    homes   noise in every home   promised   measured         within the 95% interval"
    for row in measured:
        yield (
            f"{row.hides_wh:>5} Wh {row.homes:>6} {row.every_home_w:>17.4g} W {row.promised_w:>9.4g}"
            f"{row.measured_w:>11.4g} +- {row.standard_error_w:<7.2g} {100 * row.covered:>12.1f}%"
        )
    yield ""
    yield "CPU time and bytes per home and slot, with sealing and signatures"
    yield "  homes      home    leader    helper   report   request"
    for cost in timed:
        yield (
            f"{cost.homes:>7} {cost.home_us:>6.0f} us {cost.leader_us:>6.0f} us {cost.helper_us:>6.0f} us"
            f"{cost.report_bytes:>7} B {cost.request_bytes:>7} B"
        )
