"""What a lying operator or a thief tries with lists of keys, clocks and times; and mistakes that let it.

As in test_attacks: each attack returns what it gained, and finds the mistake that it exploits.
"""

from collections.abc import Callable

import pytest

from meteragent.crowd import helper, home, machine, message, seal
from meteragent.crowd.codec import Malformed
from meteragent.crowd.group import Group
from meteragent.crowd.machine import RowKey
from meteragent.crowd.message import Batch, Chunk, KeyList, Report
from meteragent.crowd.seal import DayKeys
from meteragent.crowd.share import to_signed_64
from tests.support.crowd import HELPER, LATTICE, LEADER, SLOT_S, Street, fixed_entropy, secret
from tests.support.crowd_attacks import SECRET_QUANTA, Mutant, attacked, entries_of, request


def energy_opened(world: Street, keys: home.SlotKeys, thief: DayKeys) -> int | None:
    """Return the victim's energy if a leader that also has a thief's key can open pad and share."""
    slot = home.open_slot(world.group, "victim", SLOT_S, LATTICE, keys, world.bits)
    payload = home.close_slot(world.group.id, "victim", slot.with_energy(SECRET_QUANTA * LATTICE))
    report = Report.decode(world.group.id, payload)
    leader_keys = world.leader.keys_of_slot(SLOT_S)
    assert leader_keys is not None
    share = world.leader._open_share(leader_keys, report)
    pad = thief.unseal_number(
        report.pad, seal.seal_info(seal.PAD, world.group.id, SLOT_S, thief.id, b"victim")
    )
    return None if share is None or pad is None else to_signed_64((share + pad) % 2**64)


