"""Detection of another agent that releases the same meter, before a first window opens on a topic.

Before its first record, an agent publishes a retained descriptor with its store's mark on `<sink
topic>/privacy`. If an agent's store has never announced a sink topic, the agent therefore listens for
descriptors there before the first window opens, because two stores that add noise to the same intervals would
reveal more than either promises. Streams on the event clock and streams in a crowd do not listen.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from meteragent.domain import identity
from meteragent.domain.counters import Counts
from meteragent.domain.errors import LinkError
from meteragent.domain.grid import parse_time
from meteragent.domain.problem import Alarms
from meteragent.mqtt import Session, SubscriptionRefused, Token

LISTEN_S = 10.0
"""How long to wait for a descriptor. Mosquitto sends retained messages at once, but a cluster of brokers may
take longer."""
AT_ONCE = 100
"""The largest number of subscriptions to request at once."""
_SUFFIX = "/privacy"

OnMessage = Callable[[str, bytes, int, bool, Token | None], None]
Serve = Callable[[Session], Awaitable[None]]

_log = logging.getLogger("meteragent")


def _now_s() -> float:
    return asyncio.get_running_loop().time()


@dataclass(slots=True)
class _Question:
    """A question about a topic: when it was asked, and the broker's answer to the subscription."""

    question_s: float
    grant_s: float | None = None
    is_refused: bool = False


class Listener:
    """One stream's listener for other stores' descriptors, on the sink's connection."""

    def __init__(
        self,
        stream: str,
        claim_key: bytes,
        taken_over_ms: int,
        listen_s: float,
        counts: Counts,
        alarms: Alarms,
        *,
        template: str | None = None,
    ) -> None:
        """Start without topics; descriptors from before `taken_over_ms` come from a predecessor.

        For a receiver of a shared stream, `template` is the template of the receiver's topics, and `ask` and
        `clear` use public ids instead of sink topics.
        """
        self._template = template
        self._stream = stream
        self._claim_key = claim_key
        self._taken_over_ms = taken_over_ms
        self._listen_s = listen_s
        self._counts = counts
        self._alarms = alarms
        alarms.clear("other_agent", stream)  # an earlier run's listener may have raised this alarm
        self._questions: dict[str, _Question] = {}
        self._clear_topics: list[str] = []
        self._foreign_topics: set[str] = set()
        self._session: Session | None = None
        self._wake = asyncio.Event()

    def ask(self, sink_topics: Iterable[str]) -> None:
        """Start to find out which of these topics belong to another store."""
        self._questions |= {name: _Question(_now_s()) for name in sink_topics}
        self._wake.set()

    def clear(self) -> list[str]:
        """Return the topics that have become clear since the last call; windows may open on them.

        A topic is clear if its descriptor comes from this store or a predecessor, or if no descriptor arrives
        within `listen_s` after the broker granted the subscription. It is also clear, with a warning, if the
        broker refuses the subscription or does not grant it within `listen_s` after the question.
        """
        now_s = _now_s()
        for name, question in list(self._questions.items()):
            since_s = question.question_s if question.grant_s is None else question.grant_s
            if question.is_refused or now_s >= since_s + self._listen_s:
                if question.grant_s is None:
                    self._counts.add("unchecked")
                    _log.warning(
                        "stream %s: cannot find out whether another agent releases a meter:"
                        " let the sink's user read <sink topic>/privacy",
                        self._stream,
                    )
                self._settle(name)
                self._clear_topics.append(name)
        sink_topics, self._clear_topics = self._clear_topics, []
        return sink_topics

    def hear(self, topic: str, payload: bytes) -> None:
        """Process a message from the sink's connection, which may be a descriptor of a topic in question."""
        name = topic.removesuffix(_SUFFIX)
        if name == topic:
            return
        if self._template is not None and name.count("/") == self._template.count("/"):
            name = identity.public_id(self._template, name)
        if name not in self._questions:
            return
        is_foreign = self._is_foreign(name, payload)
        if is_foreign is None:
            return
        self._settle(name)
        if not is_foreign:
            self._clear_topics.append(name)
            return
        self._foreign_topics.add(name)
        self._alarms.raise_("other_agent", self._stream, meters=len(self._foreign_topics))
        _log.error(
            "stream %s: another agent releases a meter, whose windows do not open here: stop one agent",
            self._stream,
        )

    def wrap_serve(self, serve: Serve) -> Serve:
        """Return a `serve` that also listens on the same connection."""

        async def serve_and_listen(session: Session) -> None:
            """Serve the session and listen on it, until it ends."""
            listen_task = asyncio.ensure_future(self._serve(session))
            try:
                await serve(session)
                await listen_task
            finally:
                listen_task.cancel()
                await asyncio.wait({listen_task})

        return serve_and_listen

    def wrap_on_message(self, on_message: OnMessage) -> OnMessage:
        """Return an `on_message` that first passes each message to this listener."""

        def pass_first(topic: str, payload: bytes, qos: int, retain: bool, token: Token | None) -> None:
            """Pass a message to the listener, then to `on_message`."""
            self.hear(topic, payload)
            on_message(topic, payload, qos, retain, token)

        return pass_first

    async def _serve(self, session: Session) -> None:
        """Subscribe to the topics in question, and on a new connection to all of them again."""
        self._session = session
        for question in self._questions.values():
            question.grant_s = None
        while True:
            self._wake.clear()
            items = [
                item for item in self._questions.items() if item[1].grant_s is None and not item[1].is_refused
            ]
            for start in range(0, len(items), AT_ONCE):
                await asyncio.gather(
                    *(self._subscribe(session, *item) for item in items[start : start + AT_ONCE])
                )
            await self._wake.wait()

    async def _subscribe(self, session: Session, name: str, question: _Question) -> None:
        try:
            await session.subscribe(self._topic(name))
        except SubscriptionRefused:
            question.is_refused = True
        except LinkError:
            return  # the connection has ended, or there is no answer: `clear` ends the wait
        else:
            question.grant_s = _now_s()

    def _settle(self, name: str) -> None:
        """Stop listening on a topic."""
        question = self._questions.pop(name)
        if self._session is not None and question.grant_s is not None:
            with suppress(LinkError):
                self._session.unsubscribe(self._topic(name))

    def _topic(self, name: str) -> str:
        """Return the topic of the descriptor for a sink topic or, with a template, for a public id."""
        return (name if self._template is None else identity.render(self._template, name)) + _SUFFIX

    def _is_foreign(self, sink_topic: str, payload: bytes) -> bool | None:
        """Return whether a descriptor comes from another store; None if the payload is not a descriptor.

        A descriptor that is valid from a time before `taken_over_ms` comes from a predecessor. Any other
        descriptor without this store's mark counts as another store's, even if an older version of the agent
        sent it without a mark.
        """
        with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
            facts = json.loads(payload)
            if facts.get("store") == identity.claim(self._claim_key, sink_topic):
                return False
            return parse_time(facts["valid_from"]) >= self._taken_over_ms
        return None
