"""The check of a publication: what is sent is on disk, due, and in order."""

from simulators.invariant import check
from simulators.simtest.judge.history import History
from simulators.simtest.judge.opened import MessageKey


def check_publication(
    history: History,
    message: MessageKey,
    newest_rows: dict[str, int],
    now_ms: int | None,
    *,
    retain: bool,
) -> None:
    """Check a publication on a connection; `newest_rows` holds the newest row sent there, by topic.

    A message with the retain flag, or a descriptor, must be a descriptor on disk or a waiting withdrawal; the
    broker checks that descriptors have the flag. By laws 1 and 2 any other message is on disk, byte for byte,
    not marked delivered and not too late, and is sent in order and only once on a connection. It must be due;
    nothing is due while the clock is behind (`now_ms` is None).
    """
    topic = message.topic
    if retain or "/privacy" in topic:
        is_own = topic.startswith("private/")
        is_known = message.payload in history.descriptors.get(topic, ()) if is_own else False
        is_known = is_known or (not is_own and history.expected.may_retain(topic, message.payload))
        check(is_known, "a retained message that leaves is not on disk", topic)
        return
    check(message in history.rows, "a message that leaves is not on disk byte for byte", topic)
    id_ = history.rows[message]
    row = history.expected.rows[id_]
    check(not row.is_delivered, "a row leaves although it is marked delivered", topic)
    until_ms = row.outgoing.until_ms
    check(until_ms is None or (now_ms or 0) < until_ms, "a report leaves after its deadline", topic)
    check(now_ms is not None, "a message leaves while the clock is behind", topic)
    check(now_ms is not None and row.outgoing.due_ms <= now_ms, "a message leaves before it is due", topic)
    previous = history.expected.rows.get(newest_rows.get(topic, 0))
    check(newest_rows.get(topic) != id_, "a row leaves twice on one connection", topic)
    overtaken = (
        previous is not None and newest_rows[topic] > id_ and row.outgoing.due_ms <= previous.outgoing.due_ms
    )
    check(not overtaken, "records of a meter leave out of order", topic)
    newest_rows[topic] = id_
