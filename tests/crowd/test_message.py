"""Messages: what is encoded is decoded, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.crowd import message
from meteragent.crowd.codec import MESSAGE_BYTES_MAX, Malformed
from meteragent.crowd.message import Answer, Batch, Chunk, Entry, KeyList, OtherGroup, Refusal, Report

GROUP = bytes(range(32))
LABELS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
SLOTS = st.integers(0, 2**64 - 1)
COUNTS = st.integers(1, 1 << 20)


def sign(body: bytes) -> bytes:
    """Return 64 bytes in the place of a signature."""
    return body[:64].ljust(64, b"-")


def exactly(size: int) -> st.SearchStrategy[bytes]:
    """Return a strategy of bytes of one length."""
    return st.binary(min_size=size, max_size=size)


ENTRIES = st.lists(
    st.builds(Entry, LABELS, exactly(8), exactly(56)), min_size=1, max_size=4, unique_by=lambda e: e.label
)
REPORTS = st.builds(Report, SLOTS, LABELS, exactly(8), exactly(8), exactly(56), exactly(56))
PLACES = st.lists(st.integers(0, 99), unique=True).map(lambda places: tuple(sorted(places)))
ANSWERS = st.builds(Answer, SLOTS, exactly(32), st.integers(100, 1 << 20), PLACES, exactly(8), exactly(56))
REFUSALS = st.builds(Refusal, SLOTS, exactly(32), st.sampled_from(sorted(message.REASONS.values())))
DAYS = st.lists(st.integers(0, 2**32 - 1), unique=True, max_size=9).map(sorted)
KEY_LISTS = st.builds(
    lambda role, serial, days: KeyList(role, serial, tuple((day, bytes(32)) for day in days)),
    st.sampled_from(["leader", "helper"]),
    SLOTS,
    DAYS,
)
CHUNKS = st.builds(
    lambda slot, digest, key, entries: Chunk(Batch(slot, digest, key, 9, 3), 2, tuple(sorted(entries))),
    SLOTS,
    exactly(32),
    exactly(32),
    ENTRIES,
)
SIGNED = st.one_of(ANSWERS, REFUSALS, KEY_LISTS, CHUNKS)


@given(REPORTS)
def test_a_report_is_decoded_as_it_was_encoded(report: Report) -> None:
    """A report's size is 171 bytes and its label."""
    data = report.encode(GROUP)
    assert len(data) == 171 + len(report.label)
    assert Report.decode(GROUP, data) == report


@given(SIGNED)
def test_a_signed_message_is_decoded_as_it_was_encoded(sent: Answer | Refusal | KeyList | Chunk) -> None:
    """The signature is over all bytes before it."""
    data = sent.encode(GROUP, sign)
    decoded = type(sent).decode(GROUP, data)
    assert decoded == (sent, data[:-64], sign(data[:-64]))


@given(SIGNED | REPORTS, st.data())
def test_a_message_that_is_cut_or_goes_on_is_malformed(
    sent: Answer | Refusal | KeyList | Chunk | Report, data: st.DataObject
) -> None:
    """Every length but one is refused."""
    encoded = sent.encode(GROUP) if isinstance(sent, Report) else sent.encode(GROUP, sign)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    for wrong in (encoded[:cut], encoded + b"\0"):
        with pytest.raises(Malformed):
            type(sent).decode(GROUP, wrong)


@given(st.binary(max_size=400), st.sampled_from([Report, Answer, Refusal, KeyList, Chunk]), st.integers(1, 5))
def test_any_bytes_are_decoded_or_malformed(
    data: bytes, kind: type[Report | Answer | Refusal | KeyList | Chunk], type_: int
) -> None:
    """No bytes raise another error."""
    for wrong in (data, bytes([1, type_]) + GROUP + data):
        try:
            kind.decode(GROUP, wrong)
        except Malformed:
            continue


@given(REPORTS)
def test_a_message_of_another_group_version_or_type_is_refused(report: Report) -> None:
    """The group's id tells groups apart, and the type tells messages apart."""
    data = report.encode(GROUP)
    with pytest.raises(OtherGroup):
        Report.decode(bytes(32), data)
    for head in (b"\2\1", b"\1\2"):
        with pytest.raises(Malformed):
            Report.decode(GROUP, head + data[2:])


