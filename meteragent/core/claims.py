"""The sink topics that belong to this store, and the descriptors that precede the first records on them.

No window opens under a topic on which another store releases.
"""

from collections.abc import Iterable, Mapping

from meteragent.core.window import Window
from meteragent.domain import identity
from meteragent.domain.commit import Commit, Descriptor, Outgoing
from meteragent.wire import descriptor
from meteragent.wire.descriptor import TermsDescriptor


class Claims:
    """The owners of the sink topics of a stream's meters: this store, another store, or not yet known.

    A topic on which this store has sent a descriptor belongs to it for ever. For any other topic, the core
    asks the shell once whether another store has sent a descriptor there (`take`), and the shell answers only
    if no other store releases there (`settle`). Unless the stream `listens`, every topic belongs to this
    store. The store's mark in descriptors is derived from `key`.
    """

    __slots__ = ("_announced", "_asked_topics", "_clear_topics", "_key", "_listens", "_questions")

    def __init__(self, announced: Mapping[str, str], key: bytes | None, *, listens: bool) -> None:
        """Begin with the topics of this store; `announced` maps each to the id of its latest descriptor."""
        self._announced = dict(announced)
        self._key = key
        self._listens = listens
        self._clear_topics: set[str] = set()
        self._asked_topics: set[str] = set()
        self._questions: list[str] = []

    def ask(self, sink_topic: str) -> None:
        """Ask about a topic, unless it belongs to this store or has been asked about before."""
        if not self.is_own(sink_topic) and sink_topic not in self._asked_topics:
            self._asked_topics.add(sink_topic)
            self._questions.append(sink_topic)

    def take(self) -> list[str]:
        """Return the topics, collected since the last call, that the shell has to ask about."""
        sink_topics, self._questions = self._questions, []
        return sink_topics

    def settle(self, sink_topics: Iterable[str]) -> None:
        """Note that no other store releases on these topics."""
        self._clear_topics.update(sink_topics)

    def is_own(self, sink_topic: str) -> bool:
        """Return whether the topic belongs to this store, so that windows may open under it."""
        return not self._listens or sink_topic in self._announced or sink_topic in self._clear_topics

    def forget(self, sink_topic: str) -> None:
        """Forget the topic of a forgotten meter, so that it is checked again if the meter returns."""
        self._asked_topics.discard(sink_topic)
        self._clear_topics.discard(sink_topic)

    def announce(self, terms: TermsDescriptor, window: Window, now_ms: int, commit: Commit) -> None:
        """Add a window's descriptor to the commit, unless it is already the latest one on its topic.

        A share has no descriptor: the leader publishes that of the total.
        """
        if window.sealed_pad is not None or self._announced.get(window.topic) == terms.id:
            return
        self._announced[window.topic] = terms.id
        mark = None if self._key is None else identity.claim(self._key, window.topic)
        payload = terms.message(window.public_id, window.start_ms, mark)
        commit.descriptors.append(Descriptor(window.topic, terms.id, payload))
        for topic in descriptor.topics(window.topic, terms.id):
            commit.outgoing.append(Outgoing(topic, payload, now_ms, True))
