"""What must hold of a crowd's totals, computed from what the homes reported.

The level is so high that the noise is 0, and a home's energy in a slot names the home: a digit of the total
in base 16. So a total shows exactly which homes it counts, and how often.
"""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta

from simulators.invariant import check

BEGIN = datetime(2026, 11, 20, 23, 57, tzinfo=UTC)
"""The time at which a world begins, and the start of slot 0."""
SLOT_S, DEADLINE_S = 60, 60
SMALLEST = 3
HOMES_MAX = 6
_BASE = 16
_SURE_S = 2
"""A report that is acknowledged by this time before its deadline cannot have been late."""


def energy_wh(home: int, slot: int) -> int:
    """Return a home's energy in a slot."""
    return int((1 + slot % (_BASE - 2)) * _BASE**home)


class Judge:
    """The judge of one world, whose times are seconds since `BEGIN`."""

    def __init__(self, *, is_timely: bool) -> None:
        """Begin; `is_timely` says that no clock is stepped, so that reports are in time."""
        self.counts = Counter[str]()
        self._is_timely = is_timely
        self._sent: set[tuple[int, int]] = set()
        self._acknowledged_s: dict[tuple[int, int], float] = {}
        self._totals: dict[int, bytes] = {}
        self._answers: dict[int, bytes] = {}
        self._published: set[int] = set()

    def report(self, home: int, slot: int) -> None:
        """Note that the broker has accepted a home's report."""
        self._sent.add((home, slot))

    def acknowledge(self, home: int, slot: int, now_s: float) -> None:
        """Note that the leader has acknowledged a report."""
        self._acknowledged_s.setdefault((home, slot), now_s)

    def answer(self, slot: int, payload: bytes) -> None:
        """Check an answer of the helper, which draws noise once for each slot."""
        check(self._answers.setdefault(slot, payload) == payload, "a slot has two answers", slot)

    def total(self, payload: bytes, *, is_received: bool) -> None:
        """Check a total that the leader sends, or that the broker has received."""
        fields = json.loads(payload)
        slot = (datetime.fromisoformat(fields["t"]) - BEGIN) // timedelta(seconds=SLOT_S)
        if is_received:
            self._published.add(slot)
        check(self._totals.setdefault(slot, payload) == payload, "a slot has two totals", slot)
        homes = self._homes_of(slot, fields["value"])
        check(len(homes) == fields["homes"], "the number of homes is not that of the sum", slot)
        check(len(homes) >= SMALLEST, "a total counts fewer homes than the smallest crowd", slot)
        check(self._owed(slot) <= homes, "a total lacks an acknowledged report", slot)

    def check_end(self, ledgers: list[Counter[int]]) -> None:
        """Check that every slot with enough reports has its total, and that both ledgers say so once.

        `ledgers` holds how often each slot has a result in the leader's and in the helper's ledger.
        """
        for ledger in ledgers:
            check(max(ledger.values(), default=1) == 1, "a slot is in a ledger twice")
            check(self._published <= ledger.keys(), "a total is not in a ledger")
        slots = {slot for _, slot in self._sent}
        due = {slot for slot in slots if len(self._owed(slot)) >= SMALLEST}
        missing = due - self._published
        check(not missing, "a slot with enough reports has no total", missing)
        small = len(slots - self._totals.keys())
        self.counts.update(
            {"totals": len(self._totals), "totals due": len(due), "slots without a total": small}
        )

    def _owed(self, slot: int) -> set[int]:
        """Return the homes whose acknowledged reports of a slot were certainly in time."""
        last_s = (slot + 1) * SLOT_S + DEADLINE_S - _SURE_S if self._is_timely else 0
        times_s = {home: time_s for (home, of), time_s in self._acknowledged_s.items() if of == slot}
        return {home for home, time_s in times_s.items() if time_s < last_s}

    def _homes_of(self, slot: int, value: float) -> set[int]:
        """Return the homes whose energies add up to a total; each of them has reported."""
        sum_wh, homes = round(value), set()
        for home in range(HOMES_MAX):
            digit = sum_wh // _BASE**home % _BASE
            check(digit in (0, energy_wh(home, slot) // _BASE**home), "a total is not a sum of reports", slot)
            if digit:
                check((home, slot) in self._sent, "a total counts what no home sent", (home, slot))
                homes.add(home)
        check(sum_wh == sum(energy_wh(home, slot) for home in homes), "a total is not a sum of reports", slot)
        return homes
