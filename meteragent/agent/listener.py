"""Whether another agent releases the same meters: a look at the sink's broker before a meter's first window.

An agent retains a descriptor on `<sink topic>/privacy` before its first record, with a mark of its store. A
store that has never announced a topic therefore listens there before it opens a window: two stores that noise
the same intervals tell more than was promised of one.
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
"""How long a descriptor may take to come: mosquitto sends what is retained at once, clusters may not."""
AT_ONCE = 100
"""Subscriptions that are asked for at once."""
_SUFFIX = "/privacy"

OnMessage = Callable[[str, bytes, int, bool, Token | None], None]
Serve = Callable[[Session], Awaitable[None]]

_log = logging.getLogger("meteragent")


def _now_s() -> float:
    return asyncio.get_running_loop().time()


@dataclass(slots=True)
class _Question:
    """A topic that is listened to: since when it is to be, and since when the broker has granted it."""

    asked_s: float
    granted_s: float | None = None
    refused: bool = False


class Listener:
    """Listens for one stream, on the sink's connection, to the descriptors of other stores."""

    def __init__(
        self,
        stream: str,
        claim_key: bytes,
        taken_over_ms: int,
        listen_s: float,
        counts: Counts,
        alarms: Alarms,
    ) -> None:
        """`taken_over_ms`: descriptors from before it are a predecessor's: their topics are this store's."""
        self._stream = stream
        self._claim_key = claim_key
        self._taken_over_ms = taken_over_ms
        self._listen_s = listen_s
        self._counts = counts
        self._alarms = alarms
        alarms.clear("other_agent", stream)  # whoever raised it was another run's listener
        self._open: dict[str, _Question] = {}
        self._clear: list[str] = []
        self._others: set[str] = set()
        self._session: Session | None = None
        self._wake = asyncio.Event()

    def ask(self, sink_topics: Iterable[str]) -> None:
        """Find out whether any of these topics is another store's."""
        self._open |= {name: _Question(_now_s()) for name in sink_topics}
        self._wake.set()

    def clear(self) -> list[str]:
        """Return the topics that turned out to be no other store's since the last time.

        A topic is clear when nothing came for `listen_s` after the broker granted the subscription, and,
        with a warning, when the broker refused it or did not grant it within that time.
        """
        now_s = _now_s()
        for name, question in list(self._open.items()):
            since_s = question.asked_s if question.granted_s is None else question.granted_s
            if question.refused or now_s >= since_s + self._listen_s:
                if question.granted_s is None:
                    self._counts.add("unchecked")
                    _log.warning("stream %s: not known whether another agent releases a meter", self._stream)
                self._settle(name)
                self._clear.append(name)
        found, self._clear = self._clear, []
        return found

    def hear(self, topic: str, payload: bytes) -> None:
        """Take what came on the sink's connection: a descriptor says whose the topic is."""
        name = topic.removesuffix(_SUFFIX)
        if name == topic or name not in self._open:
            return
        other = self._is_of_another(name, payload)
        if other is None:
            return
        self._settle(name)
        if not other:
            self._clear.append(name)
            return
        self._others.add(name)
        self._alarms.raise_("other_agent", self._stream, meters=len(self._others))
        _log.error("stream %s: another agent releases a meter: its windows do not open", self._stream)

    def beside(self, serve: Serve) -> Serve:
        """Return `serve` with the listening beside it, on the same connection."""

        async def served(session: Session) -> None:
            listening = asyncio.ensure_future(self._serve(session))
            try:
                await serve(session)
                await listening
            finally:
                listening.cancel()
                await asyncio.wait({listening})

        return served

    def before(self, on_message: OnMessage) -> OnMessage:
        """Return `on_message` that hears what comes first."""

        def heard(topic: str, payload: bytes, qos: int, retain: bool, token: Token | None) -> None:
            self.hear(topic, payload)
            on_message(topic, payload, qos, retain, token)

        return heard

    async def _serve(self, session: Session) -> None:
        """Subscribe to what is asked about, on a new connection to all of it."""
        self._session = session
        for question in self._open.values():
            question.granted_s = None
        while True:
            self._wake.clear()
            waiting = [one for one in self._open.items() if one[1].granted_s is None and not one[1].refused]
            for start in range(0, len(waiting), AT_ONCE):
                await asyncio.gather(
                    *(self._subscribe(session, *one) for one in waiting[start : start + AT_ONCE])
                )
            await self._wake.wait()

    async def _subscribe(self, session: Session, name: str, question: _Question) -> None:
        try:
            await session.subscribe(name + _SUFFIX)
        except SubscriptionRefused:
            question.refused = True
        except LinkError:
            return  # the connection has ended, or there is no answer: `clear` knows when to stop waiting
        else:
            question.granted_s = _now_s()

    def _settle(self, name: str) -> None:
        """Listen no more to a topic."""
        question = self._open.pop(name)
        if self._session is not None and question.granted_s is not None:
            with suppress(LinkError):
                self._session.unsubscribe(name + _SUFFIX)

    def _is_of_another(self, sink_topic: str, payload: bytes) -> bool | None:
        """Return whether a descriptor is another store's; None where it is no descriptor.

        One without a mark is of an agent of an earlier version: this store's own would be known to it.
        """
        with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
            facts = json.loads(payload)
            if facts.get("store") == identity.claim(self._claim_key, sink_topic):
                return False
            return parse_time(facts["valid_from"]) >= self._taken_over_ms
        return None
