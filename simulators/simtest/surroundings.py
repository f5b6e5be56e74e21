"""The agent's surroundings: the messages of meters and markets, and faults of brokers, clocks and disk."""

import asyncio
import hashlib
from collections.abc import Mapping
from decimal import Decimal

from meteragent.domain.grid import iso_time
from simulators.simtest import schedule as s
from simulators.simtest.judge.ending import SETTLED_COMMIT_S
from simulators.simtest.judge.oracle import ExpectedMeaning
from simulators.simtest.model.prices import PRICE_TOPIC, PriceMessage
from simulators.simtest.model.setting import PAYLOAD_MAX, Pace
from simulators.simtest.mqtt.brokers import JUNK, PRICE_JUNK, Broker, SinkBroker, SourceBroker
from simulators.simtest.store.disk import Disk

_ROOM_BYTES = 2**40
_LOSES_ANSWERS = 2
"""The value of `Drop.forgets` for a broker that loses the last acknowledgements."""


class FaultInjector:
    """The faults and messages of a schedule, except keys, other stores and events that end a process.

    `meanings` maps each topic and payload to its meaning. `newest_ms` is the newest time that the agent has
    read. `brokers` holds all brokers by name. `set_back` states whether the wall clock was ever set back;
    after that, correcting the clock is not a jump. With `is_scrambled`, readings have other values at the
    same times.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pace: Pace,
        source: SourceBroker,
        sink: SinkBroker,
        brokers: Mapping[str, Broker],
        *,
        is_scrambled: bool,
    ) -> None:
        self.meanings: dict[tuple[str, bytes], ExpectedMeaning] = {}
        self._loop = loop
        self._pace = pace
        self._source = source
        self._sink = sink
        self._brokers = brokers
        self._scramble = is_scrambled
        self.set_back = False
        self.newest_ms = 0
        self._offset_ms = 0
        self._takes_s = self._hesitates_s = 0.0
        self._room_bytes = _ROOM_BYTES
        self._disk: Disk | None = None

    def wall_ms(self) -> int:
        """Return the time of the agent's wall clock."""
        return self._pace.begin_ms + int(self._loop.time() * self._pace.per_s) + self._offset_ms

    def boot_ms(self) -> int:
        """Return the time of the agent's boot clock: wall-clock ms since the beginning of the world."""
        return int(self._loop.time() * self._pace.per_s)

    def read_wall_ms(self) -> int:
        """Read the wall clock for the agent, and record the time."""
        now_ms = self.wall_ms()
        self.newest_ms = max(self.newest_ms, now_ms)
        return now_ms

    def clock_ms(self) -> int | None:
        """Return the agent's clock time, or None while the wall clock is behind the newest time read."""
        now_ms = self.wall_ms()
        return now_ms if now_ms >= self.newest_ms else None

    def correct_clock(self) -> None:
        """Set the wall clock forward to the newest time that the agent has read, if the clock is behind."""
        self._offset_ms += max(0, self.newest_ms - self.wall_ms())

    def attach_disk(self, disk: Disk | None) -> None:
        """Set the current disk, with the speed and space that the schedule prescribes."""
        self._disk = disk
        self._set_disk(self._takes_s, self._room_bytes)

    def settle(self) -> None:
        """End all faults except outages and stalls, which end by themselves."""
        self.correct_clock()
        self._sink.refuses = False
        for broker in self._brokers.values():
            broker.settle()
        self._hesitates_s = 0.0
        self._set_disk(SETTLED_COMMIT_S, _ROOM_BYTES)

    def apply(self, event: s.Event) -> None:
        """Apply an event."""
        match event:
            case s.Read() | s.Junk() | s.Price() | s.PriceJunk():
                self._publish(event)
            case s.Drop():
                self._drop_connections(event)
            case s.Stall(down_ms=down_ms):
                self._sink.stalls = True
                self._loop.call_later(down_ms / 1000, self._end_stall)
            case s.Refuse():
                self._sink.refuses = True
            case s.Clock(jump_ms=jump_ms):
                self._offset_ms += jump_ms
                self.set_back |= jump_ms < 0
            case s.Resume(jump_ms=jump_ms):
                self._offset_ms += jump_ms
            case s.Slow(takes_ms=takes_ms):
                self._set_disk(takes_ms / 1000, self._room_bytes)
            case s.Hesitate(most_ms=most_ms):
                self._hesitates_s = most_ms / 1000
                self._set_disk(self._takes_s, self._room_bytes)
            case s.Full(room_bytes=room_bytes, lasts_ms=lasts_ms):
                self._set_disk(self._takes_s, room_bytes)
                self._loop.call_later(lasts_ms / 1000, self._free_disk)

    def _publish(self, event: s.Read | s.Junk | s.Price | s.PriceJunk) -> None:
        """Publish a message at the source's broker."""
        match event:
            case s.Read():
                self._publish_reading(event)
            case s.Junk():
                self._publish_junk(event)
            case s.Price():
                self._publish_prices(event)
            case s.PriceJunk(kind=kind):
                payload, reason = PRICE_JUNK[kind % len(PRICE_JUNK)]
                self._publish_at_price_topic(payload, PriceMessage((), reason), 0)

    def _publish_reading(self, event: s.Read) -> None:
        value_u, time_ms = self._value_u(event), self._pace.begin_ms + event.time_ms
        sign = "-" if value_u < 0 else ""
        units, millionths = divmod(abs(value_u), 10**6)
        topic = f"meters/m{event.meter}/{_topic_end(event.phase)}"
        payload = f'{{"t":{time_ms},"v":{sign}{units}.{millionths:06d}}}'.encode()
        meaning = ExpectedMeaning(f"m{event.meter}", time_ms, value_u, None, phase=event.phase)
        self.meanings[topic, payload] = meaning
        self._source.publish(topic, payload, event.qos, retain=bool(event.retain))

    def _value_u(self, event: s.Read) -> int:
        if not self._scramble:
            return event.value_u
        reading = f"{event.meter} {event.phase}{event.time_ms} {event.value_u}".encode()
        return int.from_bytes(hashlib.sha256(reading).digest()[:4])

    def _publish_junk(self, event: s.Junk) -> None:
        template, payload, reason = JUNK[event.kind % len(JUNK)]
        topic = template.format(event.meter).replace("power", _topic_end(event.phase))
        self.meanings[topic, payload[: PAYLOAD_MAX + 1]] = ExpectedMeaning(
            f"m{event.meter}", 0, 5 * 10**6, reason, phase=event.phase
        )
        self._source.publish(topic, payload, 1, retain=False)

    def _publish_prices(self, event: s.Price) -> None:
        rows, lasts_ms = [], event.to_ms - event.from_ms
        for number in range(event.rows):
            start_ms = self._pace.begin_ms + event.from_ms + number * lasts_ms
            rows.append((start_ms, start_ms + lasts_ms, event.price_u + 1000 * number))
        parts = [
            f'{{"start":"{iso_time(start_ms)}","end":"{iso_time(end_ms)}","price":{Decimal(u) / 10**6:f}}}'
            for start_ms, end_ms, u in rows
        ]
        payload = f"[{','.join(parts)}]".encode()
        message = PriceMessage(tuple(rows), "refused_size" if len(payload) > PAYLOAD_MAX else None)
        self._publish_at_price_topic(payload, message, event.retain)

    def _publish_at_price_topic(self, payload: bytes, message: PriceMessage, retain: int) -> None:
        """Publish prices; a stream that is still subscribed but no longer uses prices refuses the message."""
        refused = "refused_size" if message.refused == "refused_size" else "refused_topic"
        meaning = ExpectedMeaning("", 0, 0, refused, message)
        self.meanings[PRICE_TOPIC, payload[: PAYLOAD_MAX + 1]] = meaning
        self._source.publish(PRICE_TOPIC, payload, 1, retain=bool(retain))

    def _drop_connections(self, event: s.Drop) -> None:
        broker = self._brokers[event.side]
        broker.drop(event.down_ms / 1000)
        if event.side == "source" and event.forgets == _LOSES_ANSWERS:
            self._source.lose_answers()
        elif event.forgets:
            broker.forget()
        elif event.side == "source" and event.shuffles:
            self._source.shuffle()

    def _end_stall(self) -> None:
        self._sink.stalls = False
        self._sink.cut()

    def _free_disk(self) -> None:
        self._set_disk(self._takes_s, _ROOM_BYTES)

    def _set_disk(self, takes_s: float, room_bytes: int) -> None:
        self._takes_s, self._room_bytes = takes_s, room_bytes
        if self._disk is not None:
            self._disk.takes_s, self._disk.max_bytes = takes_s, room_bytes
            self._disk.hesitates_s = self._hesitates_s


def _topic_end(phase: str) -> str:
    """Return the last segments of the topic of readings."""
    return f"{phase}/power" if phase else "power"
