"""Fleets: which agent has which meters, and what becomes of the messages of others."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.domain.errors import ConfigError
from meteragent.domain.identity import Shard, SourceTopic, fits_segment, fnv1a
from meteragent.domain.reading import Message
from meteragent.tools.tap.view import StreamView
from tests.core.test_pipeline import core, feed
from tests.support.configurations import refused, streams, written
from tests.support.guarantees import facts_of, told_of
from tests.support.world import BASE_MS, message

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=128).filter(
    lambda name: fits_segment(name) and "/" not in name
)
counts = st.integers(1, 99_999)
BRANCH = 'topic = "meters/{shard}/{meter}/power"\nshard = "2/8"'


# --- which meters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0x811C9DC5), ("a", 0xE40C292C), ("b", 0xE70C2DE5), ("foobar", 0xBF9CF968)],
)
def test_the_hash_is_fnv_1a(text: str, number: int) -> None:
    """The numbers that its authors publish."""
    assert fnv1a(text.encode()) == number


@pytest.mark.parametrize(
    ("meter", "of_7", "of_8"),
    [
        ("m1", 2, 3),
        ("m2", 0, 6),
        ("1EMH0001234567", 6, 6),
        ("zähler", 2, 1),
        ("d7e0f6a2-39c4-4d13-9d2b-0f6d6f6c6d01", 3, 2),
    ],
)
def test_other_programs_can_compute_a_meters_shard(meter: str, of_7: int, of_8: int) -> None:
    """Known answers: FNV-1a of the name in UTF-8, modulo the number of agents."""
    for count, number in ((7, of_7), (8, of_8)):
        assert [k for k in range(count) if Shard(k, count).holds(meter)] == [number]


@given(meter=names, count=st.integers(1, 50))
def test_each_meter_is_of_one_shard(meter: str, count: int) -> None:
    """Whatever its name and however many agents there are, exactly one has it."""
    assert sum(Shard(number, count).holds(meter) for number in range(count)) == 1


@pytest.mark.slow("twenty thousand names, thirty-six times")
@pytest.mark.parametrize(
    "name", ["m{}", "{:016d}", "{:08x}", "1EMH{:010d}", "DE00056266802AO6G56M11SN{:09d}", "haus-{}-zaehler"]
)
@pytest.mark.parametrize("count", [2, 3, 4, 7, 8, 16])
def test_numbered_meters_are_spread_evenly(name: str, count: int) -> None:
    """Of 20,000 serial numbers each shard has its share, to 6 standard deviations of fair dice."""
    found = Counter(fnv1a(name.format(number).encode()) % count for number in range(20_000))
    share = 20_000 / count
    assert all(abs(found[number] - share) <= 6 * (share * (1 - 1 / count)) ** 0.5 for number in range(count))


@given(count=counts, data=st.data())
def test_a_shard_is_read_as_it_is_written(count: int, data: st.DataObject) -> None:
    """Which of how many, counted from 0."""
    shard = Shard(data.draw(st.integers(0, count - 1)), count)
    assert Shard.parse(str(shard)) == shard


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("8/8", "'0/8' to '7/8'"),
        ("9/3", "'0/3' to '2/3'"),
        ("0/0", "'0/8' to '7/8'"),
        ("2", "'0/8' to '7/8'"),
        ("02/8", "'0/8' to '7/8'"),
        ("-1/8", "'0/8' to '7/8'"),
        ("٢/8", "'0/8' to '7/8'"),
        ("2/100000", "'0/8' to '7/8'"),
        ("2/8 ", "'0/8' to '7/8'"),
    ],
)
def test_what_is_no_shard_is_refused(text: str, right: str) -> None:
    """The error says from where it is counted."""
    error = refused(lambda: config.parse(written(source=f'shard = "{text}"')))
    assert error.key == "source.shard"
    assert error.expected == f"a shard's number and the number of shards: {right}"


def test_a_shard_is_a_text() -> None:
    """A number alone does not say of how many."""
    error = refused(lambda: config.parse(written(source="shard = 2")))
    assert (error.key, "counted from 0" in error.expected) == ("source.shard", True)


# --- a branch for each ------------------------------------------------------------------------------


def test_the_shard_is_a_branch_where_the_topic_names_it() -> None:
    """{shard} is its number: the agent subscribes to its branch and takes all meters there."""
    topic = SourceTopic.parse("meters/{shard}/{meter}/power", shard=Shard(2, 8))
    assert topic.filter == "meters/2/+/power"
    assert topic.shard is None
    assert topic.meter_of("meters/2/m1/power") == "m1"
    assert topic.meter_of("meters/3/m1/power") is None


def test_without_a_branch_the_name_decides() -> None:
    """The agent subscribes to all meters."""
    topic = SourceTopic.parse("meters/{meter}/power", shard=Shard(2, 8))
    assert (topic.filter, topic.shard) == ("meters/+/power", Shard(2, 8))


@pytest.mark.parametrize(
    ("keys", "key", "expected"),
    [
        ('topic = "meters/{shard}/{meter}"', "source.topic", "unless source.shard states the shard"),
        ('topic = "{shard}/{shard}/{meter}"\nshard = "0/2"', "source.topic", "at most one segment {shard}"),
        ('topic = "x{shard}/{meter}"\nshard = "0/2"', "source.topic", "one segment {meter}"),
        ('topic = "home/power"\nmeter = "home"\nshard = "0/2"', "source.shard", "names the only meter"),
    ],
)
def test_a_shard_that_makes_no_sense_is_refused(keys: str, key: str, expected: str) -> None:
    """A branch without a number, two of them, a part of a segment, a fleet of one meter."""
    error = refused(lambda: config.parse(written(source=keys)))
    assert error.key == key
    assert expected in error.expected


@pytest.mark.parametrize("topic", ["$share/fleet/meters/{meter}/power", "$queue/meters/{meter}/power"])
@pytest.mark.parametrize("shard", ["", 'shard = "0/2"'])
def test_a_shared_subscription_is_refused(topic: str, shard: str) -> None:
    """It would give a meter's window to several agents, each of which would release its part."""
    error = refused(lambda: config.parse(written(source=f'topic = "{topic}"\n{shard}')))
    assert error.key == "source.topic"
    assert "splits a meter's window" in error.expected
    assert "source.shard" in error.expected


