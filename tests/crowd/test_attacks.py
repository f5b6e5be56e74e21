"""What a lying operator, home or broker tries; and mistakes with which it would succeed.

Each attack returns what it gained, None for nothing. It is run against the operators as they are, and against
operators with one mistake, which the same attack must find.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from meteragent.crowd import draw, helper, leader, message, seal
from meteragent.crowd.machine import Outgoing, RowKey
from meteragent.crowd.message import Batch, Chunk, Entry, Report
from meteragent.crowd.seal import DayKeys, Identity
from meteragent.crowd.share import to_signed_64
from tests.support.crowd import (
    HELPER,
    LEADER,
    SLOT_S,
    Street,
    apply,
    make_group,
    secret,
)
from tests.support.crowd_attacks import SECRET_QUANTA, Mutant, attacked, chunks, entries_of, request


def totals(world: Street, requests: list[list[bytes]]) -> list[int]:
    """Return the helper's totals that a lying leader can open, over many requests."""
    opened = []
    keys = world.leader.keys_of_slot(SLOT_S)
    assert keys is not None
    for sent in requests:
        for payload in world.answer(sent):
            if message.message_type(payload) != message.ANSWER:
                continue
            answer = message.Answer.decode(world.group.id, payload).message
            asked = [entry for chunk in sent for entry in Chunk.decode(world.group.id, chunk).message.entries]
            counted = [entry for place, entry in enumerate(asked) if place not in answer.rejected]
            digest = message.batch_digest(world.group.id, SLOT_S, counted)
            total = keys.unseal_number(
                answer.total, seal.seal_info(seal.TOTAL, world.group.id, SLOT_S, keys.id, digest)
            )
            if total is not None:
                opened.append(total)
    return opened


def share_of(world: Street, label: str) -> int:
    """Return the share that the leader opens."""
    keys = world.leader.keys_of_slot(SLOT_S)
    assert keys is not None
    report = Report.decode(world.group.id, world.leader_rows[RowKey("report", SLOT_S, label)])
    share = world.leader._open_share(keys, report)
    assert share is not None
    return share


def two_sets_that_differ_by_one_home() -> object:
    """Ask for all, then for all but the victim; the difference is its pad, so its energy."""
    world = attacked()
    entries = entries_of(world)
    without = [entry for entry in entries if entry.label != "victim"]
    opened = totals(world, [request(world, entries), request(world, without)])
    if len(opened) < 2:
        return None
    return to_signed_64((share_of(world, "victim") + opened[0] - opened[1]) % 2**64)


def two_answers() -> object:
    """Ask again and again; averages of different answers converge to the sum."""
    world = attacked()
    asked = request(world, entries_of(world))
    before = dict(world.helper_rows)
    opened = []
    for _ in range(3):  # the helper is restored to before its answer, which its store's check prevents
        opened += totals(world, [asked])
        world.helper_rows = dict(before)
        world.restart()
    return None if len(set(opened)) == 1 else opened


def a_restored_leader() -> object:
    """Restore the leader to before its total: the same batch must have the same total."""
    world = attacked()
    answers = world.answer(world.ask())
    before = dict(world.leader_rows)
    published = set()
    for _ in range(3):
        published.update(world.finish(answers))
        world.leader_rows = dict(before)
        world.restart()
    return None if len(published) == 1 else published


def a_request_by_another() -> object:
    """Sign a request with another key."""
    world = attacked()
    return totals(world, [request(world, entries_of(world), Identity(secret("thief")))]) or None


def a_pad_counted_twice() -> object:
    """Ask for the victim's pad under a second label, so that it counts twice."""
    world = attacked()
    entries = entries_of(world)
    victim = entries[-1]
    opened = totals(world, [request(world, sorted([*entries, victim._replace(label="other")]))])
    pads = [pad_of(world, entry) for entry in entries]
    # With a mistake the victim's pad counts twice: larger noise would be needed to hide it.
    return None if abs(to_signed_64((opened[0] - sum(pads)) % 2**64)) < 2**40 else opened


def a_home_in_two_chunks() -> object:
    """Repeat the victim's entry in a second chunk: within each chunk, labels ascend.

    The gain is twice the victim's energy with one draw.
    """
    world = attacked()
    entries = entries_of(world)
    opened = totals(world, [chunks(world, [entries, entries[-1:]])])
    others = sum(pad_of(world, entry) for entry in entries[:-1])
    return to_signed_64((opened[0] + 2 * share_of(world, "victim") - others) % 2**64) if opened else None


def pad_of(world: Street, entry: Entry) -> int:
    """Return a pad as the helper opens it."""
    keys = world.helper.keys_of_slot(SLOT_S)
    assert keys is not None
    pad = world.helper._open_pad(keys, SLOT_S, entry)
    assert pad is not None
    return pad


