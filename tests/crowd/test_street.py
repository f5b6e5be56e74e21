"""A street over several slots: absences, late homes, wrong keys, second reports, lost messages, kills."""

import json
import random

import pytest

from tests.support.crowd import SLOT_S, Street, make_group

HOMES, SLOTS = 60, 6


@pytest.mark.parametrize("seed", range(5))
def test_every_total_is_that_of_the_homes_that_were_there(seed: int) -> None:
    """Both operators restart from their rows after each message; each slot has its exact total, once."""
    chance = random.Random(seed)
    world = Street(make_group(hide_wh="0.5", level="16"))
    wrong = Street(world.group, seed="wrong")
    for slot_s in range(SLOT_S, SLOT_S + SLOTS * 1800, 1800):
        expected: list[int] = []
        for number in range(HOMES):
            label, quanta, fate = f"h{number:03}", chance.randrange(-500, 2000), chance.random()
            now_s = world.group.end_s(slot_s) + chance.randrange(1200)
            payload = world.report(label, quanta, slot_s)
            if fate < 0.1:  # absent
                continue
            if fate < 0.15:  # late
                world.leader.take_report(label, payload, world.deadline_s(slot_s))
                continue
            if fate < 0.2:  # a pad and a share of keys that are not the operators'
                world.leader.take_report(label, wrong.report(label, quanta, slot_s), now_s)
                continue
            for sent in (payload, payload, world.report(label, 7, slot_s)):  # only the first counts
                world.commit(world.leader, world.leader.take_report(label, sent, now_s))
                if chance.random() < 0.2:
                    world.restart()
            expected.append(quanta)
        totals: list[bytes] = []
        world.ask(slot_s)
        for _ in range(4):  # requests and answers are lost and repeated; either operator may restart
            request = [sent.payload for sent in world.leader.unanswered_requests(SLOT_S)]
            answers = [] if chance.random() < 0.3 else world.answer(request, slot_s)
            world.restart()
            totals += [] if chance.random() < 0.3 else world.finish(answers)
            world.restart()
        totals += world.finish(
            world.answer([sent.payload for sent in world.leader.unanswered_requests(SLOT_S)], slot_s)
        )
        [record] = totals
        assert json.loads(record)["homes"] == len(expected)
        assert json.loads(record)["value"] * 2 == sum(expected)
