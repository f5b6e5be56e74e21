"""Canaries: readings that can be told in any byte, however they are written, and the search for them."""

import re
import struct
from collections.abc import Iterable
from fractions import Fraction

from tests.integration.service import Service

WATTS = {"one": "13371.337", "two": "17771.771", "three": "19191.919"}
NOTE = "canary-note-0042"


def varint(number: int) -> bytes:
    """Encode a number as SQLite does: seven bits a byte, the most significant first."""
    low = [number & 0x7F]
    while number := number >> 7:
        low.append(number & 0x7F | 0x80)
    return bytes(reversed(low))


def patterns(watts: str) -> dict[str, bytes]:
    """Return the forms in which a canary might be written."""
    micro, milli = int(Fraction(watts) * 10**6), int(Fraction(watts) * 10**3)
    return {
        "text": watts.encode(),
        "digits": str(milli).encode(),
        **{
            f"{size} bytes of {name}, {order}": number.to_bytes(size, order)
            for name, number, sizes in (("micro", micro, (5, 6, 8)), ("milli", milli, (4, 6, 8)))
            for size in sizes
            for order in ("big", "little")
        },
        "varint of micro": varint(micro),
        "varint of milli": varint(milli),
        "double, big": struct.pack(">d", float(watts)),
        "double, little": struct.pack("<d", float(watts)),
    }


def traces_in(data: bytes) -> set[str]:
    """Return the traces of canaries: in which form each is there, and numbers that are multiples of one."""
    traces = {f"{NOTE}"} if NOTE.encode() in data else set()
    for watts in WATTS.values():
        traces |= {f"{watts} as {name}" for name, pattern in patterns(watts).items() if pattern in data}
        micro = int(Fraction(watts) * 10**6)
        numbers = {int(text) for text in re.findall(rb"\d{9,}", data)}
        traces |= {f"a multiple of {watts}" for number in numbers if number and number % micro == 0}
    return traces


def files(agent: Service) -> dict[str, bytes]:
    """Read the store and the files beside it."""
    return {path.name: path.read_bytes() for path in agent.store.parent.glob("db*") if path.is_file()}


def concatenated(of: Iterable[bytes]) -> bytes:
    """Concatenate contents, with a zero byte between them."""
    return b"\0".join(of)