@pytest.mark.parametrize(
    "sink", ["meters/2/{meter}/power", "meters/5/{meter}/power", "meters/{meter}/x/power"]
)
def test_no_agent_of_the_fleet_reads_what_another_sends(sink: str) -> None:
    """A sink's topic on any branch is refused, not on the agent's own alone."""
    text = written(source=BRANCH, sink=f'topic = "{sink}"')
    assert refused(lambda: config.parse(text)).key == "sink.topic"
    status = written(source=BRANCH, sink='status = "meters/5/x/power"')
    assert refused(lambda: config.parse(status)).key == "sink.status"


# --- messages ---------------------------------------------------------------------------------------


def _decoded(_: bytes) -> Any:
    raise AssertionError


def test_messages_of_others_are_acknowledged_and_counted_unread() -> None:
    """They are not decoded, make no timeline, count for no bound and commit nothing."""
    mine, other = "m2", "m1"  # of 6 and 3
    source = SourceTopic.parse("meters/{meter}/power", shard=Shard(6, 8))
    pipeline = core(source=source, decode=_decoded, max_meters=1)
    effects = feed(pipeline, *(message(1, 1, meter=other, token=k) for k in range(3)))
    assert effects.acknowledge == [0, 1, 2]
    assert not effects.commit
    assert pipeline._counts == {"received": 3, "other_shard": 3}
    assert pipeline.deadline_ms(includes_closings=True) is None
    with pytest.raises(AssertionError):
        feed(pipeline, message(1, 1, meter=mine))


@given(meters=st.lists(names, min_size=1, max_size=20), count=st.integers(1, 6))
def test_every_reading_counts_with_one_agent(meters: list[str], count: int) -> None:
    """Whatever is sent to a whole fleet, each message is accepted once and passed by all others."""
    template, total = "meters/{meter}/power", Counter[str]()
    batch = [
        Message(f"meters/{meter}/power", b'{"t":%d,"power":1}' % (BASE_MS + at), False, BASE_MS + at, at)
        for at, meter in enumerate(meters)
    ]
    for number in range(count):
        pipeline = core(source=SourceTopic.parse(template, shard=Shard(number, count)))
        feed(pipeline, *batch)
        total += pipeline._counts
    assert total["accepted"] == len(meters)
    assert total["other_shard"] == (count - 1) * len(meters)


def test_tap_shows_no_others_meters() -> None:
    """What another agent has is not this one's to show."""
    settings = config.parse(written(source='shard = "6/8"'))
    view = StreamView(settings, settings.stream[0], None, None)
    assert view.take_source_message("meters/m2/power", b"1", retain=False, now_ms=BASE_MS)
    assert not view.take_source_message("meters/m1/power", b"1", retain=False, now_ms=BASE_MS)


# --- what is said -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (BRANCH, "  Shard 2/8 of a fleet: the meters on meters/2/+/power."),
        (
            'shard = "2/8"',
            "  Shard 2/8 of a fleet: the meters on meters/+/power whose names hash (FNV-1a) to 2 modulo 8.",
        ),
    ],
)
def test_check_says_what_the_shard_has(keys: str, said: str) -> None:
    """In words, and as JSON."""
    settings = config.parse(written(source=keys))
    assert said in told_of(settings, ()).splitlines()
    assert facts_of(settings.stream[0], ())["shard"] == "2/8"


def test_check_says_nothing_of_fleets_to_a_home() -> None:
    """Without a shard, nothing mentions shards."""
    settings = config.parse(written())
    assert "shard" not in facts_of(settings.stream[0], ())
    assert "Shard" not in told_of(settings, ())


def test_streams_have_shards_of_their_own() -> None:
    """The error names the stream."""
    text = streams(("one", "a/{meter}", '"b/{meter}"'), ("two", "c/{shard}/{meter}", '"d/{meter}"'))
    with pytest.raises(ConfigError, match=r"^line 8: stream\[1\]\.source\.topic: "):
        config.parse(text)
