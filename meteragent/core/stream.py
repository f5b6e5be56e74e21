"""What the core knows of a stream: its settings, its meters' names, and the effects of a feed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from meteragent.core.arrivals import Arrivals
from meteragent.core.charges import Charges
from meteragent.core.noise import Noise
from meteragent.decode import Decoder
from meteragent.domain import identity
from meteragent.domain.commit import Commit, Destination, OpenWindow, Receiver, SealedPad, TimelineState
from meteragent.domain.reading import Token
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from meteragent.privacy.bits import Bits

Destinations = tuple[Destination, ...]


class Crowd(Protocol):
    """The cryptography of a stream whose windows release shares."""

    def may_open(self, label: str, start_ms: int) -> bool:
        """Return whether the label is valid, and both keys of the slot at `start_ms` are known and differ."""

    def open(self, label: str, start_ms: int, lattice: int, bits: Bits) -> tuple[int, SealedPad]:
        """Draw a pad and a dither; return the accumulator and the sealed pad."""

    def close(self, window: OpenWindow, terms: Terms) -> bytes:
        """Return the report of a complete slot, with its share sealed."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The settings of a stream that the core needs.

    schedule       the windows of the stream and their terms
    secret         the key from which the meters' delays are derived
    pseudonym_key  the key of the meters' public ids; None: meters keep their names in the source
    claim_key      the key from which the store's mark in descriptors is derived; None: there is no mark
    listens        whether a receiver gets no window until no other store is found on its topic
    total          whether running totals are also released
    price_topic    the topic of prices; None if no weights come from a topic
    needs_zone     whether readings have local times, which are correct only in the right time zone
    receivers      who gets the stream: its sink, or the receivers that have a grant (`store.grants`)
    crowd          the cryptography of shares; None unless the windows release shares
    """

    name: str
    source: identity.SourceTopic
    receivers: tuple[Receiver, ...]
    decode: Decoder | Mapping[str | None, Decoder]  # by phase, if each has a decoder of its own
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
    price_topic: str | None = None
    needs_zone: bool = False
    crowd: Crowd | None = None

    @property
    def terms(self) -> Terms:
        """The terms of an ordinary window, which say what readings mean."""
        return self.schedule.usual

    def destinations_of_slot(self, destinations: Destinations, window_ms: int, end_ms: int) -> Destinations:
        """Return those of the destinations that get a slot, given the slot's end and its window's start."""
        queues = {item.queue for item in self.receivers if item.has_slot(window_ms, end_ms)}
        for destination in destinations:
            if destination.queue not in queues:
                return tuple([destination for destination in destinations if destination.queue in queues])
        return destinations  # so that windows share one tuple

    def drop_unwanted(self, state: TimelineState, terms: Mapping[str, Terms]) -> TimelineState:
        """Return `state` without the open windows in which no slot has a receiver any more."""
        # If any slot of a window has a receiver, the slot that ends first has one.
        windows = [
            item
            for item in state.windows
            if self.destinations_of_slot(
                item.destinations, item.start_ms, item.start_ms + terms[item.terms_id].first_slot_ms[1]
            )
        ]
        return state._replace(windows=tuple(windows))


class MeterName(NamedTuple):
    """A meter's public id, its destination at each receiver, and its fixed delay (law 4)."""

    public_id: str
    destinations: Destinations
    delay_ms: int


class Names(dict[str, MeterName]):
    """The names of a stream's meters, each computed when first needed."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream = stream

    def __missing__(self, meter: str) -> MeterName:
        stream = self._stream
        public_id = meter if stream.pseudonym_key is None else identity.pseudonym(stream.pseudonym_key, meter)
        delay_ms = identity.release_delay_ms(stream.secret, stream.name, meter, stream.spread_ms)
        destinations = tuple([item.destination(public_id) for item in stream.receivers])
        name = self[meter] = MeterName(public_id, destinations, delay_ms)
        return name


class LiveStream(NamedTuple):
    """A running stream: its settings, and the parts that its openings and its releases share."""

    stream: Stream
    names: Names
    charges: Charges
    noise: Noise
    arrivals: Arrivals


@dataclass(slots=True)
class Effects:
    """Instructions to the caller: write `commit`, acknowledge the tokens, and listen at the destinations."""

    commit: Commit
    acknowledge: list[Token] = field(default_factory=list)
    ask_about: list[Destination] = field(default_factory=list)
