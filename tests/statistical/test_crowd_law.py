"""The law of totals: exactly two draws, and exactly one for whoever knows the other.

Whole protocol runs of SLOTS slots at a = 1, with known energies, so that what remains is noise. A right
program fails one of the p values with a chance of 4 x ALARM. With FEWER slots the noncentrality of the
chi-square statistic is at least 140 for a missing draw, a reused one and one of another scale, so each is
found except with a chance below 10^-6.
"""

import json
from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from meteragent.crowd import helper, leader, message, seal
from meteragent.crowd import share as shares
from meteragent.crowd.draw import draw
from meteragent.crowd.message import Answer
from meteragent.privacy.bits import SeededBits
from meteragent.privacy.sampling import below
from tests.support.crowd import LATTICE, SLOT_S, Street, make_group

pytestmark = pytest.mark.statistical

SLOTS, FEWER = 1440, 720
ALARM = 1e-7
A = 1.0
LABELS = ("a", "b")
QUANTA = {"a": 40, "b": -7}
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


def noises(slots: int) -> dict[str, list[int]]:
    """Run the protocol; return what remains in totals, and for each operator with all other homes."""
    world = Street(make_group(hide_wh="0.5", slot_s="60", smallest_crowd="2"))
    group, first_s = world.group, SLOT_S - SLOT_S % 86_400
    world.prepare(first_s)
    remaining: dict[str, list[int]] = {"total": [], "leader": [], "helper": []}
    for slot_s in range(first_s, first_s + 60 * slots, 60):
        world.deliver({label: world.report(label, QUANTA[label], slot_s) for label in LABELS}, slot_s)
        asked = world.ask(slot_s)
        entries = message.Chunk.decode(group.id, asked[0]).message.entries
        answers = world.answer(asked, slot_s)
        keys, other = world.leader.keys_of_slot(slot_s), world.helper.keys_of_slot(slot_s)
        assert keys is not None
        assert other is not None
        digest = message.batch_digest(group.id, slot_s, entries)
        answer = Answer.decode(group.id, answers[0]).message
        opened = keys.open(answer.total, seal.info(seal.TOTAL, group.id, slot_s, keys.id, digest))
        assert opened is not None
        pads = [world.helper._pad(other, slot_s, entry) or 0 for entry in entries]
        remaining["leader"].append(shares.signed((opened - sum(pads)) % shares.MODULUS))
        [record] = world.finish(answers)
        noise = round(float(json.loads(record)["value"]) * 2) - sum(QUANTA.values())
        remaining["total"].append(noise)
        remaining["helper"].append(noise - draw(other.noise, group.id, slot_s, digest, group.loss))
    return remaining


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
    monkeypatch.setattr(leader, "draw", lambda *_: 0)


def reuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one key for both draws: the leader repeats the helper's number."""
    last: list[int] = []

    def keep(*arguments: object) -> int:
        last[:] = [draw(*arguments)]  # type: ignore[arg-type]
        return last[0]

    monkeypatch.setattr(helper, "draw", keep)
    monkeypatch.setattr(leader, "draw", lambda *_: last[0])


def once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw without the slot and the batch."""
    for module in (helper, leader):
        monkeypatch.setattr(module, "draw", lambda key, group, _s, _d, loss: draw(key, group, 0, b"", loss))


def wider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw with half the loss."""
    monkeypatch.setattr(helper, "draw", lambda key, group, s, d, loss: draw(key, group, s, d, loss / 2))


@pytest.mark.parametrize("mistake", [omit, reuse, once_for_all, wider])
def test_a_mistake_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing draw, a reused one, one for all slots and one of another scale are rejected."""
    mistake(monkeypatch)
    assert p_value(noises(FEWER)["total"], two) < ALARM


@pytest.mark.parametrize("energy", [0, 40 * LATTICE, -(10**9) * LATTICE])
def test_the_view_of_each_operator_is_uniform(energy: int) -> None:
    """Pads and shares are uniform modulo 2^64 for any load: their highest, lowest and middle bytes."""
    bits, lattice = SeededBits(7), LATTICE
    pads = [bits.integer(64) for _ in range(20_000)]
    accumulators = [shares.open_accumulator(pad, below(lattice, bits), lattice) for pad in pads]
    views = [shares.close_accumulator(shares.add(a, energy, lattice), lattice) for a in accumulators]
    for numbers in (pads, views):
        for shift in (0, 28, 56):
            counts = np.bincount([number >> shift & 255 for number in numbers], minlength=256)
            assert stats.chisquare(counts).pvalue > ALARM
