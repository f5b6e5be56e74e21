"""The part of a stream that the model knows: its public settings, and the keys of its names and delays."""

from dataclasses import dataclass

from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """The public settings of a stream, and the keys of its delays and names."""

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

    @property
    def terms(self) -> Terms:
        """The terms of an ordinary window."""
        return self.schedule.usual
