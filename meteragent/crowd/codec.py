"""The encoding of fields: unsigned big-endian integers, bytes of a fixed length, and labels (crowd.md 7)."""

from meteragent.crowd.group import is_label

MESSAGE_BYTES_MAX = 4 << 20


class Malformed(ValueError):
    """The error for bytes that are not the expected message; its text says what is wrong."""

    refusal = "malformed"
    """The reason by which an operator counts the message."""


def pack(value: int, size: int) -> bytes:
    """Encode an unsigned integer in `size` bytes."""
    return value.to_bytes(size, "big")


def pack_opaque(data: bytes) -> bytes:
    """Encode at most 255 bytes, preceded by their length in one byte."""
    return pack(len(data), 1) + data


class Reader:
    """A reader of a message's fields, in order; every read raises Malformed if the message is too short."""

    def __init__(self, data: bytes) -> None:
        if len(data) > MESSAGE_BYTES_MAX:
            raise Malformed("longer than 4 MiB")
        self._data, self._position = data, 0

    @property
    def position(self) -> int:
        """The number of bytes read so far."""
        return self._position

    def read_bytes(self, size: int) -> bytes:
        """Read `size` bytes."""
        data = self._data[self._position : self._position + size]
        if len(data) != size:
            raise Malformed("too short")
        self._position += size
        return data

    def read_number(self, size: int) -> int:
        """Read an unsigned integer of `size` bytes."""
        return int.from_bytes(self.read_bytes(size), "big")

    def read_label(self) -> str:
        """Read a label. Raises Malformed if the label is not valid."""
        text = self.read_bytes(self.read_number(1)).decode("latin-1")
        if not is_label(text):
            raise Malformed("a label that is not valid")
        return text

    def check_end(self) -> None:
        """Check that the whole message has been read. Raises Malformed if it has not."""
        if self._position != len(self._data):
            raise Malformed("too long")