def a_pad_of_another_slot() -> object:
    """Ask in the next slot for the pads of this one, which would be a second answer about them."""
    world = attacked()
    entries, later_s = entries_of(world), SLOT_S + 1800
    keys = world.leader.keys_of_slot(later_s)
    assert keys is not None
    digest = message.batch_digest(world.group.id, later_s, entries)
    batch = Batch(later_s, digest, keys.public, len(entries), 1)
    chunk = Chunk(batch, 0, tuple(entries)).encode(world.group.id, LEADER.sign)
    sent = world.answer([chunk], later_s)
    return [payload for payload in sent if message.message_type(payload) == message.ANSWER] or None


def a_false_list() -> object:
    """Ask for a list that is not that of the digest, to have one answer for a batch that was never agreed."""
    world = attacked()
    digest = message.batch_digest(world.group.id, SLOT_S, entries_of(world))
    return totals(world, [request(world, entries_of(world)[:3], digest=digest)]) or None


def a_forged_answer() -> object:
    """Answer in the helper's place with a total of one's own."""
    world = attacked()
    world.ask()
    keys = world.leader.keys_of_slot(SLOT_S)
    batch, entries = world.leader._batch(SLOT_S)
    assert keys is not None
    assert batch is not None
    digest = message.batch_digest(world.group.id, SLOT_S, entries)
    total = seal.seal_number(
        0, keys.public, seal.seal_info(seal.TOTAL, world.group.id, SLOT_S, keys.id, digest)
    )
    answer = message.Answer(SLOT_S, batch.digest, batch.homes, (), keys.id, total)
    effects = world.leader.take_answer(
        answer.encode(world.group.id, Identity(secret("thief")).sign), world.deadline_s()
    )
    return None if effects.refusals == ["bad_signature"] else effects


def rejecting_all_but_one() -> object:
    """Reject every home but the victim: a lying helper gets a total of one."""
    world = attacked()
    world.ask()
    keys = world.leader.keys_of_slot(SLOT_S)
    batch, entries = world.leader._batch(SLOT_S)
    assert keys is not None
    assert batch is not None
    digest = message.batch_digest(world.group.id, SLOT_S, entries[-1:])
    total = seal.seal_number(
        0, keys.public, seal.seal_info(seal.TOTAL, world.group.id, SLOT_S, keys.id, digest)
    )
    answer = message.Answer(SLOT_S, batch.digest, batch.homes, (0, 1, 2), keys.id, total)
    return world.finish([answer.encode(world.group.id, HELPER.sign)]) or None


def a_second_record() -> object:
    """Send a second report in the victim's name."""
    world = attacked()
    payload = world.report("victim", 0)
    effects = world.leader.take_report("victim", payload, world.group.end_s(SLOT_S))
    apply(world.leader_rows, effects.rows)
    return effects.rows or None


