"""Whose the sink topics are, and what is said on them: a descriptor before a topic's first record.

Under a topic that another store releases on, no window opens.
"""

from collections.abc import Iterable, Mapping

from meteragent.core.window import Window
from meteragent.domain import identity
from meteragent.domain.commit import Commit, Descriptor, Outgoing
from meteragent.wire import descriptor
from meteragent.wire.descriptor import TermsDescriptor


class Claims:
    """The sink topics of a stream's meters: this store's, asked about, or another's.

    A topic that this store has announced is its own for ever. Whether another store has announced one is
    the shell's to find out: it is asked once (`take`), and says once that the topic is clear (`settle`).
    Unless it `listens`, every topic is this store's. `key` makes the store's mark in descriptors.
    """

    __slots__ = ("_announced", "_asked", "_clear", "_key", "_listens", "_new")

    def __init__(self, announced: Mapping[str, str], key: bytes | None, *, listens: bool) -> None:
        """`announced`: the id of the latest descriptor of each topic."""
        self._announced = dict(announced)
        self._key = key
        self._listens = listens
        self._clear: set[str] = set()
        self._asked: set[str] = set()
        self._new: list[str] = []

    def ask(self, sink_topic: str) -> None:
        """Ask about a topic, unless that was done or it is this store's."""
        if not self.is_own(sink_topic) and sink_topic not in self._asked:
            self._asked.add(sink_topic)
            self._new.append(sink_topic)

    def take(self) -> list[str]:
        """Return the topics to ask about since the last time."""
        taken, self._new = self._new, []
        return taken

    def settle(self, sink_topics: Iterable[str]) -> None:
        """Note that no other store releases on these topics."""
        self._clear.update(sink_topics)

    def is_own(self, sink_topic: str) -> bool:
        """Return whether a window may open under a topic."""
        return not self._listens or sink_topic in self._announced or sink_topic in self._clear

    def forget(self, sink_topic: str) -> None:
        """Forget what was asked: it is asked again when the meter comes again."""
        self._asked.discard(sink_topic)
        self._clear.discard(sink_topic)

    def announce(self, described: TermsDescriptor, window: Window, now_ms: int, commit: Commit) -> None:
        """Send a topic's descriptor ahead of its first record under new terms."""
        if self._announced.get(window.topic) == described.id:
            return
        self._announced[window.topic] = described.id
        mark = None if self._key is None else identity.claim(self._key, window.topic)
        payload = described.message(window.label, window.start_ms, mark)
        commit.descriptors.append(Descriptor(window.topic, described.id, payload))
        for where in descriptor.topics(window.topic, described.id):
            commit.outgoing.append(Outgoing(where, payload, now_ms, True))