def test_what_is_out_of_order_is_malformed() -> None:
    """Entries, rejected places and days ascend strictly, and counts agree."""
    first, second = Entry("a", bytes(8), bytes(56)), Entry("b", bytes(8), bytes(56))
    batch = Batch(0, bytes(32), bytes(32), 2, 1)
    wrong: list[Answer | KeyList | Chunk] = [
        Chunk(batch, 0, (second, first)),
        Chunk(batch, 0, (first, first)),
        Chunk(batch, 1, (first,)),
        Chunk(batch._replace(homes=0), 0, (first,)),
        Chunk(batch._replace(homes=1), 0, (first, second)),
        Chunk(batch._replace(chunks=65), 0, (first,)),
        Answer(0, bytes(32), 3, (1, 1), bytes(8), bytes(56)),
        Answer(0, bytes(32), 3, (3,), bytes(8), bytes(56)),
        Answer(0, bytes(32), 1, (0, 1), bytes(8), bytes(56)),
        Answer(0, bytes(32), 1 << 20, tuple(range(message.REJECTED_MAX + 1)), bytes(8), bytes(56)),
        KeyList("leader", 0, ((2, bytes(32)), (1, bytes(32)))),
    ]
    for sent in wrong:
        with pytest.raises(Malformed):
            type(sent).decode(GROUP, sent.encode(GROUP, sign))


def test_a_list_has_at_most_64_keys() -> None:
    """A longer one is malformed."""
    keys = tuple((day, bytes(32)) for day in range(65))
    longest = KeyList("leader", 0, keys[:64])
    assert KeyList.decode(GROUP, longest.encode(GROUP, sign)).message == longest
    with pytest.raises(Malformed, match="counts"):
        KeyList.decode(GROUP, longest._replace(keys=keys).encode(GROUP, sign))


@pytest.mark.parametrize("role", [0, 3])
def test_a_list_is_of_the_leader_or_the_helper(role: int) -> None:
    """No other number is a role."""
    data = KeyList("leader", 0, ()).encode(GROUP, sign)
    with pytest.raises(Malformed, match="counts"):
        KeyList.decode(GROUP, data[:34] + bytes([role]) + data[35:])


@pytest.mark.parametrize("label", ["", "a/b", "+", "ä", "-a", "a" * 65])
def test_a_label_that_is_no_name_is_malformed(label: str) -> None:
    """A label never reaches into a topic."""
    data = Report(0, "x", bytes(8), bytes(8), bytes(56), bytes(56)).encode(GROUP)
    encoded = label.encode("latin-1")
    with pytest.raises(Malformed):
        Report.decode(GROUP, data[:42] + bytes([len(encoded)]) + encoded + data[44:])


def test_a_long_request_is_divided_into_messages_of_4_mib() -> None:
    """Chunks keep the order, together hold every entry once, and leave room for a topic of 1 KiB."""
    entries = [Entry(f"{place:064}", bytes(8), bytes(56)) for place in range(40_000)]
    chunks = message.split_entries(entries)
    assert [entry for chunk in chunks for entry in chunk] == entries
    batch = Batch(0, bytes(32), bytes(32), len(entries), len(chunks))
    sizes = [len(Chunk(batch, place, chunk).encode(GROUP, sign)) for place, chunk in enumerate(chunks)]
    assert len(sizes) == 2
    assert max(sizes) <= MESSAGE_BYTES_MAX - 1024 < max(sizes) + 129
    with pytest.raises(Malformed, match="4 MiB"):
        Report.decode(GROUP, bytes(MESSAGE_BYTES_MAX + 1))


def test_the_longest_answer_fits_into_a_packet() -> None:
    """A batch of 2^20 homes with the most rejected places leaves room for the topic."""
    places = tuple(range(message.REJECTED_MAX))
    longest = Answer(0, bytes(32), 1 << 20, places, bytes(8), bytes(56))
    assert len(longest.encode(GROUP, sign)) < MESSAGE_BYTES_MAX - 1024


def test_digests_tell_batches_apart() -> None:
    """Group, slot, order, labels, keys and pads all count."""
    entries = [Entry("a", bytes(8), bytes(56)), Entry("b", bytes(8), bytes(56))]
    other_key, other_pad = entries[0]._replace(key_id=b"k" * 8), entries[0]._replace(pad=b"p" * 56)
    digests = {
        message.batch_digest(GROUP, 0, entries),
        message.batch_digest(bytes(32), 0, entries),
        message.batch_digest(GROUP, 1, entries),
        message.batch_digest(GROUP, 0, entries[::-1]),
        message.batch_digest(GROUP, 0, entries[:1]),
        message.batch_digest(GROUP, 0, [other_key, entries[1]]),
        message.batch_digest(GROUP, 0, [other_pad, entries[1]]),
        message.reports_digest(GROUP, 0, [b"a", b"b"]),
        message.reports_digest(GROUP, 0, [b"b", b"a"]),
    }
    assert len(digests) == 9
