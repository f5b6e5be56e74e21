"""What a received message means: rows, descriptors, records that wait, and each reason of a refusal."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from meteragent.collect import core as collect_core
from meteragent.collect.core import (
    DESCRIPTORS_MAX,
    PAYLOAD_MAX,
    REASONS,
    WAITING_MAX,
    Limits,
    Message,
    Row,
    Waiting,
)
from meteragent.consume import Descriptor, collect, message
from meteragent.domain.errors import RecordError
from meteragent.domain.units import DAY_MS
from tests.support.collecting import NOW_MS, core, id_of, record_messages, terms_message, topic
from tests.support.messages import HALF_UP, HOURLY, NOON_MS, SPLIT, changed, described, recorded
from tests.support.stores import LENGTH_MS, TERMS

D = Descriptor.parse(described(TERMS)).digest
[RECORD] = recorded(TERMS, [-7])


def test_a_record_is_a_row_in_quanta() -> None:
    """A record after its descriptor becomes a row, with its exact value in quanta of the descriptor."""
    batch = core().take_messages([terms_message(TERMS), *record_messages(TERMS, [512, -7])], NOW_MS)
    assert batch.rows == [
        Row("main", "m1", NOON_MS + i * LENGTH_MS, "", NOON_MS + (i + 1) * LENGTH_MS, z, D, 1)
        for i, z in enumerate([512, -7])
    ]
    assert list(batch.descriptors) == [D]
    assert batch.links == {("main", "m1", D)}
    assert not batch.refusal_counts
    assert not batch.waiting


def test_a_value_is_exact_on_a_fine_lattice() -> None:
    """With a quantum of a hundredth of a watt the row still has the whole number of quanta."""
    fine = replace(TERMS, quantum_u=10_000)
    judge = core()
    batch = judge.take_messages([terms_message(fine), *record_messages(fine, [123_456_789])], NOW_MS)
    assert [row.quanta for row in batch.rows] == [123_456_789]


def test_a_record_waits_for_its_descriptor() -> None:
    """A record without a descriptor waits as it arrived, and is a row once the descriptor has come."""
    judge = core()
    early = judge.take_messages(record_messages(TERMS, [3]), NOW_MS)
    assert not early.rows
    [waiting] = early.waiting
    assert waiting == Waiting(D[:8], "main", "m1", topic("m1"), recorded(TERMS, [3])[0])
    batch = judge.take_messages([terms_message(TERMS)], NOW_MS)
    assert list(batch.descriptors) == [D]
    released = judge.take_messages([waiting._replace(place=5)], NOW_MS)
    assert [row.quanta for row in released.rows] == [3]
    assert released.released_places == [5]


def test_a_record_before_its_descriptor_in_one_batch_does_not_wait() -> None:
    """A batch that ends with the descriptor has rows, and leaves nothing that waits or is counted so."""
    judge = core()
    early = [*record_messages(TERMS, range(5)), *record_messages(HOURLY, [1], first=10)]
    batch = judge.take_messages([*early, terms_message(TERMS)], NOW_MS)
    assert [row.quanta for row in batch.rows] == [0, 1, 2, 3, 4]
    assert batch.links == {("main", "m1", D)}
    assert [record.d for record in batch.waiting] == [id_of(HOURLY)]
    assert (
        len(judge.take_messages(record_messages(HOURLY, [0] * WAITING_MAX), NOW_MS).waiting)
        == WAITING_MAX - 1
    )


def test_too_many_waiting_records_of_a_meter_are_refused() -> None:
    """The number of records that wait is bounded for each meter, and another meter's still wait."""
    judge = core()
    batch = judge.take_messages(record_messages(TERMS, [0]) * (WAITING_MAX + 2), NOW_MS)
    assert len(batch.waiting) == WAITING_MAX
    assert batch.refusal_counts == {("main", "no_descriptor"): 2}
    assert len(judge.take_messages(record_messages(TERMS, [0], "m2"), NOW_MS).waiting) == 1


