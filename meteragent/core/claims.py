"""Which sink topics are this store's, and the descriptor that is sent on each before its first record.

No window opens under a topic that another store releases on.
"""

from collections.abc import Iterable, Mapping

from meteragent.core.window import Window
from meteragent.domain import identity
from meteragent.domain.commit import Commit, Descriptor, Outgoing
from meteragent.wire import descriptor
from meteragent.wire.descriptor import TermsDescriptor


class Claims:
    """The sink topics of a stream's meters: this store's, not yet known, or another's.

    A topic that this store has announced is its own for ever. Whether another store has announced a topic
    is for the shell to find out: it is asked once (`take`) and reports once that the topic is clear
    (`settle`). Unless the stream `listens`, every topic is this store's. `key` makes the store's mark in
    descriptors.
    """

    __slots__ = ("_announced", "_asked", "_clear", "_key", "_listens", "_new")

    def __init__(self, announced: Mapping[str, str], key: bytes | None, *, listens: bool) -> None:
        """Begin with the topics that this store has announced: the id of the latest descriptor of each."""
        self._announced = dict(announced)
        self._key = key
        self._listens = listens
        self._clear: set[str] = set()
        self._asked: set[str] = set()
        self._new: list[str] = []

    def ask(self, sink_topic: str) -> None:
        """Ask about a topic, unless it has been asked about before or is this store's."""
        if not self.is_own(sink_topic) and sink_topic not in self._asked:
            self._asked.add(sink_topic)
            self._new.append(sink_topic)

    def take(self) -> list[str]:
        """Return the topics to ask about since the last call."""
        sink_topics, self._new = self._new, []
        return sink_topics

    def settle(self, sink_topics: Iterable[str]) -> None:
        """Note that no other store releases on these topics."""
        self._clear.update(sink_topics)

    def is_own(self, sink_topic: str) -> bool:
        """Return whether a window may open under a topic."""
        return not self._listens or sink_topic in self._announced or sink_topic in self._clear

    def forget(self, sink_topic: str) -> None:
        """Forget a topic whose meter is gone: it is asked about again if the meter returns."""
        self._asked.discard(sink_topic)
        self._clear.discard(sink_topic)

    def announce(self, terms: TermsDescriptor, window: Window, now_ms: int, commit: Commit) -> None:
        """Send a topic's descriptor ahead of its first record under new terms."""
        if self._announced.get(window.topic) == terms.id:
            return
        self._announced[window.topic] = terms.id
        mark = None if self._key is None else identity.claim(self._key, window.topic)
        payload = terms.message(window.public_id, window.start_ms, mark)
        commit.descriptors.append(Descriptor(window.topic, terms.id, payload))
        for topic in descriptor.topics(window.topic, terms.id):
            commit.outgoing.append(Outgoing(topic, payload, now_ms, True))
