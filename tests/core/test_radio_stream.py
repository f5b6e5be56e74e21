"""An ERT meter heard by radio, through the core: 47 intervals in each message, and each of them once."""

import json
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent import config
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Stream
from meteragent.domain.commit import Receiver, Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.grid import iso_time
from meteragent.domain.reading import Message
from meteragent.domain.units import HOUR_MS, MINUTE_MS
from meteragent.privacy.bits import SystemBits

NOON_MS = 1_795_176_000_000
ID = "51423977"
CONFIG = f"""
[source]
topic = "rtlamr/electricity"
meter = "home"
profile = "rtlamr"
kind = "interval_energy"
unit = "Wh"
scale = 10
id = "{ID}"
[window]
length = "1h"
clock = "event"
[privacy]
level = 100000
radius = 100
quantum = 1
[sink]
topic = "private/{{meter}}"
"""
"""Hours whose noise is 0 but for once in 10^400."""


def counts(end_ms: int) -> int:
    """What the interval that ended then holds."""
    return end_ms // (5 * MINUTE_MS) * 7919 % 41


def idm(sent_ms: int, jitter_ms: int) -> bytes:
    """The message of a time, by a clock that is off by as much."""
    end_ms = sent_ms - sent_ms % (5 * MINUTE_MS)
    message = {
        "PacketTypeID": 28,
        "ERTType": 7,
        "ERTSerialNumber": int(ID),
        "LastConsumptionCount": 471131,
        "DifferentialConsumptionIntervals": [counts(end_ms - place * 5 * MINUTE_MS) for place in range(47)],
        "TransmitTimeOffset": (sent_ms - end_ms) * 16 // 1000,
    }
    return json.dumps({"Time": iso_time(sent_ms + jitter_ms), "Type": "IDM", "Message": message}).encode()


def stream() -> Stream:
    """The core's view of the configuration."""
    [one] = config.parse(CONFIG).stream
    return Stream(
        name=one.name,
        source=config.topic_of(one.source),
        receivers=(Receiver(one.name, one.sink.topic),),
        decode=config.build_decoder(one.source),
        schedule=config.schedule(one),
        ahead_ms=one.window.ahead,
        forget_ms=config.forget_ms(one.source, one.window.forget),
        spread_ms=one.sink.spread,
        max_meters=one.source.max_meters,
        max_payload=one.source.max_payload,
        secret=b"",
    )


@settings(max_examples=30)
@given(
    heard=st.lists(st.integers(1, 3 * 3600), min_size=1, max_size=12, unique=True).map(sorted),
    jitter_ms=st.lists(st.integers(-400, 400), min_size=13, max_size=13),
)
def test_each_interval_counts_once(heard: list[int], jitter_ms: list[int]) -> None:
    """Whichever messages are heard, an hour's energy is that of its twelve intervals, exactly."""
    core = Pipeline(stream(), Snapshot({}, {}, {}), Spending(), SystemBits(), Counts())
    times_ms = [NOON_MS, *(NOON_MS + 1000 * second for second in heard), NOON_MS + 230 * MINUTE_MS]
    left = []
    for sent_ms, off_ms in zip(times_ms, [0, *jitter_ms], strict=False):
        message = Message("rtlamr/electricity", idm(sent_ms, off_ms), False, sent_ms + off_ms, None)
        left += core.feed([message], sent_ms, sent_ms).commit.outgoing
    told = [json.loads(one.payload, parse_float=Decimal) for one in left if not one.retain]
    starts_ms = range(NOON_MS - 3 * HOUR_MS, NOON_MS + 3 * HOUR_MS, HOUR_MS)
    assert [(one["t"], one["value"]) for one in told] == [
        (iso_time(start_ms), 10 * sum(counts(start_ms + place * 5 * MINUTE_MS) for place in range(1, 13)))
        for start_ms in starts_ms
    ]
