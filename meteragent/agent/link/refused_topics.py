"""Topics that the sink's broker refuses, whose messages wait and are tried again from time to time.

Rules
1. A refusal holds one sink topic, and so the messages of one meter; all other messages are sent.
2. Each hour, and on each new connection, the first waiting message of a held topic is sent as a trial (but
   see rule 3). If the broker accepts it, the other messages follow in order. If the reason may be temporary,
   trials begin after seconds and become rarer.
3. A broker may close the connection instead of answering, because MQTT 3.1.1 has no other way to refuse.
   After `ABRUPT_ENDS_MAX` connections that end right after a publication, messages are sent one by one. If
   `STRIKES` connections end like this with a message of only one topic in flight, that topic is held, too. A
   topic held like this is *suspected*: it is tried only hourly, and alone. A topic is also suspected if the
   broker refused it with a reason code just before it closed the connection; mosquitto 2.0 does so if its
   queue is unlimited.
4. An MQTT 3.1.1 broker that does not support retained messages also closes the connection. So before a topic
   with a retained message is held, its messages are sent without the retain flag; if that succeeds, the flag
   stays off. The flag is not suspected if the broker has ever confirmed a message with it, nor with MQTT 5,
   where brokers state whether they retain messages.
5. If a message is confirmed although an earlier message of its topic was refused, it is not treated as
   delivered: it is sent again after the refused one.
"""

import logging
from collections import Counter
from collections.abc import Collection
from math import inf

from meteragent.domain.problem import PROBLEMS
from meteragent.mqtt.packets import MQTT_3, MQTT_5
from meteragent.mqtt.reconnect import STABLE_S

RETRY_S = 3600.0
"""The time after which refused topics are tried again on the same connection."""
SOON_S, RARER = 5.0, 4
"""The time to a trial after the first temporary refusal, and the factor by which further ones lengthen it."""
PROMPT_S = 5.0
"""If the broker closes a connection within this time after a publication, the publication is blamed."""
ABRUPT_ENDS_MAX = 3
"""The number of abrupt ends after which messages are sent one by one."""
STRIKES = 2
"""The number of abrupt ends, while messages are sent one by one, after which a topic is held."""

_log = logging.getLogger("meteragent")


