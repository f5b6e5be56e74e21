"""What is worked out once a meter or a topic is what would be worked out each time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.core.stream import MeterName, Names
from meteragent.domain import identity
from meteragent.domain.commit import Destination, Receiver
from meteragent.domain.identity import Shard, SourceTopic
from meteragent.domain.reading import Message
from tests.core.test_pipeline import SLOT, core, feed
from tests.support.world import BASE_MS, message, stream

meters = st.lists(st.text(max_size=3), max_size=8)


@given(meters, st.sampled_from([None, b"key"]), st.sampled_from([0, 5000]))
def test_a_meter_leaves_under_the_same_name_every_time(
    asked: list[str], key: bytes | None, spread_ms: int
) -> None:
    """Label, topic and delay follow from the configuration and the meter alone, asked once or often."""
    known = stream(SLOT, pseudonym_key=key, spread_ms=spread_ms)
    names = Names(known)
    for meter in [*asked, *asked]:
        public_id = meter if key is None else identity.pseudonym(key, meter)
        delay_ms = identity.release_delay_ms(known.secret, "main", meter, spread_ms)
        assert names[meter] == MeterName(
            public_id, (Destination("main", f"private/{public_id}/power"),), delay_ms
        )
        names.pop(asked[0], None)


def test_a_meter_that_is_forgotten_leaves_nothing_behind() -> None:
    """Meters that come and go do not add up in memory; one that comes again has the name it had."""
    pipeline = core(forget_ms=8, pseudonym_key=b"key")
    feed(pipeline, message(1, 1))
    first = pipeline.public_ids()
    feed(pipeline, now_ms=40)
    assert pipeline._counts["forgotten"] == 1
    assert not pipeline._running.names
    feed(pipeline, message(41, 1))
    assert pipeline.public_ids() == first


def test_topics_are_known_again_up_to_a_bound() -> None:
    """More topics than there may be meters are read as before, and never more than that are remembered."""
    pipeline = core(max_meters=3)
    for _ in range(2):
        for name in "abcde":
            feed(pipeline, message(1, 1, meter=name))
            assert len(pipeline._intake._origins) <= 3
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


UNFIT = ("$SYS", "a$", "a+b", "#", "a\x01b", "\x7f", "\x9f", "\ufffe", "\ufdd0", "\U0010ffff", "\ud800")


@pytest.mark.parametrize("name", UNFIT, ids=ascii)
def test_a_name_that_no_sink_topic_can_hold_is_refused(name: str) -> None:
    """Its messages are acknowledged and counted, no window opens, and other meters go on."""
    pipeline = core()
    effects = feed(pipeline, message(1, 1, meter=name, token=7), message(1, 1, meter="honest"))
    assert effects.acknowledge == [7]
    assert pipeline._counts["refused_name"] == 1
    assert {*pipeline.meters()} == {"honest"}


@pytest.mark.parametrize("name", UNFIT[:-1], ids=ascii)
def test_under_a_pseudonym_a_meter_may_have_any_name(name: str) -> None:
    """What leaves is the pseudonym, which any topic can hold."""
    pipeline = core(pseudonym_key=b"key")
    feed(pipeline, message(1, 1, meter=name))
    assert {*pipeline.meters()} == {name}


@given(st.text(max_size=4))
def test_what_is_no_refused_name_makes_a_topic_that_may_be_published_to(name: str) -> None:
    """Wherever the template has the meter's name."""
    if identity.fits_segment(name):
        assert all(
            identity.is_publishable(identity.render_topic(where, name))
            for where in ("{meter}", "a/{meter}/b")
        )


def test_delays_of_two_streams_have_nothing_in_common() -> None:
    """Of 2,000 meters two receivers match at most 4 by a delay of 60 s: by chance 0.03 are the same."""
    names = [Names(stream(SLOT, name=name, spread_ms=60_000)) for name in ("utility", "app")]
    same = sum(names[0][f"SN{n}"].delay_ms == names[1][f"SN{n}"].delay_ms for n in range(2000))
    assert same <= 4


def test_a_shorter_delay_brings_no_record_before_an_earlier_one() -> None:
    """After a start a topic's first records wait for those that wait already; another topic's do not."""
    pipeline = core()
    pipeline.hold_messages_until({Destination("main", "private/m1/power"): BASE_MS + 11})
    for meter in ("m1", "m2"):
        feed(pipeline, message(1, 1, meter=meter))
    due_ms: dict[str, list[int]] = {"private/m1/power": [], "private/m2/power": []}
    for now_ms in (8, 12):
        for row in feed(pipeline, now_ms=now_ms).commit.outgoing:
            if not row.retain:
                due_ms[row.topic].append(row.due_ms - BASE_MS)
    assert due_ms == {"private/m1/power": [11, 12], "private/m2/power": [8, 12]}


def test_a_new_descriptor_waits_for_an_older_one() -> None:
    """The older descriptor would otherwise arrive last, and be retained although it is no longer true."""
    pipeline = core()
    pipeline.hold_messages_until({Destination("main", "private/m1/power"): BASE_MS + 11})
    for meter in ("m1", "m2"):
        feed(pipeline, message(1, 1, meter=meter))
    rows = feed(pipeline, now_ms=8).commit.outgoing
    due_ms = {row.topic.split("/")[1]: row.due_ms - BASE_MS for row in rows if row.retain}
    assert due_ms == {"m1": 11, "m2": 8}


def test_a_receiver_that_is_behind_delays_no_other() -> None:
    """Records wait for the older ones of their own receiver alone."""
    behind, other = (Receiver(queue, f"{queue}/{{meter}}") for queue in ("behind", "other"))
    pipeline = core(receivers=(behind, other))
    pipeline.hold_messages_until({Destination("behind", "behind/m1"): BASE_MS + 11})
    feed(pipeline, message(1, 1))
    rows = feed(pipeline, now_ms=8).commit.outgoing
    due_ms = {row.queue: row.due_ms - BASE_MS for row in rows if not row.retain}
    assert due_ms == {"behind": 11, "other": 8}
