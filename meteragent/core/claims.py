"""Which destinations belong to this store, and the descriptors sent there before records.

No window opens for a destination whose topic another store is known to release on.
"""

from collections.abc import Iterable, Mapping

from meteragent.core.window import Window
from meteragent.domain import identity
from meteragent.domain.commit import Commit, Descriptor, Destination, Outgoing
from meteragent.domain.shapes import Accumulator
from meteragent.wire import descriptor
from meteragent.wire.descriptor import TermsDescriptor


class Claims:
    """For each destination of a stream's meters, its owner: this store, another store, or not yet known.

    A destination to which this store has sent a descriptor belongs to the store for ever. About any other
    destination, the core asks the shell once whether another store releases there (`take`), and the shell
    answers only if it finds no other store (`settle`). If `listens` is False, every destination belongs to
    this store. The store's mark in descriptors is derived from `key`; if `key` is None, descriptors have no
    mark.
    """

    __slots__ = ("_announced", "_asked", "_clear", "_key", "_listens", "_questions")

    def __init__(self, announced: Mapping[Destination, str], key: bytes | None, *, listens: bool) -> None:
        """Start with the destinations of this store; `announced` maps each to its latest descriptor's id."""
        self._announced = dict(announced)
        self._key = key
        self._listens = listens
        self._clear: set[Destination] = set()
        self._asked: set[Destination] = set()
        self._questions: list[Destination] = []

    def ask(self, destinations: Iterable[Destination]) -> None:
        """Ask about destinations, unless they belong to this store or were asked about before."""
        for destination in destinations:
            if not (self.is_own(destination) or destination in self._asked):
                self._asked.add(destination)
                self._questions.append(destination)

    def take(self) -> list[Destination]:
        """Return what `ask` has collected since the last call, for the shell to ask about."""
        destinations, self._questions = self._questions, []
        return destinations

    def settle(self, destinations: Iterable[Destination]) -> None:
        """Note that no other store has been found at these destinations."""
        self._clear.update(destinations)

    def is_own(self, destination: Destination) -> bool:
        """Return whether a destination is known to belong to this store."""
        return not self._listens or destination in self._clear or destination in self._announced

    def forget(self, destinations: Iterable[Destination]) -> None:
        """Forget the answers about a forgotten meter's destinations.

        If the meter returns, the core asks again, unless this store has sent a descriptor there.
        """
        self._asked.difference_update(destinations)
        self._clear.difference_update(destinations)

    def announce(self, terms: TermsDescriptor, window: Window, now_ms: int, commit: Commit) -> None:
        """Add a window's descriptor to the commit for each of its destinations that lacks it.

        A window that releases a share has no descriptor: the leader publishes the descriptor of the total.
        """
        if window.terms.shape.accumulator is Accumulator.SHARE:
            return
        for destination in window.destinations:
            if self._announced.get(destination) == terms.id:
                continue
            self._announced[destination] = terms.id
            queue, sink_topic = destination
            mark = None if self._key is None else identity.claim(self._key, sink_topic)
            payload = terms.message(window.public_id, window.start_ms, mark)
            commit.descriptors.append(Descriptor(queue, sink_topic, terms.id, payload))
            for topic in descriptor.topics(sink_topic, terms.id):
                commit.outgoing.append(Outgoing(queue, topic, payload, now_ms, retain=True))
