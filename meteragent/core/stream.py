"""What the core is told of a stream, and what it answers."""

from dataclasses import dataclass, field

from meteragent.decode import Decoder
from meteragent.domain import identity
from meteragent.domain.commit import Commit
from meteragent.domain.reading import Token
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from meteragent.wire.record import Form


@dataclass(frozen=True, slots=True)
class Stream:
    """What the core needs to know of a stream.

    `schedule` says when windows start and under which terms. `secret` keys the spread of the meters'
    delays, `pseudonym_key` their names when there is one. `format` is that of records: json or senml.
    `total`: the running total leaves, too. `claim_key` makes the mark of the store in descriptors; with
    `listens` no window opens under a topic before the shell knows that it is no other store's.
    """

    name: str
    source: identity.SourceTopic
    sink_topic: str
    decode: Decoder
    schedule: Schedule
    ahead_ms: int
    forget_ms: int
    spread_ms: int
    max_meters: int
    max_payload: int
    secret: bytes
    pseudonym_key: bytes | None = None
    claim_key: bytes | None = None
    listens: bool = False
    total: bool = False
    format: Form = "json"

    @property
    def terms(self) -> Terms:
        """The terms of an ordinary window: how readings count."""
        return self.schedule.usual


@dataclass(slots=True)
class Effects:
    """What the shell must do: write `commit`, then acknowledge the tokens, and listen to the sink topics."""

    commit: Commit
    acknowledge: list[Token] = field(default_factory=list)
    listen: list[str] = field(default_factory=list)
