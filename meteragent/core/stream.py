"""The core's view of a stream, and the core's answer to a feed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from meteragent.core.shares import Crowd
from meteragent.decode import Decoder
from meteragent.domain import identity
from meteragent.domain.commit import Commit, TimelineState
from meteragent.domain.reading import Token
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from meteragent.domain.validity import Validity
from meteragent.wire.record import Form


@dataclass(frozen=True, slots=True)
class Stream:
    """The settings of a stream that the core needs.

    schedule       the windows of the stream and their terms
    secret         the key of the meters' delays
    pseudonym_key  the key of the meters' public ids; None: meters leave under their names in the source
    claim_key      the key from which the store's mark in descriptors is derived; None: there is no mark
    listens        whether windows wait until the shell reports that no other store owns their topic
    total          whether running totals are also released
    format         the format of records
    price_topic    the topic of prices; None if no weights come from a topic
    local_times    whether the times of readings are correct only if read in the source's time zone
    validities     the validities of the receivers, each of which has a topic of its own (`store.grants`);
                   None: the stream is not shared
    unannounced    by topic, the validities of the receivers that lack the topic's latest descriptor
    crowd          the cryptography of shares; None unless the windows release shares
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
    price_topic: str | None = None
    local_times: bool = False
    validities: tuple[Validity, ...] | None = None
    unannounced: Mapping[str, Sequence[Validity]] = field(default_factory=dict)
    crowd: Crowd | None = None

    @property
    def terms(self) -> Terms:
        """The terms of an ordinary window, under which readings count."""
        return self.schedule.usual

    def has_receiver(self, window_ms: int, slot_end_ms: int) -> bool:
        """Return whether at least one receiver gets a slot.

        The slot ends at `slot_end_ms`, and its window starts at `window_ms`. The sink of a stream that is not
        shared gets every slot.
        """
        if self.validities is None:
            return True
        return any(validity.has_slot(window_ms, slot_end_ms) for validity in self.validities)

    def is_wanted(self, start_ms: int, terms: Terms) -> bool:
        """Return whether at least one receiver gets a slot of the window that starts at `start_ms`.

        It suffices to ask about the slot that ends first: if any slot has a receiver, that slot has one.
        """
        return self.has_receiver(start_ms, start_ms + terms.first_slot[1])

    def without_unwanted(self, state: TimelineState, terms: Mapping[str, Terms]) -> TimelineState:
        """Return `state` without the open windows whose slots no receiver gets any more."""
        if self.validities is None:
            return state
        windows = [item for item in state.windows if self.is_wanted(item.start_ms, terms[item.terms_id])]
        return state._replace(windows=tuple(windows))


@dataclass(slots=True)
class Effects:
    """Instructions to the shell: write `commit`, then acknowledge the tokens and listen on the topics."""

    commit: Commit
    acknowledge: list[Token] = field(default_factory=list)
    listen: list[str] = field(default_factory=list)
