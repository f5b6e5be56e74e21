"""Messages that once stopped the receiving side, or cost minutes: each is refused at once, or harms nobody.

Anybody who may publish below one meter's topic can send them. Their ids are the hashes of their facts.
"""

import json
import time
from fractions import Fraction
from typing import Any

import pytest

from meteragent.collect.core import Message
from tests.support.collecting import NOW_MS, core, record_messages, terms_message, topic
from tests.support.hostile import with_consequences
from tests.support.messages import changed, described, recorded
from tests.support.stores import TERMS

LIMIT_S = 1.0
"""Processor time that one message may take."""
ONE_MS = str(Fraction(220, 3_600_000))


def poison(**fields: Any) -> Message:
    """Return a descriptor of m1 with changed facts and the id of its facts."""
    return Message(f"{topic('m1')}/privacy", changed(described(TERMS), is_sealed=True, **fields))


def tenfold(exponent: int) -> dict[str, str]:
    """Return a quantum, radius and epsilon that are larger by a power of ten."""
    zeros = "0" * exponent
    return {"radius": f"22{zeros}", "hides_wh": f"11{zeros}", "epsilon": f"1/22{zeros}"}


DESCRIPTORS: dict[str, dict[str, Any]] = {
    "Infinity in an unknown field": {"x": float("inf")},
    "NaN in an unknown field": {"x": float("nan")},
    "1e308 in an unknown field": {"x": 1e308},
    "an integer of 4,000 digits": {"x": 10**4000},
    "a list nested 900 deep": {"x": json.loads("[" * 900 + "]" * 900)},
    "a quantum of 10^40": {"quantum": f"1{'0' * 40}", **tenfold(40)},
    "10^9 slots of a millisecond": {
        "n": 10**9,
        "step": "PT0.001S",
        "length": "PT1000000S",
        "hides_wh": ONE_MS,
    },
    "10^7 slots of a millisecond": {"n": 10**7, "step": "PT0.001S", "length": "PT10000S", "hides_wh": ONE_MS},
    "50,000 slots": {"n": 50_000, "step": "PT1M", "length": "PT833H20M", "hides_wh": str(Fraction(220, 60))},
    "a slot of 114,000 years": {"timezone": "UTC", "step": "PT999999999H", "length": "PT999999999H"},
    "a slot of 7,990 years": {"timezone": "UTC", "step": "PT70000000H", "length": "PT70000000H"},
    "an epsilon of 10^50": {"epsilon": "9" * 50, "radius": "1", "level": "9" * 50, "hides_wh": "1/2"},
    "an epsilon of 10^-59": {"epsilon": f"1/{'9' * 59}", "radius": "9" * 59},
    "a radius of 10^56": tenfold(55),
    "a zone that is a device": {"timezone": "../../../../dev/zero"},
    "a zone with a path": {"timezone": "posixrules/../../UTC"},
    "3,000 bands": {"space": "bands", "bands": {f"b{i}": "PT1S" for i in range(3_000)}},
    "a day that is an hour long": {"timezone": "UTC", "length": "PT1H", "step": "PT1H", "hides_wh": "220"},
}


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_a_poisoned_descriptor_is_refused_or_harmless(name: str) -> None:
    """It costs less than a second, and what an honest meter sends before and after it is rows."""
    judge, begun_s = core(), time.process_time()
    batch = judge.take_messages([poison(**DESCRIPTORS[name])], NOW_MS)
    assert time.process_time() - begun_s < LIMIT_S
    assert batch.refusal_counts.total() + len(batch.descriptors) == 1
    assert {reason for _, reason in batch.refusal_counts} <= {"descriptor", "unreadable", "too_large", "rate"}
    honest = judge.take_messages(
        [terms_message(TERMS, "h1"), *record_messages(TERMS, range(3), "h1")], NOW_MS
    )
    assert (len(honest.rows), honest.refusal_counts.total()) == (3, 0)


def test_checking_the_longest_window_that_is_accepted_takes_little_time() -> None:
    """A consistent descriptor of 50,000 slots, whose errors must be computed, costs less than a second."""
    facts = json.loads(described(TERMS))
    long_facts = with_consequences({**facts, "step": "PT10M", "length": "PT8333H20M"}, "W")
    assert long_facts["n"] == 50_000
    message, begun_s = poison(**long_facts), time.process_time()
    batch = core().take_messages([message], NOW_MS)
    assert time.process_time() - begun_s < LIMIT_S
    assert len(batch.descriptors) == 1


VALUE = b'"value":1'
RECORDS: dict[str, tuple[bytes, bytes]] = {
    "a value of 10^50": (VALUE, b'"value":1e50'),
    "a value of 4,000 digits": (VALUE, b'"value":' + b"9" * 4_000),
    "a value of 20,000 digits": (VALUE, b'"value":' + b"9" * 20_000),
    "a value that is infinite": (VALUE, b'"value":1e400'),
    "NaN": (VALUE, b'"value":NaN'),
    "a value that is true": (VALUE, b'"value":true'),
    "the year 9999": (b"2026-11-20T12:00:00Z", b"9999-12-31T23:30:00Z"),
    "the year 1": (b"2026-11-20T12:00:00Z", b"0001-01-01T00:00:00+14:00"),
    "3*10^9 draws": (VALUE, VALUE + b',"draws":3000000000'),
    "negative draws": (VALUE, VALUE + b',"draws":-5'),
    "deep nesting": (VALUE, VALUE + b',"x":' + b"[" * 1_500),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_poisoned_record_is_refused(name: str) -> None:
    """It costs less than a second, and is no row."""
    [payload] = recorded(TERMS, [1])
    old, new = RECORDS[name]
    assert old in payload
    judge = core()
    judge.take_messages([terms_message(TERMS)], NOW_MS)
    begun_s = time.process_time()
    batch = judge.take_messages([Message(topic("m1"), payload.replace(old, new))], NOW_MS)
    assert time.process_time() - begun_s < LIMIT_S
    assert (len(batch.rows), batch.refusal_counts.total()) == (0, 1)


@pytest.mark.parametrize("payload", [b"[" * 30_000, b'{"a":' * 12_000, b'{"a":' * 3_000])
@pytest.mark.parametrize("suffix", ["", "/privacy"])
def test_what_is_nested_too_deeply_is_refused(payload: bytes, suffix: str) -> None:
    """Neither the parser nor the canonical form is exhausted."""
    assert core().take_messages([Message(topic("m1") + suffix, payload)], NOW_MS).refusal_counts.total() == 1
