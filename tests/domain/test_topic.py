"""Topic templates, and the names under which meters leave."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.domain.identity import (
    SourceTopic,
    can_overlap,
    parse_sink_template,
    pseudonym,
    release_delay_ms,
    render_topic,
)

TEMPLATE = "meters/{meter}/power"
names = st.text(st.characters(exclude_characters="/+#\0", codec="utf-8"), min_size=1, max_size=128)
words = st.sampled_from(["a", "b", "privacy", "{meter}"])
templates = st.lists(words, min_size=1, max_size=5).filter(lambda found: found.count("{meter}") == 1)


def matches(topic: tuple[str, ...], template: tuple[str, ...]) -> bool:
    """Whether a topic without placeholders is of a template."""
    return len(topic) == len(template) and all(
        expected in (segment, "{meter}") for segment, expected in zip(topic, template, strict=True)
    )


# Templates ----------------------------------------------------------------------------------------


def test_a_template_is_its_segments() -> None:
    """A template is a topic of which one segment, anywhere, names the meter."""
    assert parse_sink_template(TEMPLATE) == ("meters", "{meter}", "power")
    assert parse_sink_template("{meter}") == ("{meter}",)
    assert parse_sink_template("a/b/{meter}") == ("a", "b", "{meter}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "meters/m1/power",
        "{meter}/{meter}",
        "meters/x{meter}/power",
        "meters/{meter}x",
        "meters/{Meter}",
        "meters/{meter}/{room}",
        "meters/{}",
    ],
)
def test_a_template_names_the_meter_once(text: str) -> None:
    """A template without a segment {meter}, with two, or with another placeholder is refused."""
    with pytest.raises(ValueError, match=r"one segment \{meter\}"):
        parse_sink_template(text)


@pytest.mark.parametrize(
    "text",
    [
        "+/{meter}",
        "meters/{meter}/#",
        "{meter}/a+b",
        "$SYS/{meter}",
        "{meter}/\0",
        "{meter}/\x1f",
        "{meter}/\ufffe",
    ],
)
def test_a_template_has_no_wildcards(text: str) -> None:
    """A template with a wildcard, a zero byte or a broker's own topic is refused."""
    with pytest.raises(ValueError, match=r"without the wildcards"):
        parse_sink_template(text)
    with pytest.raises(ValueError, match=r"without the wildcards"):
        SourceTopic.parse(text)


def test_a_template_leaves_room_for_the_name() -> None:
    """A topic of MQTT holds 65,535 bytes; half of them are the template's."""
    assert parse_sink_template("{meter}/" + "x" * 32_760)
    with pytest.raises(ValueError, match="at most 32768 bytes"):
        parse_sink_template("{meter}/" + "x" * 32_761)


def test_the_filter_subscribes_to_all_meters() -> None:
    """The subscription is the template with + for the meter."""
    assert SourceTopic.parse(TEMPLATE).filter == "meters/+/power"


@given(template=templates, name=names)
def test_the_meter_is_the_segment_that_the_template_names(template: list[str], name: str) -> None:
    """The name of a topic that was made from the template is found again."""
    topic = render_topic("/".join(template), name)
    assert SourceTopic(tuple(template)).meter_of(topic) == name


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "m1",
        "meters/m1",
        "meters/m1/power/now",
        "/meters/m1/power",
        "meters/m1/energy",
        "Meters/m1/power",
        "meters//power",
        f"meters/{'m' * 129}/power",
    ],
)
def test_a_topic_of_another_form_names_no_meter(topic: str) -> None:
    """A wrong depth, a wrong word, an empty name and one of more than 128 characters name no meter."""
    assert SourceTopic.parse(TEMPLATE).meter_of(topic) is None


def test_render_puts_the_label_into_the_sink_topic() -> None:
    """The sink topic of a meter is the template with its label for {meter}."""
    assert render_topic("private/{meter}/power", "m1") == "private/m1/power"


