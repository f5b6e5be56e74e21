"""What is worked out once a meter or a topic is what would be worked out each time."""

from hypothesis import given
from hypothesis import strategies as st

from meteragent import topic
from meteragent.pipeline.names import Name, Names
from meteragent.reading import Message
from meteragent.topic import Shard, SourceTopic
from tests.test_pipeline import SLOT, core, feed
from tests.world import message, stream

meters = st.lists(st.text(max_size=3), max_size=8)


@given(meters, st.sampled_from([None, b"key"]), st.sampled_from([0, 5000]))
def test_a_meter_leaves_under_the_same_name_every_time(
    asked: list[str], key: bytes | None, spread_ms: int
) -> None:
    """Label, topic and delay follow from the configuration and the meter alone, asked once or often."""
    known = stream(SLOT, pseudonym_key=key, spread_ms=spread_ms)
    names = Names(known)
    for meter in [*asked, *asked]:
        label = meter if key is None else topic.pseudonym(key, meter)
        delay_ms = topic.delay_ms(known.secret, meter, spread_ms)
        assert names[meter] == Name(label, topic.render(known.sink_topic, label), delay_ms)
        names.forget(asked[0])
    names.forget("never asked for")


def test_a_meter_that_is_forgotten_leaves_nothing_behind() -> None:
    """Meters that come and go do not add up in memory; one that comes again has the name it had."""
    pipeline = core(forget_ms=8, pseudonym_key=b"key")
    feed(pipeline, message(1, 1))
    first = pipeline.labels()
    feed(pipeline, now_ms=40)
    assert pipeline._counts["forgotten"] == 1
    assert not pipeline._names._known
    feed(pipeline, message(41, 1))
    assert pipeline.labels() == first


def test_topics_are_known_again_up_to_a_bound() -> None:
    """More topics than there may be meters are read as before, and never more than that are remembered."""
    pipeline = core(max_meters=3)
    for _ in range(2):
        for name in "abcde":
            feed(pipeline, message(1, 1, meter=name))
            assert len(pipeline._intake._places) <= 3
    assert pipeline._counts["refused_meters"] == 4
    assert pipeline._counts["accepted"] + pipeline._counts["duplicate"] == 6
    assert {*pipeline.meters()} == {"a", "b", "c"}


def test_a_topic_that_is_refused_is_refused_each_time() -> None:
    """Neither another template's nor another agent's shard's is remembered as one of ours."""
    mine = next(name for name in "abcdefgh" if Shard(0, 2).holds(name))
    other = next(name for name in "abcdefgh" if not Shard(0, 2).holds(name))
    pipeline = core(source=SourceTopic.parse("meters/{meter}/power", shard=Shard(0, 2)))
    for _ in range(3):
        feed(pipeline, message(1, 1, meter=mine), message(1, 1, meter=other))
        feed(pipeline, elsewhere("meters/a"))
    assert pipeline._counts["other_shard"] == 3
    assert pipeline._counts["refused_topic"] == 3
    assert pipeline._counts["accepted"] + pipeline._counts["duplicate"] == 3


def elsewhere(name: str) -> Message:
    """A reading on another topic."""
    return message(1, 1)._replace(topic=name)
