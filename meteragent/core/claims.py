"""The sink topics that belong to this store, and the descriptors sent on these topics before records.

No window opens under a topic on which another store is known to release.
"""

from collections.abc import Iterable, Mapping, Sequence

from meteragent.core.window import Window
from meteragent.domain import identity
from meteragent.domain.commit import Commit, Descriptor, Outgoing, ReleasedSlot
from meteragent.domain.validity import Validity
from meteragent.wire import descriptor
from meteragent.wire.descriptor import TermsDescriptor


class Claims:
    """For each sink topic of a stream's meters, the owner: this store, another store, or not yet known.

    A topic on which this store has sent a descriptor belongs to the store for ever. For any other topic, the
    core asks the shell once whether another store releases there (`take`), and the shell answers only if it
    finds no other store (`settle`). If `listens` is False, every topic belongs to this store. The store's
    mark in descriptors is derived from `key`; if `key` is None, descriptors have no mark.

    When a receiver is admitted to a shared stream, its own topics are added, so the core asks again about
    each topic of this store. Until the answer arrives, windows that the new receiver would get do not open.
    """

    __slots__ = (
        "_announced",
        "_asked_topics",
        "_clear_topics",
        "_key",
        "_listens",
        "_questions",
        "_unannounced",
        "_validities",
    )

    def __init__(
        self,
        announced: Mapping[str, str],
        key: bytes | None,
        *,
        listens: bool,
        validities: Sequence[Validity] = (),
        unannounced: Mapping[str, Sequence[Validity]] | None = None,
    ) -> None:
        """Start with the topics of this store; `announced` maps each to the id of its latest descriptor.

        `validities` are the validities of a shared stream's receivers. `unannounced` maps each topic to the
        validities of the receivers to which the topic's latest descriptor was not sent.
        """
        self._announced = dict(announced)
        self._validities = validities
        self._unannounced = dict(unannounced or {})
        self._key = key
        self._listens = listens
        self._clear_topics: set[str] = set()
        self._asked_topics: set[str] = set()
        self._questions: list[str] = []

    def ask(self, sink_topic: str) -> None:
        """Ask about a topic, unless it belongs to this store at every receiver or was asked about before."""
        is_known = sink_topic in self._announced and not self._unannounced.get(sink_topic)
        if not (is_known or self._is_clear(sink_topic) or sink_topic in self._asked_topics):
            self._asked_topics.add(sink_topic)
            self._questions.append(sink_topic)

    def take(self) -> list[str]:
        """Return the topics that `ask` has collected since the last call, for the shell to ask about."""
        sink_topics, self._questions = self._questions, []
        return sink_topics

    def settle(self, sink_topics: Iterable[str]) -> None:
        """Note that no other store has been found on these topics."""
        self._clear_topics.update(sink_topics)

    def is_own(self, sink_topic: str, window_ms: int, slot_end_ms: int) -> bool:
        """Return whether a topic belongs to this store, at every receiver of a window's first slot.

        The window starts at `window_ms`, and its first slot ends at `slot_end_ms`.
        """
        if self._is_clear(sink_topic):
            return True
        return sink_topic in self._announced and not self._has_new(sink_topic, window_ms, slot_end_ms)

    def _is_clear(self, sink_topic: str) -> bool:
        return not self._listens or sink_topic in self._clear_topics

    def _has_new(self, sink_topic: str, window_ms: int, slot_end_ms: int) -> bool:
        """Return whether some receiver of a slot has not yet been sent the topic's latest descriptor."""
        validities = self._unannounced.get(sink_topic, ())
        return any(validity.has_slot(window_ms, slot_end_ms) for validity in validities)

    def forget(self, sink_topic: str) -> None:
        """Forget the answer about a forgotten meter's topic.

        If the meter returns, the core asks again, unless this store has sent a descriptor on the topic.
        """
        self._asked_topics.discard(sink_topic)
        self._clear_topics.discard(sink_topic)

    def announce(self, terms: TermsDescriptor, window: Window, now_ms: int, commit: Commit) -> None:
        """Add a window's descriptor and its messages to the commit, unless it has been announced.

        An announced descriptor is the topic's latest, and was sent to every receiver of the window's first
        slot. A window that releases a share has no descriptor: the leader publishes the descriptor of the
        total.
        """
        first_slot = window.start_ms, window.start_ms + window.terms.first_slot[1]
        is_latest = self._announced.get(window.topic) == terms.id
        if window.sealed_pad is not None or (is_latest and not self._has_new(window.topic, *first_slot)):
            return
        self._announced[window.topic] = terms.id
        later_validities = [validity for validity in self._validities if validity.since_ms > window.start_ms]
        self._unannounced[window.topic] = later_validities
        mark = None if self._key is None else identity.claim(self._key, window.topic)
        payload = terms.message(window.public_id, window.start_ms, mark)
        slot = ReleasedSlot(terms.id, *first_slot) if commit.shared else None
        commit.descriptors.append(Descriptor(window.topic, terms.id, payload, slot))
        for topic in descriptor.topics(window.topic, terms.id):
            commit.outgoing.append(Outgoing(topic, payload, now_ms, True, slot))
