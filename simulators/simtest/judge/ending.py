"""The end of a world: its length, and its checks.

All due slots were received, and revoked receivers keep no descriptor.
"""

from collections.abc import Iterable, Mapping

from simulators.invariant import check
from simulators.simtest.judge.invariants import InvariantChecker
from simulators.simtest.judge.opened import Key, MessageKey
from simulators.simtest.model.names import PLACEHOLDER
from simulators.simtest.model.setting import PACES
from simulators.simtest.model.windows import Windows
from simulators.simtest.schedule import Resume, Schedule

EPILOGUE_S = 5.0
"""The shortest time without faults at the end: long enough for a catch-up, a connection and some turns."""
SETTLED_COMMIT_S = 0.001
"""How long a commit, and the erasure that follows, take at the end."""
_STEPS = 2
"""The number of commits for a skipped window of a stream: one opens it, and one closes it."""


def epilogue_s(plan: Schedule) -> float:
    """Return the time without faults at the end, in which the agent may also open and close skipped windows.

    A resumed machine's clock is set forward by hundreds of windows. An agent that did not know before that
    its clock was synchronised does not suspect from the jump that it is a copy, and opens all these windows.
    """
    skipped_ms = sum(event.jump_ms for event in plan.events if isinstance(event, Resume))
    pace = PACES[plan.pace]
    window_counts = (
        sum(skipped_ms // Windows(setting, pace).ordinary.length_ms for setting in configuration)
        for configuration in plan.configurations
    )
    return EPILOGUE_S + max(window_counts) * _STEPS * 2 * SETTLED_COMMIT_S


def check_complete(
    checker: InvariantChecker, closed_ms: dict[str, int], streams: set[str], until_ms: int
) -> None:
    """Check that all due slots were received, and that all rows due before `until_ms` are marked delivered.

    `closed_ms` maps each wall-clock stream to the time up to which its slots must have closed. Lost windows,
    messages of revoked grants, and reports that were too late need not be received. The rows are those of
    `streams` and of all receivers.
    """
    incomplete = _incomplete_windows(checker, closed_ms)
    check(not incomplete, "a slot that was due has not been received", incomplete)
    overdue = overdue_topics(checker, streams, until_ms)
    check(not overdue, "a row that was due has not been delivered", overdue)


def overdue_topics(checker: InvariantChecker, streams: set[str], until_ms: int) -> list[str]:
    """Return the topics of the rows of `streams` and receivers that were due before `until_ms` and wait."""
    expected = checker.expected
    queues = streams | {grant.queue for grant in expected.grants.values()}
    rows = [row for row in expected.rows.values() if row.queue in queues and not row.is_delivered]
    return [row.outgoing.topic for row in rows if row.outgoing.due_ms < until_ms]


def check_retained(checker: InvariantChecker, topics: Iterable[str]) -> None:
    """Check that no descriptor of a revoked receiver is retained on one of `topics`.

    Topics of the streams' own sinks, of crowds and of admitted receivers, and topics for which a row still
    waits, are exempt.
    """
    expected = checker.expected
    admitted = tuple(grant.topic.removesuffix(PLACEHOLDER) for grant in expected.active())
    waiting = {row.outgoing.topic for row in expected.rows.values() if not row.is_delivered}
    exempt = ("private/", "crowd/", *admitted)
    stale_topics = [topic for topic in topics if not topic.startswith(exempt) and topic not in waiting]
    check(not stale_topics, "a descriptor stays after its receiver is revoked", stale_topics)


def check_described(checker: InvariantChecker, retained: Mapping[str, bytes], streams: set[str]) -> None:
    """Check that the brokers retain the latest descriptor of each topic, even if they have lost it once."""
    expected = checker.expected
    queues = streams | {grant.queue for grant in expected.active()}
    latest = {
        topic: payload for queue in queues for topic, payload in expected.descriptors.get(queue, {}).items()
    }
    lost_topics = [topic for topic, payload in latest.items() if retained.get(f"{topic}/privacy") != payload]
    check(not lost_topics, "a broker does not retain the latest descriptor", lost_topics)


def _withdrawn(checker: InvariantChecker) -> set[MessageKey]:
    """Return the messages of revoked grants, which need not be received."""
    expected = checker.expected
    revoked = {grant.queue for grant in expected.grants.values() if grant.is_revoked}
    rows = [row.outgoing for row in expected.rows.values() if row.queue in revoked]
    return {MessageKey(row.topic, row.payload) for row in rows}


def _incomplete_windows(checker: InvariantChecker, closed_ms: dict[str, int]) -> list[Key]:
    """Return the windows with a slot that must have closed by `closed_ms` but has not been received."""
    incomplete = []
    received = checker.confirmed | checker.late | _withdrawn(checker)
    for key, window in checker.windows.items():
        if window.is_lost or key.stream not in closed_ms:
            continue
        due_slots = {
            slot_index
            for slot_index in range(window.spec.n)
            if window.spec.slot_end_ms(key.start_ms, slot_index) + window.spec.lateness_ms
            <= closed_ms[key.stream]
        }
        received_slots = {index for index, messages in window.records.items() if messages <= received}
        if not due_slots <= received_slots:
            incomplete.append(key)
    return incomplete
