"""Topics that the sink's broker refuses: their messages wait, and are tried again from time to time.

Rules
1. A refusal holds back the messages of one sink topic, and so of one meter; all other messages are sent.
2. Each hour, and on each new connection, the first waiting message of a held topic is sent as a trial. If the
   broker accepts it, the others follow in order.
3. A broker may close the connection instead of answering: MQTT 3.1.1 has no other way to refuse. After
   `ABRUPT` connections that ended right after a publication, messages are sent one by one. If `STRIKES`
   connections end like this while only a message of one topic is in flight, the topic is held, too. Such a
   topic is *suspected*: it is tried only hourly, and alone. A topic is also suspected if the broker refused
   it with a reason code just before it closed the connection; mosquitto 2.0 does this if its queue has no
   limit.
4. A message that is confirmed although an earlier message of its topic was refused does not count as
   delivered: it is sent again after the refused one.
"""

from collections import Counter
from collections.abc import Collection
from math import inf

TRY_S = 3600.0
"""The time between two trials of a refused topic."""
PROMPT_S = 5.0
"""The time within which a broker closes a connection because of a publication."""
STABLE_S = 30.0
"""The age of a connection from which its end is no longer blamed on its first messages."""
ABRUPT = 3
STRIKES = 2


class Refusals:
    """The sink topics that the broker of one stream refuses, and their trials."""

    def __init__(self, sink_topic_segments: int) -> None:
        """Begin without refused topics; a topic with more segments than a sink topic is below one."""
        self._segments = sink_topic_segments
        self._held: dict[str, int] = {}
        self._suspected: set[str] = set()
        self._due_trials: set[str] = set()
        self._trials: dict[str, int] = {}
        self._taken: set[str] = set()
        self._try_s = inf
        self._recount = False
        self._abrupt = 0
        self._connected_s = -inf
        self._refused: dict[str, float] = {}
        self._strikes: Counter[str] = Counter()

    def topic_of(self, topic: str) -> str:
        """Return the sink topic that equals `topic` or is above it."""
        return topic if topic.count("/") < self._segments else "/".join(topic.split("/")[: self._segments])

    @property
    def held(self) -> Collection[str]:
        """The topics whose messages wait."""
        return self._held.keys()

    @property
    def waiting_bytes(self) -> int:
        """The size of the due messages that wait for these topics, in bytes as counted by the outbox."""
        return sum(self._held.values())

    @property
    def alone(self) -> bool:
        """Whether messages must be sent one by one, so that the end of a connection reveals its cause."""
        return self._abrupt >= ABRUPT or not self._suspected.isdisjoint(self._trials)

    def passes(self, topic: str, row: int, size_bytes: int) -> bool:
        """Return whether a message may be sent: its topic is not held, or it is the message of a trial."""
        if topic not in self._held:
            return True
        if topic in self._due_trials:
            self._due_trials.discard(topic)
            self._trials[topic] = row
            return True
        self._held[topic] += size_bytes
        return False

    def on_refused(self, topic: str, now_s: float) -> None:
        """Hold a topic after the broker has refused one of its messages."""
        self._refused[topic] = now_s
        self._trials.pop(topic, None)
        if topic not in self._held:
            self._held[topic] = 0
            self._try_s = min(self._try_s, now_s + TRY_S)
            self._recount = True

    def on_accepted(self, topic: str, row: int) -> bool:
        """Note that the broker has accepted a message; return whether it counts as delivered (rule 4)."""
        self._strikes.pop(topic, None)
        if topic not in self._held:
            return True
        if self._trials.get(topic) != row:
            return False
        del self._trials[topic]
        self._taken.add(topic)
        return True

    def update(self, now_s: float) -> bool:
        """Free the topics whose trial succeeded, and begin the trials that are due.

        Return whether the outbox must be read from the beginning, which also recounts waiting messages.
        """
        from_start = bool(self._taken) or self._recount
        for topic in self._taken:
            del self._held[topic]
        self._suspected -= self._taken
        self._taken.clear()
        if now_s >= self._try_s:
            self._due_trials, self._try_s, from_start = (
                self._held.keys() - self._trials.keys(),
                now_s + TRY_S,
                True,
            )
        if not self._held:
            self._try_s = inf
        if from_start:
            self.recount()
        return from_start

    def recount(self) -> None:
        """Restart the count of waiting bytes, because the outbox is read from the beginning."""
        self._held = dict.fromkeys(self._held, 0)
        self._recount = False

    def next_s(self) -> float:
        """Return when the next trial begins."""
        return self._try_s

    def on_connected(self, now_s: float) -> None:
        """Begin a connection, on which the topics that were refused with a reason code are tried at once."""
        self._connected_s = now_s
        self._refused.clear()
        self._trials.clear()
        self._due_trials = self._held.keys() - self._suspected - self._taken

    def on_ended(self, topics: Collection[str], published_s: float, now_s: float) -> None:
        """Note the end of a connection with messages of `topics` in flight.

        The last message was published at `published_s`.
        """
        self._suspected |= {topic for topic, at_s in self._refused.items() if now_s - at_s <= PROMPT_S}
        if now_s - self._connected_s > STABLE_S:
            self._abrupt = 0
        if not topics or now_s - published_s > PROMPT_S or not self._suspected.isdisjoint(self._trials):
            return  # a connection ended by a trial reveals nothing new
        was_alone = self.alone
        self._abrupt += 1
        if was_alone and len(topics) == 1:
            [topic] = topics
            self._strikes[topic] += 1
            if self._strikes[topic] >= STRIKES:
                del self._strikes[topic]
                self._suspected.add(topic)
                self.on_refused(topic, now_s)

    def on_idle(self) -> None:
        """Note that all messages that were due have been sent and answered."""
        self._abrupt = 0
