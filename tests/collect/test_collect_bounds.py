"""What one sender can make `collect` keep, and what invented meters can: bounded, refused and said."""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from operator import attrgetter
from pathlib import Path

import psycopg
import pytest

from meteragent.collect import core as collect_core
from meteragent.collect.core import (
    DESCRIPTOR_BYTES,
    DESCRIPTORS_MIN,
    WAITING_MAX,
    AnnouncedTerms,
    Core,
    Limits,
    Message,
)
from meteragent.collect.mqtt import MqttSource
from meteragent.collect.queue import BYTES_MAX, Queue
from meteragent.collect.topic import StreamTopic
from meteragent.domain.terms import Terms
from meteragent.mqtt import Endpoint
from meteragent.service.vitals import as_json, as_metrics
from tests.support.collect_life import Played, database_table, dataset_table, life
from tests.support.collecting import (
    NOW_MS,
    TEMPLATE,
    core,
    record_messages,
    refusals,
    rows,
    terms_message,
    topic,
)
from tests.support.messages import HALF_UP, HOURLY, changed, described
from tests.support.stores import TERMS
from tests.support.terms import terms_with


def reasons(judge: Core, messages: Iterable[Message]) -> dict[str, int]:
    """Return why messages are refused."""
    return {
        reason: count for (_, reason), count in judge.take_messages(messages, NOW_MS).refusal_counts.items()
    }


def new_terms(number: int, meter: str = "m1", size: int = 1) -> Message:
    """Return terms that nobody else has."""
    fact = f"{number}{'y' * size}"
    return Message(f"{topic(meter)}/privacy", changed(described(TERMS, meter), is_sealed=True, x=fact))


def test_the_number_of_meters_is_bounded() -> None:
    """Beyond `max_meters` no new meter may announce terms; known ones go on, and a list is no such bound."""
    judge = core(Limits(max_meters=2))
    assert not reasons(judge, [terms_message(TERMS, "m1"), terms_message(TERMS, "m2")])
    assert reasons(judge, [terms_message(TERMS, "m3"), terms_message(TERMS, "m2")]) == {"meters": 1}
    assert not reasons(judge, [terms_message(HOURLY, "m1"), *record_messages(HOURLY, [1], "m1")])
    listed = core(Limits(meters={"m1", "m2"}, max_meters=1))
    messages = [terms_message(TERMS, meter) for meter in ("m1", "m2", "m3")]
    assert reasons(listed, messages) == {"meter": 1}


def test_a_list_gives_the_room_of_invented_meters_back() -> None:
    """Of what is stored, only terms of listed meters count: they have the whole room again."""
    judge = core(Limits(max_meters=10))
    stored = judge.take_messages([new_terms(number, f"x{number % 10}") for number in range(60)], NOW_MS)
    stored.add_batch(judge.take_messages([terms_message(TERMS, "x0")], NOW_MS))
    announced = [
        AnnouncedTerms(digest, 1, terms.record_check) for digest, terms in stored.descriptors.items()
    ]
    streams = [StreamTopic.parse("main", TEMPLATE)]
    listed = Core(streams, Limits(meters={"m1", "x0"}, max_meters=10), announced, stored.links)
    assert {key[1] for key in map(attrgetter("key"), stored.links) if listed.knows(key)} == {"x0"}
    assert not reasons(listed, [terms_message(TERMS, "m1"), *record_messages(TERMS, [1], "m1")])
    assert len(listed.take_messages([new_terms(100 + n, "m1") for n in range(20)], NOW_MS).descriptors) > 10


@pytest.mark.parametrize(
    ("length_ms", "step_ms", "expected"),
    [
        (60_000, 60_000, {}),
        (60_000, 30_000, {"rate": 1}),
        (1_000, 1, {"rate": 1}),
        (59_000, 59_000, {"rate": 1}),
    ],
)
def test_the_number_of_values_a_day_is_bounded(
    length_ms: int, step_ms: int, expected: dict[str, int]
) -> None:
    """Terms with slots of a minute are the densest that are accepted, unless `max_per_day` says otherwise."""
    terms = terms_with(TERMS, length_ms=length_ms, step_ms=step_ms)
    assert reasons(core(), [terms_message(terms)]) == expected
    assert not reasons(core(Limits(max_per_day=86_400_000)), [terms_message(terms)])


