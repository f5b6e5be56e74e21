"""Packets in: those that come by the thousand are read here, all others by gmqtt.

A PUBLISH at QoS 0 or 1 that has no properties, and a PUBACK, are taken from the buffer as they lie. What is
not exactly that, well formed and whole, is left to gmqtt, which reads it as ever: so there are no errors
here.
"""

from collections.abc import Callable
from typing import Final

_PUBACK: Final = 0x40
_PUBLISH: Final = frozenset((0x30, 0x31, 0x32, 0x33, 0x3A, 0x3B))
"""QoS 0, which has no DUP, and QoS 1 with it or without; retained or not."""
_QOS_1, _RETAIN, _DUP, _MORE = 0x02, 0x01, 0x08, 0x80


class Reader:
    """Takes packets out of one connection's buffer."""

    def __init__(
        self,
        others: Callable[[bytes], int],
        message: Callable[[str, bytes, int, bool, int, bool], None],
        puback: Callable[[int, int], None],
        *,
        properties: bool,
    ) -> None:
        """`others` reads packets as gmqtt does, and says how many bytes it took: -1 for what is no packet.

        `message` and `puback` are those of `client.Events`. With MQTT 5 a PUBLISH has `properties`.
        """
        self._others = others
        self._message = message
        self._puback = puback
        self._properties = int(properties)

    def read(self, data: bytes) -> int:
        """Take all whole packets; how many bytes they had, -1 if one is none."""
        at, have = 0, len(data)
        while have - at > 1:
            size, begin = data[at + 1], at + 2
            if size >= _MORE:
                if begin == have:
                    break
                high = data[begin]
                if high >= _MORE:  # 16 kB and more
                    taken = self._others(data[at:])
                    return taken if taken < 0 else at + taken
                size, begin = size - _MORE + (high << 7), begin + 1
            end = begin + size
            if end > have:
                break
            if not self._take(data, data[at], begin, end) and self._others(data[at:end]) < 0:
                return -1
            at = end
        return at

    def _take(self, data: bytes, first: int, begin: int, end: int) -> bool:
        """Read the packet from `begin` to `end`, if it is one of ours; whether it was."""
        if first == _PUBACK:
            if end - begin < 2:
                return False
            reason = data[begin + 2] if end - begin > 2 else 0
            self._puback(data[begin] << 8 | data[begin + 1], reason)
            return True
        return first in _PUBLISH and self._take_publish(data, first, begin, end)

    def _take_publish(self, data: bytes, first: int, begin: int, end: int) -> bool:
        qos = first & _QOS_1
        if end - begin < 2:
            return False
        topic_end = begin + 2 + (data[begin] << 8 | data[begin + 1])
        payload = topic_end + qos + self._properties
        if payload > end or topic_end == begin + 2 or (self._properties and data[payload - 1]):
            return False
        packet_id = data[topic_end] << 8 | data[topic_end + 1] if qos else 0
        try:
            topic = data[begin + 2 : topic_end].decode()
        except UnicodeDecodeError:
            return False
        self._message(
            topic, data[payload:end], qos >> 1, bool(first & _RETAIN), packet_id, bool(first & _DUP)
        )
        return True
