"""Where fuzzing begins: messages of devices, files, records, packets and requests as they should be."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from meteragent import config
from meteragent.decode.profiles import PROFILES
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.decode.test_profiles import CASES
from tests.fuzz import stored
from tests.support import configurations
from tests.support.configurations import streams, written
from tests.support.fake_broker import Wire

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = Path(__file__).resolve().parent / "corpus"

_NUMBERS = (b"512.3", b"-0.5e3", b" 1E-9\n", b"nan", b"1e999999999999999999999", b".5", b"5 W", b"\xff")
_EXPRESSIONS = (
    "power", "sum(phases[*].p)", "a.b[0]", "avg([p1, p2])", "max_by(x, &v).v", "x[?t > `5`] | [0].v",
    "to_number(power)", "sort_by(x, &v)[-1].v", "abs(power)", "*.power | [0]",
)  # fmt: skip
_DOCUMENT = (
    b'{"t":1795176000,"power":512.3,"phases":[{"p":1.5},{"p":-2}],"a":{"b":[3]},"p1":1,"p2":2,'
    b'"x":[{"v":1,"t":9},{"v":2,"t":3}]}'
)
_REQUESTS = (
    b"GET /", b"GET /login", b"GET /facts.json\ncookie: meteragent=0", b"GET /events?stream=main&meter=house",
    b"POST /login\ncontent-type: application/x-www-form-urlencoded\n\ntoken=0123456789abcdef",
    b"GET /static/page.css", b"GET /\norigin: http://evil.example\nsec-fetch-site: cross-site",
    b"GET /static/%2e%2e/app.py\nhost: localhost:1", b"HEAD /texts.json\nhost: [::1]",
)  # fmt: skip


def _of_profiles() -> Iterator[bytes]:
    names = list(PROFILES)
    for case in CASES:
        yield bytes([names.index(case.profile)]) + case.payload


def _configurations() -> Iterator[bytes]:
    for path in (ROOT / "deploy").glob("*.toml"):
        yield path.read_bytes()
    shapes = ("preset = 'typical-day'", "preset = 'day'", "preset = 'bill'", "space = 'curve'\nhide = '50Wh'")
    for privacy in shapes:
        yield written(window="timezone = 'Europe/Amsterdam'", privacy=privacy).encode()
    yield written(source="profile = 'json'\nvalue = 'a.b'\ntime = 't'", privacy="level = '1/3'").encode()
    yield written(source="profile = 'dsmr'\nkind = 'register'\nunit = 'kWh'", sink="total = true").encode()
    yield written(privacy=configurations.BUDGET % ("48", "24h"), window="length = '30min'").encode()
    yield streams(("a", "x/{meter}", "'y/{meter}'"), ("b", "z/{meter}", "'w/{meter}'")).encode()
    yield b'[page]\nlisten = "127.0.0.1:80"\n' + written(source="url = 'mqtts://h:8883'").encode()


def _messages() -> Iterator[bytes]:
    for text in (written(), written(source="kind = 'register'\nunit = 'kWh'")):
        terms = config.terms(config.parse(text).stream[0])
        records = RecordFormat.of(describe_terms(terms))
        record = records.encode("m1", 1_795_176_000_000, 0, 512)
        descriptor = records.descriptor.encode_message("m1", 1_795_176_000_000)
        yield from (record, descriptor, b"\n".join([descriptor, record, record]))


def _packets() -> Iterator[bytes]:
    """By level and moment: acknowledgements, messages, the end, and what is none of it."""
    nothing: Any = None  # only its encoders are asked
    for first in range(8):
        wire = Wire(nothing, nothing)
        wire.level = 5 if first & 2 else 4
        packets = [
            wire.connack(0), wire.connack(0x84), wire.publish(1, b"512.3"),
            wire.publish(7, b"", b"\xff", qos=0), wire.puback(1), wire.puback(1, 0x97), wire.suback(1, 1),
            b"\xd0\x00", b"\xe0\x00",
            b"\xe0\x02\x8b\x00", b"\x32\x03\xff\xff\x00", b"\x30\xff\xff\xff\x7f", b"\x62\x02\x00\x01",
        ]  # fmt: skip
        yield bytes([first]) + b"".join(packets)
        yield from (bytes([first]) + packet for packet in packets)


def _heard() -> Iterator[bytes]:
    for case in CASES:
        yield f"{case.topic} ".encode() + case.payload.replace(b"\n", b"")
    yield b"a/b 512.3\na/c 513\nhome/power 5\n" + b"x/y " + _DOCUMENT


SEEDS: Mapping[str, Callable[[], Iterator[bytes]]] = {
    "number": lambda: iter(_NUMBERS),
    "json": lambda: (one.encode() + b"\n" + _DOCUMENT for one in _EXPRESSIONS),
    "p1": lambda: (case.payload for case in CASES if case.payload.startswith(b"/")),
    "senml": lambda: (case.payload for case in CASES if case.profile.startswith("senml")),
    "profiles": _of_profiles,
    "config": _configurations,
    "store": lambda: iter(stored.seeds()),
    "consume": _messages,
    "redact": lambda: (case.payload for case in CASES),
    "discover": _heard,
    "mqtt": _packets,
    "page": lambda: iter(_REQUESTS),
}
"""By target."""


def corpus(target: str) -> list[Path]:
    """The files of a target: what fuzzing found to be different, and what was wrong once."""
    return sorted((CORPUS / target).iterdir())
