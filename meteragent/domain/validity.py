"""When a receiver gets a shared stream: the rule by which the core and the store decide who gets a slot."""

from typing import NamedTuple


class Validity(NamedTuple):
    """The period for which a receiver gets a shared stream, determined by public facts alone (law 4).

    The receiver gets windows that start at or after `since_ms`, and of these the slots that end by
    `until_ms`. If `until_ms` is None, the period has no end.
    """

    since_ms: int
    until_ms: int | None = None

    def has_slot(self, window_ms: int, end_ms: int) -> bool:
        """Return whether the receiver gets a slot, given the start of its window and the slot's own end."""
        return window_ms >= self.since_ms and (self.until_ms is None or end_ms <= self.until_ms)
