"""The part of a stream that the model knows: its public settings, and the keys of its names and delays."""

from collections.abc import Callable
from dataclasses import dataclass

from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from simulators.simtest.receivers import Grant


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """The public settings of a stream, and the keys of its delays and names.

    `grants` holds the grants of the receivers that share the stream; it is None if the stream is not shared.
    `has_keys` returns whether both operators' keys for the slot that starts at a given time are known; it is
    None if the stream does not count in a crowd.
    """

    name: str
    sink_topic: str
    schedule: Schedule
    ahead_ms: int
    forget_ms: int
    spread_ms: int
    catch_up_ms: int
    max_meters: int
    secret: bytes
    pseudonym_key: bytes | None
    stamped: bool = False
    has_prices: bool = False
    grants: tuple[Grant, ...] | None = None
    has_keys: Callable[[int], bool] | None = None

    @property
    def terms(self) -> Terms:
        """The terms of an ordinary window."""
        return self.schedule.usual

    def is_wanted(self, window_ms: int, terms: Terms) -> bool:
        """Return whether at least one receiver gets a slot of a window, or the stream is not shared."""
        ends_ms = [window_ms + terms.stretches(slot_index)[-1][1] for slot_index in range(terms.n)]
        return self.grants is None or any(
            g.gets(window_ms, end_ms) for g in self.grants for end_ms in ends_ms
        )
