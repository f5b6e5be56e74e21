"""The law of totals: exactly two draws, and exactly one for whoever knows the other.

Whole protocol runs of SLOTS slots at a = 1, with known energies, so that what remains is noise. A right
program fails one of the p values with a chance of 5 x ALARM. With FEWER slots the noncentrality of the
chi-square statistic is at least 140 for a missing draw, a reused one, one of another scale and the mean of
fresh ones after restores, so each is found except with a chance below 10^-6.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import count

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from meteragent.crowd import helper, leader, message, seal
from meteragent.crowd import share as shares
from meteragent.crowd.draw import draw_noise
from meteragent.crowd.helper import Helper
from meteragent.crowd.machine import RowKey
from meteragent.crowd.message import Answer
from meteragent.privacy.bits import SeededBits
from meteragent.privacy.sampling import below
from tests.support.crowd import HELPER, LATTICE, SLOT_S, Street, make_group

SLOTS, FEWER = 1440, 720
ALARM = 1e-7
A = 1.0
LABELS = ("a", "b")
QUANTA = {"a": 40, "b": -7}
ANSWERS = 4
"""How many answers to one request a restored helper gives."""
REACH = 6
"""Values from here on are one class."""

Ints = NDArray[np.int64]


def one(k: Ints) -> NDArray[np.float64]:
    """P(z = k) of one draw."""
    return np.asarray(np.tanh(A / 2) * np.exp(-A * np.abs(k)))


def two(k: Ints) -> NDArray[np.float64]:
    """P(z + z' = k): the convolution of two such laws, in closed form."""
    size = np.abs(k)
    return np.asarray(np.tanh(A / 2) ** 2 * np.exp(-A * size) * (size + 1 / np.tanh(A)))


def p_value(values: list[int], law: Callable[[Ints], NDArray[np.float64]]) -> float:
    """Return the p value of a chi-square test in 2 REACH + 1 classes."""
    points = np.arange(-REACH + 1, REACH)
    counts = Counter(max(-REACH, min(REACH, value)) for value in values)
    inside = law(points)
    expected = np.concatenate([[(1 - inside.sum()) / 2], inside, [(1 - inside.sum()) / 2]]) * len(values)
    observed = [counts[k] for k in range(-REACH, REACH + 1)]
    return float(stats.chisquare(observed, expected).pvalue)


def helper_noise(world: Street, asked: list[bytes], answer: bytes) -> int:
    """Return what the leader sees with all other homes: the helper's total less all pads."""
    group_id = world.group.id
    chunk = message.Chunk.decode(group_id, asked[0]).message
    slot_s, digest = chunk.batch.slot_s, message.batch_digest(group_id, chunk.batch.slot_s, chunk.entries)
    keys, other = world.leader.keys_of_slot(slot_s), world.helper.keys_of_slot(slot_s)
    assert keys is not None
    assert other is not None
    sealed = Answer.decode(group_id, answer).message.total
    total = keys.unseal_number(sealed, seal.seal_info(seal.TOTAL, group_id, slot_s, keys.id, digest))
    assert total is not None
    pads = [world.helper._open_pad(other, slot_s, entry) or 0 for entry in chunk.entries]
    return shares.to_signed_64((total - sum(pads)) % shares.MODULUS)


def requests(slots: int) -> Iterator[tuple[Street, list[bytes], int]]:
    """Yield a street with the leader's request of each slot, and the slot."""
    world = Street(make_group(hide_wh="0.5", slot_s="60", smallest_crowd="2"))
    first_s = SLOT_S - SLOT_S % 86_400
    world.prepare(first_s)
    for slot_s in range(first_s, first_s + 60 * slots, 60):
        world.deliver({label: world.report(label, QUANTA[label], slot_s) for label in LABELS}, slot_s)
        yield world, world.ask(slot_s), slot_s


def noises(slots: int) -> dict[str, list[int]]:
    """Run the protocol; return what remains in totals, and for each operator with all other homes."""
    remaining: dict[str, list[int]] = {"total": [], "leader": [], "helper": []}
    for world, asked, slot_s in requests(slots):
        group, answers = world.group, world.answer(asked, slot_s)
        remaining["leader"].append(helper_noise(world, asked, answers[0]))
        [record] = world.finish(answers)
        noise = round(float(json.loads(record)["value"]) * 2) - sum(QUANTA.values())
        remaining["total"].append(noise)
        other = world.helper.keys_of_slot(slot_s)
        assert other is not None
        digest = message.Chunk.decode(group.id, asked[0]).message.batch.digest
        remaining["helper"].append(
            noise - draw_noise(other.noise, group.id, slot_s, digest, group.loss_per_quantum)
        )
    return remaining


def restored(slots: int) -> list[int]:
    """Return the mean noise of the answers of a helper that is restored after each but the last."""
    means, before = [], dict[RowKey, bytes]()
    for world, asked, slot_s in requests(slots):
        before = before or dict(world.helper_rows)
        values = []
        for _ in range(ANSWERS):
            world.helper = Helper(world.group, HELPER, before)
            values.append(helper_noise(world, asked, world.answer(asked, slot_s)[0]))
        means.append(round(sum(values) / ANSWERS))
    return means


@cache
def right() -> dict[str, list[int]]:
    """The noise of the operators as they are."""
    return noises(SLOTS)


def test_a_total_has_the_noise_of_two() -> None:
    """The noise of totals is the sum of two discrete Laplace draws."""
    assert p_value(right()["total"], two) > ALARM


@pytest.mark.parametrize("operator", ["leader", "helper"])
def test_an_operator_with_all_other_homes_sees_one_draw(operator: str) -> None:
    """What it cannot subtract is one discrete Laplace draw of the other."""
    assert p_value(right()[operator], one) > ALARM


def test_draws_of_neighbouring_slots_are_independent() -> None:
    """The signs of consecutive totals are those of independent symmetric numbers."""
    signs = np.sign(np.array(right()["total"]))
    assert abs(float(np.mean(signs[1:] * signs[:-1]))) < 5.4 / np.sqrt(SLOTS)


def omit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Omit the leader's draw."""
    monkeypatch.setattr(leader, "draw_noise", lambda *_: 0)


def reuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one key for both draws: the leader repeats the helper's number."""
    last: list[int] = []

    def keep(*arguments: object) -> int:
        last[:] = [draw_noise(*arguments)]  # type: ignore[arg-type]
        return last[0]

    monkeypatch.setattr(helper, "draw_noise", keep)
    monkeypatch.setattr(leader, "draw_noise", lambda *_: last[0])


def once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw without the slot and the batch."""
    for module in (helper, leader):
        monkeypatch.setattr(
            module, "draw_noise", lambda key, group, _s, _d, loss: draw_noise(key, group, 0, b"", loss)
        )


def wider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw with half the loss."""
    monkeypatch.setattr(
        helper, "draw_noise", lambda key, group, s, d, loss: draw_noise(key, group, s, d, loss / 2)
    )


def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw anew for each answer."""
    number = count()

    def draw_anew(key: bytes, group: bytes, slot_s: int, digest: bytes, loss: Fraction) -> int:
        return draw_noise(key, group, slot_s, digest + next(number).to_bytes(4, "big"), loss)

    for module in (helper, leader):
        monkeypatch.setattr(module, "draw_noise", draw_anew)


@pytest.mark.parametrize("mistake", [omit, reuse, once_for_all, wider])
def test_a_mistake_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing draw, a reused one, one for all slots and one of another scale are rejected."""
    mistake(monkeypatch)
    assert p_value(noises(FEWER)["total"], two) < ALARM


def test_answers_after_a_restore_have_one_draw() -> None:
    """The mean of a restored helper's answers has the noise of one draw: repeating them reveals nothing."""
    assert p_value(restored(FEWER), one) > ALARM


def test_a_fresh_draw_after_a_restore_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of fresh draws is narrower than one, and is rejected."""
    fresh(monkeypatch)
    assert p_value(restored(FEWER), one) < ALARM


@pytest.mark.parametrize("energy", [0, 40 * LATTICE, -(10**9) * LATTICE])
def test_the_view_of_each_operator_is_uniform(energy: int) -> None:
    """Pads and shares are uniform modulo 2^64 for any load: their highest, lowest and middle bytes."""
    bits, lattice = SeededBits(7), LATTICE
    pads = [bits.integer(64) for _ in range(20_000)]
    accumulators = [shares.open_accumulator(pad, below(lattice, bits), lattice) for pad in pads]
    views = [shares.close_accumulator(shares.add_energy(a, energy, lattice), lattice) for a in accumulators]
    for numbers in (pads, views):
        for shift in (0, 28, 56):
            counts = np.bincount([number >> shift & 255 for number in numbers], minlength=256)
            assert stats.chisquare(counts).pvalue > ALARM