def test_an_equal_descriptor_is_known() -> None:
    """Another meter's descriptor of the same terms adds nothing, and its records are rows."""
    judge = core()
    judge.take_messages([terms_message(TERMS)], NOW_MS)
    batch = judge.take_messages([terms_message(TERMS, "m2"), *record_messages(TERMS, [1], "m2")], NOW_MS)
    assert not batch.descriptors
    assert batch.links == {("main", "m2", D)}
    assert len(batch.rows) == 1


def test_a_removed_descriptor_is_no_refusal() -> None:
    """An empty payload on a descriptor's topic removes what the broker retained; nothing is counted."""
    assert not core().take_messages([Message(f"{topic('m1')}/privacy/{D}", b"")], NOW_MS).refusal_counts


def test_facts_survive_the_table() -> None:
    """The facts of a descriptor that are stored are those of all meters, and parse to an equal descriptor."""
    descriptor = Descriptor.parse(described(HALF_UP))
    assert Descriptor.parse_stored(descriptor.hashed_text) == descriptor
    assert "m1" not in descriptor.hashed_text


def refused(message: Message, limits: Limits | None = None, now_ms: int = NOW_MS) -> dict[str, int]:
    """Return the reasons for which a message is refused after the descriptor of TERMS."""
    judge = core(limits)
    assert not judge.take_messages(
        [Message(f"{topic('m1')}/privacy", described(TERMS))], now_ms
    ).refusal_counts
    batch = judge.take_messages([message], now_ms)
    assert not batch.rows or not batch.refusal_counts
    return {reason: count for (_, reason), count in batch.refusal_counts.items()}


def on_topic(payload: bytes, meter: str = "m1") -> Message:
    """Return a message on a meter's topic."""
    return Message(topic(meter), payload)


REFUSED: dict[str, list[Callable[[], dict[str, int]]]] = {
    "unreadable": [
        lambda: refused(on_topic(b"\xff")),
        lambda: refused(on_topic(changed(RECORD, value=None))),
        lambda: refused(on_topic(changed(RECORD, d="x" * 8))),
        lambda: refused(on_topic(changed(RECORD, v=2))),
        lambda: refused(on_topic(b'{"v":1,"meter":"\\ud800"}')),
        lambda: refused(Message(f"{topic('m1')}/privacy", b"[]")),
    ],
    "too_large": [
        lambda: refused(on_topic(b" " * (PAYLOAD_MAX + 1))),
        lambda: refused(Message("", b"")),
    ],
    "topic": [
        lambda: refused(on_topic(RECORD, "m2")),
        lambda: refused(Message("other/m1", RECORD)),
        lambda: refused(Message(f"{topic('m2')}/privacy", described(TERMS, "m1"))),
    ],
    "descriptor": [
        lambda: refused(Message(f"{topic('m1')}/privacy", changed(described(SPLIT), level="2"))),
        lambda: refused(Message(f"{topic('m1')}/privacy", changed(described(TERMS), sd=1.0))),
        lambda: refused(
            Message(f"{topic('m1')}/privacy", changed(described(TERMS), is_sealed=True, n=10**9))
        ),
    ],
    "terms": [
        lambda: refused(on_topic(changed(RECORD, value=1.5))),
        lambda: refused(on_topic(changed(RECORD, unit="kW"))),
        lambda: refused(on_topic(RECORD.replace(b"PT30M", b"PT15M"))),
        lambda: refused(on_topic(changed(RECORD, band="night"))),
        lambda: refused(on_topic(changed(RECORD, sd=1))),
    ],
    "grid": [lambda: refused(on_topic(changed(RECORD, t="2026-11-20T12:10:00Z")))],
    "range": [lambda: refused(on_topic(changed(RECORD, value=10**13)))],
    "early": [lambda: refused(on_topic(RECORD), now_ms=NOON_MS - DAY_MS - 1)],
    "old": [lambda: refused(on_topic(RECORD), now_ms=NOON_MS + 400 * DAY_MS + 1)],
    "meter": [
        lambda: {
            reason: count
            for (_, reason), count in core(Limits(meters=frozenset({"m2"})))
            .take_messages([terms_message(TERMS), *record_messages(TERMS, [1])], NOW_MS)
            .refusal_counts.items()
        }
    ],
}
OF_THE_TABLE = {"descriptors", "meters", "rate", "twice", "overlap", "no_descriptor", "unstorable"}
"""Reasons with tests of their own."""