def test_slots_of_a_day_cannot_be_more_than_its_terms_give() -> None:
    """With one grid, a slot that does not start on it is refused: values a day are bounded by terms."""
    judge = core()
    assert not reasons(judge, [terms_message(TERMS)])
    payload = record_messages(TERMS, [1])[0].payload
    moved = [changed(payload, t=f"2026-11-20T12:{minute:02}:00Z") for minute in range(60)]
    batch = judge.take_messages([Message(topic("m1"), record) for record in moved], NOW_MS)
    assert len(batch.rows) == 2
    assert batch.refusal_counts == {("main", "grid"): 58}


def test_the_bytes_of_terms_are_bounded() -> None:
    """A meter may announce few long descriptors, or many short ones; another meter is not concerned."""
    judge = core()
    size = 15_000
    fitting = DESCRIPTOR_BYTES // (size + len(described(TERMS)))
    messages = [new_terms(number, size=size) for number in range(fitting + 3)]
    refused = reasons(judge, messages)
    assert 1 <= refused.pop("descriptors") <= 3
    assert not refused
    assert not reasons(judge, [new_terms(99, "m2", size)])


def test_what_one_sender_floods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,500 descriptors of one meter, 64 at most are kept, and those beyond are not even parsed."""
    judge = core()
    kept = judge.take_messages((new_terms(number) for number in range(1_500)), NOW_MS)
    assert len(kept.descriptors) == 64
    assert kept.refusal_counts == {("main", "descriptors"): 1_436}
    monkeypatch.setattr(collect_core, "_parse_descriptor", None)
    assert reasons(judge, [new_terms(2_000)]) == {"descriptors": 1}


def test_the_more_terms_there_are_the_fewer_new_ones_a_meter_may_add() -> None:
    """Many senders together cannot fill the memory, and each other meter may still announce its terms."""
    judge = core(Limits(max_meters=100))
    for number in range(20):
        judge.take_messages((new_terms(1000 * number + i, f"evil{number}") for i in range(64)), NOW_MS)
    assert len(judge._announced) <= 4 * 100 + 2 * 100
    own = [new_terms(10**6 + i, "m1") for i in range(10)]
    assert len(judge.take_messages(own, NOW_MS).descriptors) == DESCRIPTORS_MIN
    shared = judge.take_messages([terms_message(terms, "m2") for terms in (TERMS, HALF_UP, HOURLY)], NOW_MS)
    again = judge.take_messages([terms_message(terms, "m3") for terms in (TERMS, HALF_UP)], NOW_MS)
    assert (len(shared.links), len(again.links)) == (DESCRIPTORS_MIN, 2)


def test_records_of_invented_meters_take_no_room_from_known_ones() -> None:
    """However many records of unknown meters wait, a known meter's wait, too, and are rows in the end."""
    judge = core(Limits(max_meters=10))
    judge.take_messages([terms_message(TERMS, "m1")], NOW_MS)
    invented = (record for n in range(1_000) for record in record_messages(TERMS, [0], f"x{n}"))
    assert reasons(judge, invented) == {"no_descriptor": 990}
    flood = (record for n in range(10) for record in record_messages(TERMS, range(1_000), f"x{n}", 1))
    assert set(reasons(judge, flood)) == {"no_descriptor"}
    batch = judge.take_messages(record_messages(HOURLY, range(40), "m1"), NOW_MS)
    assert len(batch.waiting) == 40
    assert not batch.refusal_counts


def test_a_meter_that_announces_its_terms_takes_its_records_along() -> None:
    """Its waiting records no longer take the room of unknown meters."""
    judge = core(Limits(max_meters=1))
    assert len(judge.take_messages(record_messages(TERMS, range(5)), NOW_MS).waiting) == 5
    assert reasons(judge, record_messages(TERMS, [1], "m2")) == {"no_descriptor": 1}
    judge.take_messages([terms_message(TERMS)], NOW_MS)
    assert judge.awaited_descriptors() == [("main", "m1", terms_id(TERMS))]
    assert not reasons(judge, record_messages(TERMS, [1], "m2"))


def terms_id(terms: Terms) -> str:
    """Return the id of terms."""
    [d] = core().take_messages([terms_message(terms)], NOW_MS).descriptors
    return d[:8]


