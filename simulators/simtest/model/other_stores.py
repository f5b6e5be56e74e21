"""The topics of meters: which are known to be this store's, and how long the agent may listen on others.

Another store's retained descriptor shows that the other store releases on a topic. So before a receiver's
first window of a meter, on a topic that this store has never announced, the agent listens there (law 1). A
topic is clear if the first descriptor that arrives is this store's own, or if none arrives for `LISTEN_S`.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from simulators.invariant import check

LISTEN_S = 0.3
"""How long the agent listens for other stores, in worlds that have any."""
_SLACK_S = 0.01
OTHER_STORE = b'{"v":1,"id":"0123abcd","store":"0123456789abcdef","valid_from":"2099-01-01T00:00:00Z"}'
"""Another store's descriptor, valid only from 2099 on, so that this store never takes the topic over."""
EVER_MS = 2**62

Destination = tuple[str, str]
"""A queue, and the topic of its receiver."""


@dataclass
class Question:
    """A question about a topic; its times are in seconds of the loop's time.

    The question was asked at `since_s` or later. `is_sent` states whether a core has passed it to the agent.
    From `latest_s` on, the agent may listen for `LISTEN_S`; None if it has not begun to listen. `is_foreign`
    states whether the first descriptor was another store's; None if there was none.
    """

    since_s: float
    is_sent: bool = False
    latest_s: float | None = None
    is_foreign: bool | None = None


class Topics:
    """What one core may know about its destinations.

    `announced` holds the destinations of this store's descriptors. If `clock_s` is None, the stream does not
    listen, and treats every destination as this store's.
    """

    def __init__(self, announced: Iterable[Destination], clock_s: Callable[[], float] | None) -> None:
        self.announced = set(announced)
        self._clock_s = clock_s
        self._clear: dict[Destination, int] = {}
        self._questions: dict[Destination, Question] = {}

    def clear_places(
        self, destinations: AbstractSet[Destination], start_ms: int = EVER_MS
    ) -> AbstractSet[Destination]:
        """Return those destinations that are known to be this store's for windows from `start_ms` on."""
        clear = {place for place, since_ms in self._clear.items() if since_ms <= start_ms}
        return destinations if self._clock_s is None else destinations & (clear | self.announced)

    def has(self, topic: str) -> bool:
        """Return whether a receiver may get windows on a topic."""
        return any(topic == name for _, name in self._clear.keys() | self.announced)

    def ask(self, destinations: AbstractSet[Destination]) -> None:
        """Ask about the destinations that are not known to be this store's."""
        for destination in destinations - self.clear_places(destinations):
            self._questions[destination] = Question(0.0 if self._clock_s is None else self._clock_s())

    def forget(self, destinations: Iterable[Destination]) -> None:
        """Forget the answers about a forgotten meter."""
        for destination in destinations:
            self._clear.pop(destination, None)

    def answer(self, topic: str, *, is_foreign: bool | None) -> None:
        """Note whose descriptor is on a topic or, if `is_foreign` is None, that the agent listens there."""
        for (_, name), question in self._questions.items():
            if name == topic and is_foreign is None and self._clock_s is not None:
                question.latest_s = self._clock_s()
            elif name == topic and question.is_foreign is None:
                question.is_foreign = is_foreign

    def clear(self, destination: Destination, now_ms: int) -> None:
        """Check that a destination may be free, and note it as free; only later windows open for it."""
        question = self._questions.pop(destination, None)
        if question is None or self._clock_s is None:
            check(holds=False, invariant="a topic is clear that nobody asked about", location=destination)
            return
        check(question.is_foreign is not True, "a topic of another store is taken for clear", destination)
        has_waited = self._clock_s() >= question.since_s + LISTEN_S
        check(
            has_waited or question.is_foreign is False,
            "a topic is taken for clear too early",
            destination,
        )
        self._clear[destination] = now_ms

    def check_waiting(self) -> None:
        """Check, after a feed, that no receiver is held back for longer than the agent listens."""
        now_s = 0.0 if self._clock_s is None else self._clock_s()
        for destination, question in self._questions.items():
            if question.is_sent and question.latest_s is None:
                question.latest_s = now_s
            question.is_sent = True
            is_late = now_s > (question.latest_s or now_s) + LISTEN_S + _SLACK_S
            is_held = is_late and not question.is_foreign
            check(not is_held, "a receiver is held back though its topic is clear", destination)
