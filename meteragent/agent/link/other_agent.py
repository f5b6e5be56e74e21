"""Detect another agent that releases the same meter to a receiver, before the receiver's first window.

Before its first record, an agent publishes a retained descriptor with its store's mark on `<sink
topic>/privacy`. So if the store has never announced a topic, the agent listens on it before a receiver gets
the first window there. Two stores that add noise to the same intervals reveal more than either promises.
Streams on the event clock and streams in a crowd do not listen.

Another store's retained descriptor may also be left over from a store that was deleted. So the agent keeps
listening on the topic: only a message that is sent while the agent listens proves that another one runs.
"""

import asyncio
import json
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from meteragent.agent.clock import loop_s
from meteragent.agent.environment import Context
from meteragent.domain import identity
from meteragent.domain.errors import LinkError
from meteragent.domain.grid import parse_time
from meteragent.domain.problem import PROBLEMS
from meteragent.mqtt import Session, SubscriptionRefused
from meteragent.store import ledger
from meteragent.wire.descriptor import LATEST_SUFFIX

SUBSCRIPTIONS_MAX = 100
"""The largest number of subscriptions to request at once."""
_UNCHECKED = (
    "stream %s: cannot find out whether another agent releases a meter: let the sink's user read"
    " <sink topic>/privacy, which the broker must retain"
)

_log = logging.getLogger("meteragent")


@dataclass(slots=True)
class _Question:
    """A question about a topic: when it was asked, and the broker's answer to the subscription."""

    asked_s: float
    reply_s: float | None = None
    is_refused: bool = False


class Listener:
    """A listener for other stores' descriptors, on the connection to one receiver."""

    def __init__(self, stream: str, context: Context) -> None:
        """Start without topics; `stream` names the stream and the receiver in the log."""
        self._stream = stream
        self._context = context
        self._taken_over_ms = ledger.taken_over_ms(context.store.connection)
        for code in ("other_agent", "earlier_store"):  # an earlier run's listener may have raised them
            context.alarms.clear(code, stream)
        self._questions: dict[str, _Question] = {}
        self._free_topics: list[str] = []
        self._foreign_names: set[str] = set()
        self._silent_names: dict[str, bool] = {}
        self._session: Session | None = None
        self._wake = asyncio.Event()

    def ask_about(self, sink_topics: Iterable[str]) -> None:
        """Start to find out which of these topics belong to another store."""
        self._questions |= {name: _Question(loop_s()) for name in sink_topics}
        self._wake.set()

    def take_free_topics(self) -> list[str]:
        """Return the topics found free since the last call; the receiver may get windows on them.

        A topic is free if its descriptor comes from this store or a predecessor, or none arrives within
        `listen_s` after the subscription. A topic is also free, with a warning, if the broker retains
        nothing, refuses the subscription, or does not grant the subscription within `listen_s`.
        """
        now_s, listen_s = loop_s(), self._context.environment.listen_s
        for name, question in list(self._questions.items()):
            since_s = question.asked_s if question.reply_s is None else question.reply_s
            if question.is_refused or now_s >= since_s + listen_s:
                if question.reply_s is None:
                    self._context.counts.add("unchecked")
                    _log.warning(_UNCHECKED, self._stream)
                self._stop_listening(name)
                self._free_topics.append(name)
        sink_topics, self._free_topics = self._free_topics, []
        return sink_topics

    def hear_message(self, topic: str, payload: bytes, *, retain: bool) -> None:
        """Process a message from the sink's connection, perhaps a descriptor or another agent's record."""
        name = topic.removesuffix(LATEST_SUFFIX)
        if name in self._silent_names and not retain:
            self._note_foreign(name, is_live=True)
        if name not in self._questions or not topic.endswith(LATEST_SUFFIX):
            return
        is_foreign = self._is_foreign(name, payload)
        if is_foreign is None:
            return
        self._stop_listening(name)
        if is_foreign:
            self._note_foreign(name, is_live=not retain)
        else:
            self._free_topics.append(name)

    def _note_foreign(self, name: str, *, is_live: bool) -> None:
        """Report that another store has released on a topic or, if `is_live`, another agent does so now."""
        if is_live:
            self._foreign_names.add(name)
            if self._silent_names.pop(name, False):
                self._unsubscribe(name)
            code, releaser = "other_agent", "another agent releases"
        else:
            self._silent_names[name] = False
            self._wake.set()
            code, releaser = "earlier_store", "an earlier store has released"
        for item, names in (("other_agent", self._foreign_names), ("earlier_store", self._silent_names)):
            self._context.alarms.clear(item, self._stream)
            if names:
                self._context.alarms.raise_(item, self._stream, meters=len(names))
        text = "stream %s: %s a meter to a receiver, which gets none of its windows here. %s"
        _log.error(text, self._stream, releaser, PROBLEMS[code].cure)

    async def serve(self, session: Session) -> None:
        """Listen on the topics that were asked about, and on those where an earlier store has released."""
        self._session = session
        self._silent_names = dict.fromkeys(self._silent_names, False)
        for question in self._questions.values():
            question.reply_s = None
        while True:
            self._wake.clear()
            items = [
                item for item in self._questions.items() if item[1].reply_s is None and not item[1].is_refused
            ]
            for start in range(0, len(items), SUBSCRIPTIONS_MAX):
                await asyncio.gather(
                    *(self._subscribe(session, *item) for item in items[start : start + SUBSCRIPTIONS_MAX])
                )
            for name in [name for name, is_heard in self._silent_names.items() if not is_heard]:
                with suppress(LinkError):  # if this fails, another agent is not noticed
                    await session.subscribe(name)
                    self._silent_names[name] = True
            await self._wake.wait()

    async def _subscribe(self, session: Session, name: str, question: _Question) -> None:
        if not session.retains:
            question.is_refused = True
            return
        try:
            await session.subscribe(name + LATEST_SUFFIX)
        except SubscriptionRefused:
            question.is_refused = True
        except LinkError:
            return  # the connection has ended, or there is no answer: `take_free_topics` ends the wait
        else:
            question.reply_s = loop_s()

    def _stop_listening(self, name: str) -> None:
        question = self._questions.pop(name)
        if question.reply_s is not None:
            self._unsubscribe(name + LATEST_SUFFIX)

    def _unsubscribe(self, topic: str) -> None:
        if self._session is not None:
            with suppress(LinkError):
                self._session.unsubscribe(topic)

    def _is_foreign(self, sink_topic: str, payload: bytes) -> bool | None:
        """Return whether a descriptor comes from another store; None if the payload is not a descriptor.

        A descriptor without this store's mark comes from a predecessor only if it is valid from before
        `taken_over_ms`.
        """
        with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
            facts = json.loads(payload)
            if facts.get("store") == identity.store_mark(self._context.store.claim_key, sink_topic):
                return False
            return parse_time(facts["valid_from"]) >= self._taken_over_ms
        return None