def test_the_fuller_the_room_the_fewer_records_of_one_meter_wait() -> None:
    """Five known senders cannot fill it so that a sixth has none."""
    judge = core(Limits(max_meters=500))
    meters = [f"m{n}" for n in range(6)]
    judge.take_messages([terms_message(TERMS, meter) for meter in meters], NOW_MS)
    kept = [
        len(judge.take_messages(record_messages(HOURLY, [0], meter) * WAITING_MAX, NOW_MS).waiting)
        for meter in meters
    ]
    assert kept[0] == WAITING_MAX
    assert kept == sorted(kept, reverse=True)
    assert 0 < kept[-1] < kept[0]
    assert sum(kept) <= 5_000


@pytest.mark.parametrize("sink", ["PostgreSQL", "Parquet"])
async def test_records_do_not_wait_for_ever(sink: str, table_url: str, tmp_path: Path) -> None:
    """Those that have waited longer than `accept.wait` are refused and counted; younger ones become rows."""
    table = database_table(table_url) if sink == "PostgreSQL" else dataset_table(tmp_path)
    await life(table, [*record_messages(TERMS, [1, 2]), *record_messages(TERMS, [3, 4], "m2")])
    if sink == "PostgreSQL":
        with psycopg.connect(table_url) as connection:
            connection.execute(
                "UPDATE meteragent.waiting SET received = received - interval '30 days' WHERE meter = 'm1'"
            )
    else:
        with closing(sqlite3.connect(tmp_path / "collect.db")) as database, database:
            database.execute("UPDATE waiting SET received = received - 30 * 86400 WHERE meter = 'm1'")
    played = await life(table, [terms_message(TERMS), terms_message(TERMS, "m2")], "[accept]\nwait = '29d'")
    assert played.vitals is not None
    assert json.loads(as_json(played.vitals))["refusals"] == {"no_descriptor": 2}
    assert played.vitals.counts["written"] == (2 if sink == "PostgreSQL" else 0)
    if sink == "PostgreSQL":
        with psycopg.connect(table_url) as connection:
            assert [(row.meter, row.quanta) for row in rows(connection)] == [("m2", 3), ("m2", 4)]
            assert refusals(connection) == {"no_descriptor": 2}


async def test_each_refusal_is_seen(tmp_path: Path) -> None:
    """Refusals at a bound are counted by reason in the metrics, and are a problem of `health`."""
    sent = [terms_message(TERMS, "m1"), terms_message(TERMS, "m2"), *record_messages(TERMS, [0] * 20, "m3")]
    sent.append(terms_message(terms_with(TERMS, length_ms=1000, step_ms=1000), "m1"))
    sent += [new_terms(number) for number in range(70)]
    played: Played = await life(dataset_table(tmp_path), sent, "[accept]\nmax_meters = 1")
    assert played.vitals is not None
    assert set(played.vitals.refusals) == {"meters", "no_descriptor", "rate", "descriptors"}
    metrics = as_metrics(played.vitals)
    assert 'collect_refusals_total{reason="meters"} 1' in metrics
    assert [problem.code for problem in played.vitals.problems] == ["records_refused"]


async def test_what_waits_in_memory_is_bounded_in_bytes() -> None:
    """A queue of large messages is full before it has many, and holds no more of each than is needed."""
    queue = Queue(20_000)
    count, large = 0, b"x" * 4 * 1024 * 1024
    while not queue.is_full:
        queue.put(Message("a", large))
        count += 1
    assert count < 5_000
    assert not queue.has_room
    messages = await queue.take(5_000)
    assert sum(len(message.payload) for message in messages) < BYTES_MAX + 2**15
    assert queue.has_room
    assert core().take_messages(messages, NOW_MS).refusal_counts == {("", "topic"): count}


async def test_a_large_message_is_cut_on_arrival() -> None:
    """The source keeps of it what the core needs to refuse it."""
    source = MqttSource(Endpoint.parse("mqtt://127.0.0.1"), "test", ("a",), bytes)
    source._on_message(topic("m1"), b"x" * 1_000_000, 1, False, None)
    messages = await source.take_batch(10)
    assert len(messages[0].payload) < 17_000
    assert reasons(core(), messages) == {"too_large": 1}


def test_terms_with_the_level_of_others_count_once() -> None:
    """A meter that repeats what it announced, or announces what others have, adds no descriptor."""
    judge = core()
    twice = replace(TERMS, level=Fraction(2))
    batch = judge.take_messages([terms_message(terms) for terms in (TERMS, twice, TERMS, twice)], NOW_MS)
    assert len(batch.descriptors) == 2
    assert not judge.take_messages([terms_message(TERMS, "m2")], NOW_MS).descriptors
