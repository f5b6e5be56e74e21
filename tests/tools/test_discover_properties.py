"""`discover`: what holds for all messages."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.domain.units import UNITS
from meteragent.tools.discover import find_meters
from meteragent.tools.discover.findings import Findings
from meteragent.tools.discover.words import split_words
from tests.support.discover_scenes import ACCESS, Message, Scene, heard, summary
from tests.tools import (
    test_discover_described,
    test_discover_descriptions,
    test_discover_families,
    test_discover_hard,
    test_discover_meanings,
)

SCENES: Sequence[Scene] = [
    *test_discover_hard.SCENES,
    *test_discover_families.SCENES,
    *test_discover_described.SCENES,
    *test_discover_meanings.SCENES,
    *test_discover_descriptions.SCENES,
]
WORDS = [
    *("power", "energy", "total", "import", "export", "t1", "t2", "l1", "l2", "l3", "phase", "a", "b"),
    *("kwh", "wh", "w", "kw", "va", "gas", "water", "returned", "delivered", "grid", "pv", "battery"),
    *("house", "plug", "state", "value", "today", "max", "Leistung", "1.8.0", "16.7.0", "sensor", "meter"),
]
UNIT_WORDS = {"w", "kw", "wh", "kwh"}
names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map("_".join)
topics = st.lists(names, min_size=1, max_size=4).map("/".join)
numbers = st.one_of(st.integers(-1000, 10**6), st.floats(0, 10**5, allow_nan=False))
payloads = st.one_of(numbers, st.dictionaries(names, st.one_of(numbers, st.text(max_size=4)), max_size=5))
classes = st.sampled_from(["power", "energy", "gas", "apparent_power", "voltage", None])
units = st.sampled_from(["W", "kW", "kWh", "Wh", "MWh", "VA", "m³", "V", "", None, "Ws"])
descriptions = st.fixed_dictionaries(
    {"name": names, "stat_t": topics},
    optional={
        "unit_of_meas": units,
        "dev_cla": classes,
        "stat_cla": st.sampled_from(["measurement", "total", "total_increasing", None]),
        "val_tpl": names.map(lambda name: f"{{{{ value_json.{name} }}}}"),
        "dev": st.fixed_dictionaries({"ids": names}),
    },
)


def home(live: Sequence[Message], retained: Sequence[object]) -> Scene:
    """Return a home with these messages and discovery messages."""
    described = tuple((f"homeassistant/sensor/x/{i}/config", fields) for i, fields in enumerate(retained))
    return Scene("any", "", tuple(live), "", described)


homes = st.builds(home, st.lists(st.tuples(topics, payloads), max_size=8), st.lists(descriptions, max_size=4))


def offers(result: Findings) -> list[str]:
    """Return the lines of a summary that propose something."""
    return [line for line in summary(result) if not line.startswith("not ")]


@pytest.mark.slow("searches a hundred homes")
@given(homes)
def test_an_offer_has_a_unit_of_its_kind_and_is_accepted(scene: Scene) -> None:
    """Every configuration that is proposed has a unit that belongs to its kind, and loads unchanged."""
    for proposal in find_meters(heard(scene)).proposals:
        for offer in proposal.offers:
            assert offer.unit in UNITS[offer.kind]
            parsed = config.parse(offer.to_toml(ACCESS))
            assert not config.reading_refusals(parsed)


@pytest.mark.slow("searches a hundred homes")
@given(homes)
def test_an_offer_without_a_description_has_its_unit_in_a_name(scene: Scene) -> None:
    """Where no description states the unit, a name on the topic or in the message does."""
    for proposal in find_meters(heard(home(scene.live, []))).proposals:
        for offer in proposal.offers:
            source = offer.source
            stated = f"{source['topic']} {source.get('value', '')} {source.get('phases', '')}"
            assert source["profile"] not in {"number", "json"} or {*split_words(stated)} & UNIT_WORDS


@pytest.mark.slow("searches a hundred homes")
@given(homes)
def test_no_topic_is_lost(scene: Scene) -> None:
    """Every topic is part of a proposal or a description, or is listed with a reason or as quiet."""
    listener = heard(scene)
    result = find_meters(listener)
    listed = {entry.topic for entry in result.unplaced} | {*result.quiet_topics}
    listed |= {
        log.topic
        for proposal in result.proposals
        for offer in proposal.offers
        for log in offer.candidate.topics
    }
    described = {topic for topic in listener.topics if topic.endswith("/config")}
    assert {*listener.topics} <= listed | described


@pytest.mark.parametrize("case", SCENES, ids=str)
def test_an_unrelated_topic_removes_nothing(case: Scene) -> None:
    """Proposals stay when topics of other things are heard as well."""
    others: list[Message] = [
        ("unrelated/temperature", "21.5"),
        ("unrelated/door", "open"),
        ("unrelated/json", {"humidity": 40, "battery": 99}),
        ("unrelated/gas_m3", "12.5"),
        ("homeassistant/light/unrelated/config", {"name": "Lamp", "cmd_t": "unrelated/set"}),
        ("unrelated/broken", b"\xff{"),
    ]
    assert offers(find_meters(heard(case, *others))) == offers(find_meters(heard(case)))


@pytest.mark.parametrize("case", SCENES, ids=str)
def test_no_reading_is_stated(case: Scene) -> None:
    """No text of a proposal or of a reason holds a number of three digits or more from a payload."""
    result = find_meters(heard(case))
    texts = [reason for proposal in result.proposals for reason in proposal.assumptions]
    texts += [entry.reason for entry in result.unplaced]
    named = json.dumps([topic for topic, _ in (*case.live, *case.retained)])
    values = {str(value) for _, payload in case.live for value in _leaves(payload)}
    long = {value for value in values if len(value.replace(".", "")) > 2 and value not in named}
    assert not [text for text in texts for value in long if value in text]


def _leaves(payload: object) -> list[object]:
    """Return the numbers of a payload, and a payload that is a text."""
    if isinstance(payload, dict):
        return [leaf for value in payload.values() for leaf in _leaves(value)]
    if isinstance(payload, list):
        return [leaf for value in payload for leaf in _leaves(value)]
    return [payload] if isinstance(payload, int | float | str) else []
