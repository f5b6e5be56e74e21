"""The checks at the end of a world: all due slots were received, and revoked receivers keep no descriptor."""

from collections.abc import Iterable

from meteragent.domain import identity
from simulators.invariant import check
from simulators.simtest.invariants import InvariantChecker
from simulators.simtest.opened import Key, MessageKey


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
    expected = checker.expected
    queues = streams | {grant.queue for grant in expected.grants.values()}
    rows = [row for row in expected.rows.values() if row.queue in queues and not row.delivered]
    overdue = [row.outgoing.topic for row in rows if row.outgoing.due_ms < until_ms]
    check(not overdue, "a row that was due has not been delivered", overdue)


def check_retained(checker: InvariantChecker, topics: Iterable[str]) -> None:
    """Check that no descriptors of revoked receivers are retained among `topics`.

    Topics of the streams' own sinks, of crowds and of admitted receivers, and topics for which a row still
    waits, are exempt.
    """
    expected = checker.expected
    admitted = tuple(grant.topic.removesuffix(identity.PLACEHOLDER) for grant in expected.active())
    waiting = {row.outgoing.topic for row in expected.rows.values() if not row.delivered}
    exempt = ("private/", "crowd/", *admitted)
    stale_topics = [topic for topic in topics if not topic.startswith(exempt) and topic not in waiting]
    check(not stale_topics, "a descriptor stays after its receiver is revoked", stale_topics)


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
            for slot_index in range(window.terms.n)
            if key.start_ms + window.terms.stretches(slot_index)[-1][1] + window.terms.lateness_ms
            <= closed_ms[key.stream]
        }
        received_slots = {index for index, messages in window.records.items() if messages <= received}
        if not due_slots <= received_slots:
            incomplete.append(key)
    return incomplete
