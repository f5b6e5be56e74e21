"""What leaves of a device's messages: the noisy quantity, and nothing else of any of them.

Every message of the fixtures goes through the product's own configuration and core, with seeded noise. No
text of its payload, no name in its topic and no number of five digits or more may be found in what leaves.
Full minutes are, because slots begin at them: that is public (law 4).
"""

import json
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import pytest

from meteragent import config
from meteragent.agent import parts
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.decode.profile import Quantity
from meteragent.domain.commit import Descriptor, Outgoing, Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.domain.units import UNITS, Kind
from meteragent.privacy import SeededBits
from tests.decode.test_profiles import CASES
from tests.support.profile_contract import Case, strings

ARRIVAL_MS = 1795176000000
MINUTE_MS = 60_000
OURS = {"power", "energy"}
"""Words of ours that devices use too."""
RUNS = [(case, name) for case in CASES for name in case.readings]


class Left(NamedTuple):
    """All that leaves: topics, records and descriptors; and what was counted."""

    texts: list[str]
    counts: Counts


PRIVACY = {
    "W": "radius = 1000\nquantum = 1",
    "Wh": "radius = 100\nquantum = 0.001",
    "kWh": "radius = 1\nquantum = 0.001",
    "kW": "radius = 1\nquantum = 0.001",
}
_MINUTE = re.compile(r".*T\d\d:\d\d:00(\.0*)?Z")


def unit_of(case: Case, quantity: Quantity) -> str:
    """The unit to state for a quantity."""
    usual = UNITS[quantity.kind]
    return case.unit if case.unit in usual else usual[0]


def written(case: Case, name: str, *, named: bool) -> str:
    """The configuration that reads a quantity of a case; the meter is named, or has a pseudonym."""
    quantity = case.quantity(name)
    topic = case.topic if named else case.topic.replace(str(case.meter), "{meter}")
    keys = {
        "topic": topic,
        "profile": case.profile,
        "value": name,
        "kind": str(quantity.kind),
        "unit": unit_of(case, quantity),
        **({"meter": "house"} if named else {}),
        **({"id": case.id} if case.id else {}),
        **({} if quantity.kind is not Kind.INTERVAL_ENERGY or quantity.interval_ms else {"interval": "5min"}),
    }
    source = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    key = "" if named else 'pseudonym_key_file = "key"\n'
    return (
        f'[source]\n{source}[window]\nlength = "1min"\nrange = [-20000, 20000]\n'
        f"[privacy]\n{PRIVACY[unit_of(case, quantity)]}\n"
        f'[sink]\ntopic = "private/{{meter}}/power"\n{key}'
    )


def core(text: str, counts: Counts, *, seed: int = 7) -> Pipeline:
    """The core of a configured stream, as the agent makes it."""
    [stream] = config.parse(text).stream
    key = None if stream.source.meter else b"key"
    known = parts.core_of(stream, Fraction(0), key, b"secret")
    return Pipeline(known, Snapshot({}, {}, {}), Spending(), SeededBits(seed), counts)


def left(text: str, messages: Sequence[Message], end_ms: int) -> Left:
    """What leaves of messages by a time."""
    counts, texts = Counts(), list[str]()
    running = core(text, counts)

    def take(batch: Sequence[Message], now_ms: int) -> None:
        commit = running.feed(batch, now_ms, now_ms).commit
        leaving: list[Outgoing | Descriptor] = [*commit.outgoing, *commit.descriptors]
        for one in leaving:
            texts.extend((one.topic, one.payload.decode()))

    for message in messages:
        take([message], message.received_ms)
    while (due_ms := running.deadline_ms(includes_closings=True)) is not None and due_ms <= end_ms:
        take([], due_ms)
    return Left(texts, counts)


def of_case(case: Case, name: str, *, named: bool) -> Left:
    """What leaves of a case's message, which comes three times."""
    stated = case.stated(name)
    times = [time_ms for time_ms, _ in stated if time_ms is not None] if not isinstance(stated, str) else []
    newest_ms = max(times, default=ARRIVAL_MS)
    arrivals = [newest_ms + at_ms for at_ms in (-90_000, 0, 90_000)]
    messages = [Message(case.topic, case.payload, False, at_ms, None) for at_ms in arrivals]
    return left(written(case, name, named=named), messages, newest_ms + 5 * MINUTE_MS)


def numbers(case: Case) -> set[str]:
    """Every number of at least five digits in a message."""
    return set(re.findall(r"[0-9][0-9.]{4,}", case.payload.decode(errors="replace")))


@pytest.mark.parametrize(("case", "name"), RUNS, ids=str)
def test_nothing_of_a_message_leaves(case: Case, name: str) -> None:
    """Neither texts nor numbers of a message are in what leaves, under a pseudonym or a name of one's own."""
    found = of_case(case, name, named=case.meter is None)
    stated = case.stated(name)
    assert bool(found.texts) != isinstance(stated, str)
    counters = [stated] if isinstance(stated, str) else ["accepted", "early"]
    assert sum(found.counts[counter] for counter in counters) >= 1
    everything = "\n".join(found.texts)
    for text in (strings(case) | numbers(case)) - OURS:
        assert text not in everything or _MINUTE.fullmatch(text)


@pytest.mark.parametrize("case", [case for case in CASES if case.meter is not None], ids=str)
def test_a_meter_may_have_a_name_of_ones_own(case: Case) -> None:
    """With source.meter what leaves is called so, and the device's own name is nowhere."""
    name = next(iter(case.readings))
    everything = "\n".join(of_case(case, name, named=True).texts)
    assert str(case.meter) not in everything
    if not isinstance(case.stated(name), str):
        assert "private/house/power" in everything
