"""One process of the agent: its counters, when slots may close, and which messages it may acknowledge."""

from collections import Counter
from dataclasses import dataclass, field

from meteragent.domain.counters import REFUSALS, Counts
from simulators.invariant import check
from simulators.simtest.judge.opened import MessageKey
from simulators.simtest.model.prices import OUTCOMES
from simulators.simtest.model.stream import Model

CLOCK_KNOWN_S = 1.5
"""The time after its start within which an agent checks whether its clock is synchronised."""
_REASONS = [
    *(*REFUSALS, "retained", "accepted", "replaced", "over_budget", "forgotten", "no_keys", "register_lost"),
    *("held", "prices", "price_conflict", "price_times", "price_clamped"),
]
"""The counters that the model predicts individually."""


@dataclass
class ProcessRecord:
    """One process of the agent: its start, its models, and what it may acknowledge.

    started_ms       wall-clock time of the start
    counts           the counters
    models           the model of each stream
    acknowledgeable  packet ids that the process may acknowledge
    uncommitted      packet ids by stream that the process may acknowledge after the next commit
    subscribed_ms    wall-clock time of each stream's first subscription
    confirmed        messages that the process knows were delivered
    is_orderly       whether the process exited by an orderly stop
    counts_at_open   the counters when the process last opened the store (again after a jump of the clock)
    early            number of acknowledgements that `acknowledgeable` did not allow
    clock_known_s    loop time from which the process knows that its clock is synchronised
    """

    started_ms: int
    counts: Counts
    models: dict[str, Model] = field(default_factory=dict)
    acknowledgeable: set[int] = field(default_factory=set)
    uncommitted: dict[str, list[int]] = field(default_factory=dict)
    subscribed_ms: dict[str, int] = field(default_factory=dict)
    confirmed: set[MessageKey] = field(default_factory=set)
    is_orderly: bool = False
    counts_at_open: Counter[str] = field(default_factory=Counter)
    early: int = 0
    clock_known_s: float = 0.0

    def check_catch_up(self, model: Model, now_ms: int) -> None:
        """Check law 4: slots that fell due while the agent was stopped wait for `catch_up`."""
        spec = model.stream
        has_waited = any(slot.due_ms < self.started_ms for slot in model.closed_slots)
        if spec.ordinary.clock == "event" or not has_waited:
            return
        since_ms = self.subscribed_ms.get(spec.names.stream, 2**62)
        check(
            now_ms >= since_ms + spec.catch_up_ms,
            "slots due during a stop do not wait for catch_up",
        )

    def check_counters(self) -> None:
        """Check law 7: every message has exactly one outcome, which is counted."""
        counts, outcomes = Counter(self.counts), Counter[str]()
        counts.subtract(self.counts_at_open)
        for model in self.models.values():
            outcomes += model.outcomes
        for reason in _REASONS:
            check(counts[reason] == outcomes[reason], "a counter is wrong", reason)
        # Which of the three outcomes is counted depends on how much decided time the core remembers.
        unused = counts["late"] + counts["duplicate"] + counts["early"]
        check(unused == outcomes["late"] + outcomes["not"], "a counter is wrong", "late, duplicate and early")
        late_prices = counts["price_late"] + counts["price_repeated"]
        check(
            late_prices == outcomes["price_late"] + outcomes["price_repeated"],
            "a counter is wrong",
            "price_late",
        )
        # The core may have dropped a price that is repeated after its time has begun.
        check(counts["price_repeated"] <= outcomes["price_repeated"], "a counter is wrong", "price_repeated")
        no_fates = ("over_budget", "forgotten", "no_keys", "register_lost", "held", *OUTCOMES)
        fates = sum(n for name, n in outcomes.items() if name not in no_fates)
        fates -= outcomes["price_messages_refused"]
        check(counts["received"] == fates, "a message is not counted once")

    def check_acknowledgements(self, packet_ids: list[int]) -> None:
        """Check law 7: an acknowledged message is committed, or refused and counted, or in `acked_open`."""
        self.early += sum(packet_id not in self.acknowledgeable for packet_id in packet_ids)
        check(
            self.early <= self.counts["acked_open"] - self.counts_at_open["acked_open"],
            "a reading is acknowledged before its effects are committed",
        )

    def held_packet_ids(self) -> set[int]:
        """Return the packet ids of readings that may still apply to undecided time."""
        meters = (meter for model in self.models.values() for meter in model.meters.values())
        tokens = (token for meter in meters for token in meter.tokens())
        return {token.token[0] for token in tokens if token is not None}