# Loops --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        ("a/{meter}", "a/{meter}"),
        ("{meter}/power", "private/{meter}"),
        ("{meter}/{meter}", "a/b"),
        ("a/{meter}/privacy", "a/{meter}"),
        ("a/b/{meter}", "a/{meter}"),
        ("a/{meter}/privacy/latest", "a/{meter}"),
        ("{meter}/m/privacy/9f2c01ab", "a/{meter}"),
        ("a/{meter}/total", "a/{meter}"),
    ],
)
def test_what_the_source_would_read_back_overlaps(source: str, sink: str) -> None:
    """A sink's records, its descriptors, totals and those under their ids must not match the source."""
    assert can_overlap(tuple(source.split("/")), tuple(sink.split("/")))


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        ("meters/{meter}/power", "private/{meter}/power"),
        ("a/{meter}", "a/{meter}/power"),
        ("a/{meter}/power", "a/{meter}"),
        ("a/{meter}/privacy/x/y", "a/{meter}"),
        ("b/{meter}/privacy", "a/{meter}"),
    ],
)
def test_what_the_source_cannot_read_does_not_overlap(source: str, sink: str) -> None:
    """Topics that differ in a word or in depth do not meet."""
    assert not can_overlap(tuple(source.split("/")), tuple(sink.split("/")))


@given(source=templates, sink=templates)
def test_topics_overlap_when_one_message_is_of_both(source: list[str], sink: list[str]) -> None:
    """Two templates overlap exactly when some meter's record, total or descriptor is of the source's."""
    words = ("a", "b", "privacy", "total", "other")
    sent = [tuple(word if s == "{meter}" else s for s in sink) for word in words]
    below = [(*topic, "privacy") for topic in sent]
    named = [(*topic, id_) for topic in below for id_ in words] + [(*topic, "total") for topic in sent]
    assert can_overlap(tuple(source), tuple(sink)) == any(
        matches(topic, tuple(source)) for topic in [*sent, *below, *named]
    )


# Names --------------------------------------------------------------------------------------------


def test_a_pseudonym_is_a_keyed_hash() -> None:
    """A pseudonym is the first 16 hex digits of HMAC-SHA-256 of the name: it is the same at every start."""
    expected = hmac.digest(b"key", "zähler".encode(), hashlib.sha256).hex()[:16]
    assert pseudonym(b"key", "zähler") == expected
    assert pseudonym(b"key", "m1") == "f7b06f373a75bb1d"


@given(key=st.binary(min_size=1), name=names)
def test_a_pseudonym_depends_on_key_and_name(key: bytes, name: str) -> None:
    """Another key or another meter has another pseudonym of 16 hex digits."""
    found = pseudonym(key, name)
    assert len(found) == 16
    assert set(found) <= set("0123456789abcdef")
    assert found != pseudonym(key + b"x", name)
    assert found != pseudonym(key, name + "x")


# Delays -------------------------------------------------------------------------------------------


@given(key=st.binary(min_size=1), name=names, spread_ms=st.integers(0, 10**7))
def test_a_delay_lies_within_the_spread(key: bytes, name: str, spread_ms: int) -> None:
    """A meter's delay is fixed and lies between nothing and the spread."""
    found = release_delay_ms(key, "main", name, spread_ms)
    assert 0 <= found <= spread_ms
    assert found == release_delay_ms(key, "main", name, spread_ms)


def test_delays_use_the_whole_spread() -> None:
    """1,000 meters at a spread of 0 to 4 ms have each delay between 150 and 250 times (8 sd)."""
    found = [release_delay_ms(b"key", "main", f"m{number}", 4) for number in range(1000)]
    assert all(150 <= found.count(delay) <= 250 for delay in range(5))


def test_delays_are_keyed() -> None:
    """Whoever lacks the key cannot tell a meter's delay: with another key nearly all are others."""
    spread_ms = 10**6
    same = [
        release_delay_ms(b"one", "main", f"m{k}", spread_ms)
        == release_delay_ms(b"other", "main", f"m{k}", spread_ms)
        for k in range(100)
    ]
    assert sum(same) < 3