ATTACKS = [
    two_sets_that_differ_by_one_home,
    two_answers,
    a_restored_leader,
    a_request_by_another,
    a_pad_counted_twice,
    a_home_in_two_chunks,
    a_pad_of_another_slot,
    a_false_list,
    a_forged_answer,
    rejecting_all_but_one,
    a_second_record,
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_gains_nothing(attack: Callable[[], object]) -> None:
    """Forged sets, replays, second requests and second records are refused."""
    assert attack() is None


def forgetful_helper(patch: pytest.MonkeyPatch) -> None:
    """Forget what was fixed and answered."""

    def forget(self: helper.Helper, payload: bytes, now_s: int) -> object:
        for table in ("batch", "chunk", "answer"):
            self._tables[table].clear()
        return take(self, payload, now_s)

    take = helper.Helper.take_request
    patch.setattr(helper.Helper, "take_request", forget)


def noise_of_the_slot_only(patch: pytest.MonkeyPatch) -> None:
    """Bind the draw to the slot and not to the batch, and forget."""
    real = draw.draw_noise
    for module in (helper, leader):
        patch.setattr(
            module, "draw_noise", lambda key, group, slot, _digest, loss: real(key, group, slot, b"", loss)
        )
    forgetful_helper(patch)


def fresh_noise(patch: pytest.MonkeyPatch) -> None:
    """Draw anew for each answer."""
    counter = iter(range(1000))
    real = draw.draw_noise
    for module in (helper, leader):
        patch.setattr(
            module,
            "draw_noise",
            lambda key, group, slot, digest, loss: real(
                key, group, slot, digest + bytes([next(counter)]), loss
            ),
        )


def unchecked_signatures(patch: pytest.MonkeyPatch) -> None:
    """Accept every signature."""
    for module in (helper, leader):
        patch.setattr(module, "is_signed", lambda *_: True)


def info_without_place(patch: pytest.MonkeyPatch) -> None:
    """Seal without label and slot."""
    for module in (helper, leader, seal):
        patch.setattr(module, "seal_info", lambda *_: b"meteragent crowd 1")
    patch.setattr("meteragent.crowd.home.seal_info", lambda *_: b"meteragent crowd 1")


def unchecked_digest(patch: pytest.MonkeyPatch) -> None:
    """Believe the digest that the request states."""

    def answer(self: helper.Helper, effects: object, batch: Batch) -> None:
        payloads = [value for _, value in sorted(self._names("chunk", batch.slot_s).items())]
        entries = [e for payload in payloads for e in Chunk.decode(self.group.id, payload).message.entries]
        keys = self.keys_of_slot(batch.slot_s)
        assert keys is not None
        payload = self._total_pads(effects, batch, entries, keys)  # type: ignore[arg-type]
        effects.messages.append(Outgoing("answer", payload))  # type: ignore[attr-defined]

    patch.setattr(helper.Helper, "_answer_request", answer)


def unordered_batch(patch: pytest.MonkeyPatch) -> None:
    """Check the number and the digest of all chunks, but not the order of their labels."""

    def is_announced(group_id: bytes, batch: Batch, entries: list[Entry]) -> bool:
        digest = message.batch_digest(group_id, batch.slot_s, entries)
        return len(entries) == batch.homes and digest == batch.digest

    patch.setattr(helper, "is_announced", is_announced)


def no_smallest_crowd_after_rejection(patch: pytest.MonkeyPatch) -> None:
    """Count whatever the helper left."""
    real = leader.Leader._count_answer

    def count(self: leader.Leader, effects: object, answer: object, counted: list[Entry]) -> None:
        group = self.group
        self.group = replace(group, smallest_crowd=1)
        self.group.__dict__["id"] = group.id
        real(self, effects, answer, counted)  # type: ignore[arg-type]
        self.group = group

    patch.setattr(leader.Leader, "_count_answer", count)
    patch.setattr("meteragent.crowd.total.TotalFormat.is_plausible", lambda *_: True)


def last_report_counts(patch: pytest.MonkeyPatch) -> None:
    """Let the last report of a label count."""
    patch.setattr(leader.Leader, "_refusal_of", lambda *_: None)


MUTANTS = [
    Mutant(forgetful_helper, two_sets_that_differ_by_one_home),
    Mutant(noise_of_the_slot_only, two_sets_that_differ_by_one_home),
    Mutant(fresh_noise, two_answers),
    Mutant(fresh_noise, a_restored_leader),
    Mutant(unchecked_signatures, a_request_by_another),
    Mutant(unchecked_signatures, a_forged_answer),
    Mutant(info_without_place, a_pad_counted_twice),
    Mutant(info_without_place, a_pad_of_another_slot),
    Mutant(unordered_batch, a_home_in_two_chunks),
    Mutant(unchecked_digest, a_false_list),
    Mutant(no_smallest_crowd_after_rejection, rejecting_all_but_one),
    Mutant(last_report_counts, a_second_record),
]


@pytest.mark.parametrize(
    "mutant", MUTANTS, ids=lambda mutant: f"{mutant.patch.__name__}-{mutant.attack.__name__}"
)
def test_a_mistake_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack succeeds against an operator with the mistake."""
    mutant.patch(monkeypatch)
    assert mutant.attack() is not None


def test_noise_of_the_slot_only_bares_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a draw that is not bound to the batch, two sets give the energy exactly."""
    noise_of_the_slot_only(monkeypatch)
    assert two_sets_that_differ_by_one_home() == SECRET_QUANTA


def test_a_home_in_two_chunks_counts_twice_without_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the leader gets is 2m + z: the noise for m hides only half of it."""
    unordered_batch(monkeypatch)
    assert a_home_in_two_chunks() == pytest.approx(2 * SECRET_QUANTA, abs=2000)


def test_another_noise_parameter_opens_nothing() -> None:
    """A group file with less noise has another id, under which no pad and no share opens."""
    world = attacked()
    other = make_group(level="16")
    keys = DayKeys(world.leader_rows[RowKey("secret", SLOT_S // 86_400)], "leader", world.group.id)
    report = Report.decode(world.group.id, world.leader_rows[RowKey("report", SLOT_S, "victim")])
    right = seal.seal_info(seal.SHARE, world.group.id, SLOT_S, keys.id, b"victim")
    wrong = seal.seal_info(seal.SHARE, other.id, SLOT_S, keys.id, b"victim")
    assert keys.unseal_number(report.share, right) is not None
    assert keys.unseal_number(report.share, wrong) is None


def test_a_dishonest_key_is_answered_with_a_refusal() -> None:
    """A leader that names a point of small order ends its slot, not the helper."""
    world = attacked()
    entries = entries_of(world)
    digest = message.batch_digest(world.group.id, SLOT_S, entries)
    batch = Batch(SLOT_S, digest, bytes(32), len(entries), 1)
    effects = world.helper.take_request(
        Chunk(batch, 0, tuple(entries)).encode(world.group.id, LEADER.sign), world.deadline_s()
    )
    assert effects.refusals == ["malformed"]
