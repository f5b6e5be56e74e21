"""The bytes of messages: unsigned big-endian integers, fixed fields, and short texts (crowd.md 7)."""

from meteragent.crowd.group import is_label

MESSAGE_BYTES_MAX = 4 << 20


class Malformed(ValueError):
    """Bytes that are not the expected message; the text names the part."""


def number(value: int, size: int) -> bytes:
    """Encode an unsigned integer in `size` bytes."""
    return value.to_bytes(size, "big")


def opaque(data: bytes) -> bytes:
    """Encode up to 255 bytes, preceded by their length."""
    return number(len(data), 1) + data


class Reader:
    """The unread part of a message; every read raises Malformed if the message is too short."""

    def __init__(self, data: bytes) -> None:
        if len(data) > MESSAGE_BYTES_MAX:
            raise Malformed("longer than 4 MiB")
        self._data, self._at = data, 0

    @property
    def position(self) -> int:
        """The number of bytes read so far."""
        return self._at

    def take(self, size: int) -> bytes:
        """Read `size` bytes."""
        data = self._data[self._at : self._at + size]
        if len(data) != size:
            raise Malformed("too short")
        self._at += size
        return data

    def number(self, size: int) -> int:
        """Read an unsigned integer of `size` bytes."""
        return int.from_bytes(self.take(size), "big")

    def label(self) -> str:
        """Read a label."""
        text = self.take(self.number(1)).decode("latin-1")
        if not is_label(text):
            raise Malformed("label")
        return text

    def end(self) -> None:
        """Check that nothing is left."""
        if self._at != len(self._data):
            raise Malformed("too long")
