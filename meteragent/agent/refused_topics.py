"""Topics that the sink's broker refuses: whose messages wait, and when they are tried again.

Rules
1. A refusal holds back the messages of its own sink topic, so of one meter; all others leave.
2. Each hour, and on each new connection, the first waiting message of such a topic leaves for a trial. Once
   the broker takes it, the rest follow in order.
3. A broker may close the connection instead of answering: MQTT 3.1.1 has no other way to refuse. After
   `ABRUPT` connections that ended right after a publication, messages leave one at a time; a topic that is
   alone on its way at `STRIKES` such ends is held, too. It is tried hourly only, and alone; likewise one at
   which the broker said its word and closed the connection, as mosquitto 2.0 does with no limit to its queue.
4. What is confirmed though an earlier message of its topic was refused does not count as delivered: it leaves
   again after that one.
"""

from collections import Counter
from collections.abc import Collection
from math import inf

TRY_S = 3600.0
"""How often a topic that was refused is tried again."""
PROMPT_S = 5.0
"""A broker that closes a connection because of a publication does so within this time."""
STABLE_S = 30.0
"""A connection that stood for so long did not end because of what it began with."""
ABRUPT = 3
STRIKES = 2


class Refusals:
    """What one stream's sink may not publish, by sink topic."""

    def __init__(self, depth: int) -> None:
        """Begin with nothing refused; sink topics have `depth` segments, what belongs to them has more."""
        self._depth = depth
        self._held: dict[str, int] = {}
        self._suspected: set[str] = set()
        self._tries: set[str] = set()
        self._trials: dict[str, int] = {}
        self._taken: set[str] = set()
        self._try_s = inf
        self._recount = False
        self._abrupt = 0
        self._connected_s = -inf
        self._refused: dict[str, float] = {}
        self._strikes: Counter[str] = Counter()

    def topic_of(self, topic: str) -> str:
        """Return the sink topic that a topic is, or lies below."""
        return topic if topic.count("/") < self._depth else "/".join(topic.split("/")[: self._depth])

    @property
    def held(self) -> Collection[str]:
        """The topics whose messages wait."""
        return self._held.keys()

    @property
    def waiting_bytes(self) -> int:
        """How many bytes of messages that are due wait for these topics, as the outbox counts them."""
        return sum(self._held.values())

    @property
    def alone(self) -> bool:
        """Whether messages are to leave one at a time: then an end of the connection tells which it was."""
        return self._abrupt >= ABRUPT or not self._suspected.isdisjoint(self._trials)

    def passes(self, topic: str, row: int, size_bytes: int) -> bool:
        """Return whether a message may leave: its topic is not held, or this is the message of its trial."""
        if topic not in self._held:
            return True
        if topic in self._tries:
            self._tries.discard(topic)
            self._trials[topic] = row
            return True
        self._held[topic] += size_bytes
        return False

    def refused(self, topic: str, now_s: float) -> None:
        """Hold a topic: the broker has refused a message of it."""
        self._refused[topic] = now_s
        self._trials.pop(topic, None)
        if topic not in self._held:
            self._held[topic] = 0
            self._try_s = min(self._try_s, now_s + TRY_S)
            self._recount = True

    def taken(self, topic: str, row: int) -> bool:
        """Note that the broker has taken a message; return whether it counts as delivered (rule 4)."""
        self._strikes.pop(topic, None)
        if topic not in self._held:
            return True
        if self._trials.get(topic) != row:
            return False
        del self._trials[topic]
        self._taken.add(topic)
        return True

    def turn(self, now_s: float) -> bool:
        """Free the topics whose trial went well, and begin the trials that are due.

        Returns whether the outbox is to be read from the start: so it is counted anew what waits.
        """
        again = bool(self._taken) or self._recount
        for topic in self._taken:
            del self._held[topic]
        self._suspected -= self._taken
        self._taken.clear()
        if now_s >= self._try_s:
            self._tries, self._try_s, again = self._held.keys() - self._trials.keys(), now_s + TRY_S, True
        if not self._held:
            self._try_s = inf
        if again:
            self.recount()
        return again

    def recount(self) -> None:
        """Begin to count anew what waits: the outbox is read from the start."""
        self._held = dict.fromkeys(self._held, 0)
        self._recount = False

    def next_s(self) -> float:
        """Return when the next trial begins."""
        return self._try_s

    def connected(self, now_s: float) -> None:
        """Begin a connection, on which what was refused by a word of the broker is tried at once."""
        self._connected_s = now_s
        self._refused.clear()
        self._trials.clear()
        self._tries = self._held.keys() - self._suspected - self._taken

    def ended(self, topics: Collection[str], published_s: float, now_s: float) -> None:
        """Note that a connection ended, with messages of these topics on their way, the last since a time."""
        self._suspected |= {one for one, at_s in self._refused.items() if now_s - at_s <= PROMPT_S}
        if now_s - self._connected_s > STABLE_S:
            self._abrupt = 0
        if not topics or now_s - published_s > PROMPT_S or not self._suspected.isdisjoint(self._trials):
            return  # a trial that ended it says nothing new
        careful = self.alone
        self._abrupt += 1
        if careful and len(topics) == 1:
            [topic] = topics
            self._strikes[topic] += 1
            if self._strikes[topic] >= STRIKES:
                del self._strikes[topic]
                self._suspected.add(topic)
                self.refused(topic, now_s)

    def idle(self) -> None:
        """Note that everything that is due has left and was answered."""
        self._abrupt = 0
