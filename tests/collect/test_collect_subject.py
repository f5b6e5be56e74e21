"""Subjects of NATS: those that its server's MQTT gateway makes of topics."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.collect.subject import is_accepted_topic, subjects_of, topic_of
from meteragent.collect.topic import StreamTopic
from tests.support.collecting import TEMPLATE

LEVELS = st.lists(st.text(alphabet="ab.é$:-", max_size=4), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("mqtt", "nats"),
    [
        ("a/b", "a.b"),
        ("/a/b", "/.a.b"),
        ("a//b", "a./.b"),
        ("a/", "a./"),
        ("/", "/./"),
        ("a.b/c", "a//b.c"),
        ("1-0:1.8.0/x", "1-0:1//8//0.x"),
    ],
)
def test_a_topic_becomes_the_gateway_s_subject(mqtt: str, nats: str) -> None:
    """A level is a token; an empty level is a slash, and a dot is two."""
    assert subjects_of(mqtt) == (nats,)
    assert topic_of(nats) == mqtt


def test_filters_cover_a_stream() -> None:
    """Records and descriptors of all meters; `#` also matches the level above it."""
    assert [subjects_of(topic_filter) for topic_filter in StreamTopic.parse("main", TEMPLATE).filters] == [
        ("private.*.power",),
        ("private.*.power.privacy", "private.*.power.privacy.>"),
    ]


@given(LEVELS)
def test_a_subject_has_one_topic(levels: list[str]) -> None:
    """The way back finds the topic again, and every token fits a subject of NATS."""
    mqtt = "/".join(levels)
    [nats] = subjects_of(mqtt)
    assert topic_of(nats) == mqtt
    assert all(re.fullmatch(r"[^\s.*>]+", token) for token in nats.split("."))


@pytest.mark.parametrize(
    ("mqtt", "is_held"),
    [("a*b/>c/{meter}", True), ("a/*/b", False), (">", False), ("a b", False), ("a/\x7f", False)],
)
def test_which_topics_the_gateway_carries(mqtt: str, is_held: bool) -> None:
    """White space is refused, and levels that NATS would take for wildcards."""
    assert is_accepted_topic(mqtt) is is_held