def the_leader_s_list_in_the_helper_s_place() -> object:
    """Retain a second list of the leader on the helper's topic: pads would be sealed to it too."""
    world = attacked()
    thief = DayKeys(secret("second"), "leader", world.group.id)
    payload = KeyList("leader", SLOT_S, ((SLOT_S // 86_400, thief.public),)).encode(
        world.group.id, LEADER.sign
    )
    try:
        helper_list = home.decode_key_list(world.group, "helper", payload, 0)
    except Malformed:
        return None
    keys = home.slot_keys(world.lists["leader"], helper_list, SLOT_S)
    return None if keys is None else energy_opened(world, keys, thief)


def one_key_for_both() -> object:
    """List the leader's key as the helper's: one operator could then open both parts."""
    world = attacked()
    leader_keys = world.leader.keys_of_slot(SLOT_S)
    assert leader_keys is not None
    keys = home.slot_keys(world.lists["leader"], world.lists["leader"]._replace(role="helper"), SLOT_S)
    return None if keys is None else energy_opened(world, keys, leader_keys)


def a_key_of_small_order() -> object:
    """List a key to which nothing can be sealed: homes would fail at each slot."""
    world = attacked()
    payload = KeyList("helper", SLOT_S, ((SLOT_S // 86_400, bytes(32)),)).encode(world.group.id, HELPER.sign)
    keys = home.slot_keys(
        world.lists["leader"], home.decode_key_list(world.group, "helper", payload, 0), SLOT_S
    )
    try:
        return keys and home.open_slot(world.group, "victim", SLOT_S, LATTICE, keys, world.bits)
    except ValueError as error:
        return error


def a_list_from_before() -> object:
    """Retain a list that the helper signed before it lost its store, to a day secret that was stolen."""
    world = attacked()
    thief = DayKeys(secret("lost"), "helper", world.group.id)
    newest = world.lists["helper"].serial
    payload = KeyList("helper", newest - 1, ((SLOT_S // 86_400, thief.public),))
    try:
        helper_list = home.decode_key_list(
            world.group, "helper", payload.encode(world.group.id, HELPER.sign), newest
        )
    except Malformed:
        return None
    keys = home.slot_keys(world.lists["leader"], helper_list, SLOT_S)
    return None if keys is None else energy_opened(world, keys, thief)


def the_time_of_an_answer() -> object:
    """Let a request arrive so that its work ends near the instant of sending, which shows its duration."""
    world = attacked()
    [chunk] = world.ask()
    for arrival_s in range(world.deadline_s(), world.deadline_s() + 60):
        world.helper = helper.Helper(world.group, HELPER, world.helper_rows)
        [sent] = world.helper.take_request(chunk, arrival_s).messages
        if sent.due_s - arrival_s < 60 or sent.due_s % 60:
            return sent.due_s - arrival_s
    [total] = world.leader.take_answer(sent.payload, arrival_s).messages
    return None if total.due_s - arrival_s >= 60 and total.due_s % 60 == 0 else total.due_s - arrival_s


def a_clock_that_goes_and_comes_back() -> object:
    """Set the clock 30 days on, until the day is destroyed, and back: the day must not begin again."""
    world = attacked()
    day = SLOT_S // 86_400
    before = world.helper_rows[RowKey("secret", day)]
    for now_s in (SLOT_S + 30 * 86_400, SLOT_S):
        world.commit(world.helper, world.helper.renew_keys(now_s, fixed_entropy(str(now_s))))
        world.restart()
    assert world.helper_rows.get(RowKey("secret", day)) != before
    return world.helper_rows.get(RowKey("secret", day))


def a_refusal_and_an_answer() -> object:
    """Have a final refusal and then the answer for one batch, of which there must be one in all."""
    world = attacked()
    entries = entries_of(world)
    keys = world.leader.keys_of_slot(SLOT_S)
    assert keys is not None
    digest = message.batch_digest(world.group.id, SLOT_S, entries)
    few = Chunk(Batch(SLOT_S, digest, keys.public, 2, 1), 0, tuple(entries[:2]))
    payloads = [
        *world.answer([few.encode(world.group.id, LEADER.sign)]),
        *world.answer(request(world, entries)),
    ]
    return payloads if len(payloads) > 1 else None


ATTACKS = [
    the_leader_s_list_in_the_helper_s_place,
    one_key_for_both,
    a_key_of_small_order,
    a_list_from_before,
    the_time_of_an_answer,
    a_clock_that_goes_and_comes_back,
    a_refusal_and_an_answer,
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_gains_nothing(attack: Callable[[], object]) -> None:
    """False, old and equal keys are refused, and times and clocks show and reopen nothing."""
    assert attack() is None


def role_of_the_message(patch: pytest.MonkeyPatch) -> None:
    """Believe the role in a list of keys, whatever topic it came from."""
    real = home.decode_key_list

    def keys_of(group: Group, _role: str, payload: bytes, serial_min: int) -> KeyList:
        return real(group, KeyList.decode(group.id, payload).message.role, payload, serial_min)

    patch.setattr(home, "decode_key_list", keys_of)


def equal_keys(patch: pytest.MonkeyPatch) -> None:
    """Accept one key for both operators."""
    day = SLOT_S // 86_400
    patch.setattr(
        home,
        "slot_keys",
        lambda leader, helper, _: home.SlotKeys(dict(leader.keys)[day], dict(helper.keys)[day]),
    )


def untried_keys(patch: pytest.MonkeyPatch) -> None:
    """Take listed keys without sealing to them."""
    patch.setattr(home, "is_usable", lambda _: True)


def unchecked_serial(patch: pytest.MonkeyPatch) -> None:
    """Accept any list that an operator has ever signed."""
    real = home.decode_key_list
    patch.setattr(home, "decode_key_list", lambda group, role, payload, _: real(group, role, payload, 0))


def sent_at_the_next_second(patch: pytest.MonkeyPatch) -> None:
    """Send at the next whole second, which a requester can place into the middle of the work."""
    patch.setattr(machine, "response_due_s", lambda now_s, _: now_s + 1)


def forgotten_destruction(patch: pytest.MonkeyPatch) -> None:
    """Make a secret for each day that has none."""
    real = machine.Machine._mark_value
    patch.setattr(
        machine.Machine, "_mark_value", lambda self, name: -1 if name == "destroyed" else real(self, name)
    )


def final_refusal_of_few(patch: pytest.MonkeyPatch) -> None:
    """Refuse a request of too few for good, but answer the next one."""
    patch.setattr(helper, "_UNANSWERED", ())


MUTANTS = [
    Mutant(role_of_the_message, the_leader_s_list_in_the_helper_s_place),
    Mutant(equal_keys, one_key_for_both),
    Mutant(unchecked_serial, a_list_from_before),
    Mutant(untried_keys, a_key_of_small_order),
    Mutant(sent_at_the_next_second, the_time_of_an_answer),
    Mutant(forgotten_destruction, a_clock_that_goes_and_comes_back),
    Mutant(final_refusal_of_few, a_refusal_and_an_answer),
]


@pytest.mark.parametrize(
    "mutant", MUTANTS, ids=lambda mutant: f"{mutant.patch.__name__}-{mutant.attack.__name__}"
)
def test_a_mistake_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack succeeds against an operator with the mistake."""
    mutant.patch(monkeypatch)
    assert mutant.attack() is not None


@pytest.mark.parametrize("mutant", MUTANTS[:3], ids=lambda mutant: mutant.patch.__name__)
def test_a_key_in_the_wrong_place_bares_a_home(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has both keys of a home has its energy exactly."""
    mutant.patch(monkeypatch)
    assert mutant.attack() == SECRET_QUANTA