class Refusals:
    """The topics that one sink's broker refuses, and their trials; `retains` permits retained messages."""

    def __init__(self, sink_topic: str) -> None:
        """Start without refused topics; a meter's topic has as many segments as the template `sink_topic`."""
        self._segments = sink_topic.count("/") + 1
        self._held_bytes: dict[str, int] = {}
        self._suspects: set[str] = set()
        self._due_trials: set[str] = set()
        self._trials: dict[str, int] = {}
        self._accepted_trials: set[str] = set()
        self._pauses: dict[str, tuple[float, float]] = {}  # by topic: the pause's end and length
        self._recount = False
        self._abrupt_ends = 0
        self._connection_s = -inf
        self._refusal_times_s: dict[str, float] = {}
        self._strikes: Counter[str] = Counter()
        self.retains = True
        self._avoids_retain = self._is_retain_tested = False

    def topic_of(self, topic: str) -> str:
        """Return the sink topic that equals `topic` or lies above it."""
        return topic if topic.count("/") < self._segments else "/".join(topic.split("/")[: self._segments])

    @property
    def held_topics(self) -> Collection[str]:
        """The sink topics whose messages wait until the broker accepts them."""
        return self._held_bytes.keys()

    @property
    def next_trial_s(self) -> float:
        """When the next trial begins; infinite if no topic is held."""
        return min((end_s for end_s, _ in self._pauses.values()), default=inf)

    @property
    def waiting_bytes(self) -> int:
        """The total size of the due messages on held topics, in bytes as counted by the outbox."""
        return sum(self._held_bytes.values())

    @property
    def must_send_singly(self) -> bool:
        """Whether messages must be sent one by one, so that an abrupt end reveals which message caused it."""
        return self._abrupt_ends >= ABRUPT_ENDS_MAX or not self._suspects.isdisjoint(self._trials)

    def may_send(self, topic: str, row: int, size_bytes: int) -> bool:
        """Return whether a message may be sent, perhaps as a trial; otherwise count its bytes as waiting."""
        if topic not in self._held_bytes:
            return True
        if topic in self._due_trials:
            self._due_trials.discard(topic)
            self._trials[topic] = row
            return True
        self._held_bytes[topic] += size_bytes
        return False

    def on_refused(self, topic: str, now_s: float, reason: int = 0) -> None:
        """Hold a topic after the broker has refused one of its messages."""
        self._refusal_times_s[topic] = now_s
        if self._trials.pop(topic, None) is None and topic in self._held_bytes:
            return  # the message was sent before the topic was held
        self._recount |= topic not in self._held_bytes
        self._held_bytes.setdefault(topic, 0)
        _, last_s = self._pauses.get(topic, (0, SOON_S / RARER))
        # An error that is unspecified, or specific to the broker, may be temporary.
        pause_s = min(RARER * last_s, RETRY_S) if reason in {0x80, 0x83} else RETRY_S
        self._pauses[topic] = now_s + pause_s, pause_s

    def on_accepted(self, topic: str, row: int, *, retain: bool = False) -> bool:
        """Record that the broker accepted a message; return whether it is thereby delivered (rule 5)."""
        self._strikes.pop(topic, None)
        self._is_retain_tested |= retain and self.retains
        if topic not in self._held_bytes:
            return True
        if self._trials.get(topic) != row:
            return False
        del self._trials[topic]
        self._accepted_trials.add(topic)
        return True

    def update_trials(self, now_s: float) -> bool:
        """End and begin trials; return whether the outbox must be reread, which counts waiting bytes anew."""
        accepted, self._accepted_trials = self._accepted_trials, set()
        for topic in accepted:
            del self._held_bytes[topic], self._pauses[topic]
        self._suspects -= accepted
        due = {topic: pause_s for topic, (end_s, pause_s) in self._pauses.items() if now_s >= end_s}
        self._due_trials |= due.keys() - self._trials.keys()
        self._pauses |= {topic: (now_s + RETRY_S, pause_s) for topic, pause_s in due.items()}
        if from_start := bool(due or accepted or self._recount):
            self.restart_waiting_bytes()
        return from_start

    def restart_waiting_bytes(self) -> None:
        """Restart the count of waiting bytes, because the outbox is read from the beginning."""
        self._held_bytes = dict.fromkeys(self._held_bytes, 0)
        self._recount = False

    def on_connected(self, now_s: float, *, retains: bool = True, version: int = MQTT_3) -> bool:
        """Record a new connection, on which held topics are tried at once unless they are suspected.

        Return whether to ask the broker to retain messages; `retains` is the broker's claim that it can.
        """
        self._connection_s = now_s
        if version == MQTT_5:
            self._avoids_retain, self._is_retain_tested = False, True
        self._refusal_times_s.clear()
        self._trials.clear()
        self._due_trials = self._held_bytes.keys() - self._suspects - self._accepted_trials
        self.retains = retains and not self._avoids_retain
        if not self.retains:
            _log.warning("%s", PROBLEMS["no_retain"].cause.format(side="sink"))
        return self.retains

    def on_ended(self, flights: Collection[tuple[str, bool]], publish_s: float, now_s: float) -> None:
        """Record a connection's end during `flights` (topic, retain flag), the last sent at `publish_s`."""
        topics = {topic for topic, _ in flights}
        suspects = {topic for topic, at_s in self._refusal_times_s.items() if now_s - at_s <= PROMPT_S}
        self._suspects |= suspects
        self._pauses |= dict.fromkeys(suspects & self._pauses.keys(), (now_s + RETRY_S, RETRY_S))
        if now_s - self._connection_s >= STABLE_S:  # the earlier ends belong to another outage
            self._abrupt_ends = 0
        if not topics or now_s - publish_s > PROMPT_S or not self._suspects.isdisjoint(self._trials):
            return  # no message is to blame, or a suspected topic's trial ended the connection, as expected
        had_to_send_singly = self.must_send_singly
        self._abrupt_ends += 1
        if had_to_send_singly and len(topics) == 1:
            if not self._is_retain_tested and any(retain for _, retain in flights):
                self._avoids_retain = not self._avoids_retain
                self._is_retain_tested = not self._avoids_retain
                return
            [topic] = topics
            self._strikes[topic] += 1
            if self._strikes[topic] >= STRIKES:
                del self._strikes[topic]
                self._suspects.add(topic)
                self.on_refused(topic, now_s)

    def on_idle(self) -> None:
        """Record that all messages that were due have been sent and answered."""
        self._abrupt_ends = 0