@pytest.mark.parametrize(("reason", "case"), [(r, case) for r, cases in REFUSED.items() for case in cases])
def test_each_refusal_has_its_reason(reason: str, case: Callable[[], dict[str, int]]) -> None:
    """A message that does not fit is counted under its reason, and is not a row."""
    assert set(case()) == {reason}


def test_every_reason_is_tried() -> None:
    """No reason is without a case."""
    assert set(REFUSED) | OF_THE_TABLE == set(REASONS)


def test_only_slots_of_a_meter_with_several_grids_can_overlap() -> None:
    """A meter with slots of one length is not mixed; one with slots of two lengths is, and no other meter."""
    judge = core()
    batch = judge.take_messages([terms_message(TERMS), *record_messages(TERMS, [1])], NOW_MS)
    dithered = replace(TERMS, level=Fraction(2), radius=Fraction(440))
    batch.add_batch(
        judge.take_messages([terms_message(dithered), *record_messages(dithered, [1], first=1)], NOW_MS)
    )
    batch.add_batch(
        judge.take_messages([terms_message(TERMS, "m2"), *record_messages(TERMS, [1], "m2")], NOW_MS)
    )
    assert not batch.mixed
    batch = judge.take_messages([terms_message(HOURLY), *record_messages(HOURLY, [1], first=30)], NOW_MS)
    batch.add_batch(judge.take_messages(record_messages(TERMS, [1], "m2", 1), NOW_MS))
    assert batch.mixed == {("main", "m1")}


def test_a_forged_id_stands_for_its_own_meter_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms with the id of others, announced first by another meter, refuse no record of an honest meter."""
    forged = terms_message(replace(TERMS, level=Fraction(2)), "m2")
    id_ = json.loads(forged.payload)["id"]
    monkeypatch.setattr(message, "digest_of", colliding(message.digest_of))
    monkeypatch.setattr(collect_core, "digest_of", message.digest_of)
    monkeypatch.setattr(Descriptor, "digest", property(lambda terms: message.digest_of(terms.facts)))
    forged = forged._replace(payload=forged.payload.replace(id_.encode(), D[:8].encode()))
    records = [Message(topic("m2"), record) for record in recorded(TERMS, [7], "m2")]
    judge = core()
    batch = judge.take_messages(
        [forged, terms_message(TERMS), *record_messages(TERMS, [5]), *records], NOW_MS
    )
    assert len(batch.descriptors) == 2
    assert [row.quanta for row in batch.rows] == [5]
    assert batch.refusal_counts == {("main", "terms"): 1}
    again = judge.take_messages([terms_message(TERMS, "m2")], NOW_MS)
    assert again.refusal_counts == {("main", "descriptor"): 1}
    with pytest.raises(RecordError, match="same id"):
        collect([forged.payload, described(TERMS, "m2")])
    meters = collect([forged.payload, described(TERMS), recorded(TERMS, [5])[0]])
    assert meters["m1"].values.tolist() == [5]
    with pytest.raises(RecordError, match="not among"):
        collect([forged.payload, described(TERMS), recorded(TERMS, [5], "m3")[0]])


def colliding(digest_of: Callable[..., str | None]) -> Callable[..., str | None]:
    """Return a hash whose first 8 digits are always those of TERMS, as a search of 2^32 finds them."""

    def hashed(*arguments: Any) -> str | None:
        whole = digest_of(*arguments)
        return whole and D[:8] + whole[8:]

    return hashed


def test_too_many_descriptors_of_a_meter_are_refused() -> None:
    """The number of descriptors is bounded for each meter, and another meter's are still accepted."""
    judge = core()
    many = [replace(TERMS, level=Fraction(1, n)) for n in range(1, DESCRIPTORS_MAX + 3)]
    batch = judge.take_messages([terms_message(terms) for terms in many], NOW_MS)
    assert len(batch.descriptors) == DESCRIPTORS_MAX
    assert batch.refusal_counts == {("main", "descriptors"): 2}
    assert not judge.take_messages([terms_message(many[-1], "m2")], NOW_MS).refusal_counts
