"""What leaves beside records: the agent's status, and what descriptors say of stores and other streams."""

import json
from dataclasses import replace
from fractions import Fraction

from meteragent.wire import status
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.home_assistant import Discovery
from tests.support.stores import TERMS

NOON_MS = 1_795_176_000_000


def test_the_status_says_since_when_it_is_known() -> None:
    """And nothing of any meter; the last will has no time, since the broker publishes it."""
    assert json.loads(status.online_message(NOON_MS)) == {
        "v": 1,
        "status": "online",
        "t": "2026-11-20T12:00:00Z",
    }
    assert json.loads(status.OFFLINE) == {"v": 1, "status": "offline"}


def test_home_assistant_is_heard_below_its_prefix() -> None:
    """It says there that it has started."""
    assert Discovery("homeassistant", "agent/status", total=False).birth_topic == "homeassistant/status"


def test_a_descriptor_has_the_mark_of_its_store() -> None:
    """Where there is one; the id is that of the terms, whichever store releases."""
    described = describe_terms(TERMS)
    plain, marked = (json.loads(described.encode_message("m1", NOON_MS, mark)) for mark in (None, "5" * 16))
    assert marked == plain | {"store": "5" * 16}
    assert "store" not in plain


def test_a_descriptor_says_what_all_streams_of_a_meter_cost() -> None:
    """The day's charge of this stream and of the others, in 1/W."""
    others = replace(TERMS, others_per_day=Fraction(48, 600))
    facts = json.loads(describe_terms(others).encode_message("m1", NOON_MS))
    assert facts["meter_epsilon_per_day"] == str(TERMS.epsilon_per_w_day + Fraction(48, 600))
    assert facts["meter_epsilon_unit"] == "1/W"
    assert "meter_epsilon_per_day" not in json.loads(describe_terms(TERMS).encode_message("m1", NOON_MS))
