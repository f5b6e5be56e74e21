"""Mistakes about the dither, each of which a check of `dither_checks` must find (THEORY A.12)."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import pytest

from meteragent.core.factory import Factory
from meteragent.core.noise import Noise
from meteragent.core.timeline import Timeline
from meteragent.core.window import RegisterUse, Window
from meteragent.domain.commit import OpenWindow, Slot
from meteragent.domain.terms import Terms
from meteragent.privacy.sampling import below
from meteragent.store import schema

Patch = Callable[[pytest.MonkeyPatch], None]
DRAW, CLOSE, STATE = Window.open_slot, Window.close_slot, Window.stored_state
RESTORE = Factory.restore_timeline


class Mutant(NamedTuple):
    """A mistake, the checks that find it, and a name of what they find."""

    name: str
    patch: Patch
    check: str
    finds: str


def dithers(draw: Callable[[int, Any], int]) -> Patch:
    """Another law of u: a function of L and the bits."""

    def dither(self: Noise, terms: Terms, place: int) -> int:
        return draw(terms.steps_per_quantum[place], self.bits)

    return lambda patch: patch.setattr(Noise, "draw_dither", dither)


def only_at_the_close(patch: pytest.MonkeyPatch) -> None:
    """The accumulator is without u until it closes."""
    late: dict[int, int] = {}

    def draw(self: Window, noise: int, covered_ms: int, dither: int) -> None:
        late[self.draws] = dither
        DRAW(self, noise, covered_ms, 0)

    def close(self: Window, index: int) -> int:
        self.slots[index] += late.get(index, 0)
        return CLOSE(self, index)

    patch.setattr(Window, "open_slot", draw)
    patch.setattr(Window, "close_slot", close)


def follows_the_noise(patch: pytest.MonkeyPatch) -> None:
    """Uniform by itself, but its quarter of the cell is that of the noise."""

    def draw(self: Window, noise: int, covered_ms: int, dither: int) -> None:
        quarter = self.terms.steps_per_quantum[self.draws] // 4
        DRAW(self, noise, covered_ms, noise % 4 * quarter + dither // 4)

    patch.setattr(Window, "open_slot", draw)


def half_up_on_top(patch: pytest.MonkeyPatch) -> None:
    """What is dithered is also rounded half up."""

    def close(self: Window, index: int) -> int:
        lattice = self.terms.steps_per_quantum[index]
        return (2 * self.slots.pop(index) + lattice) // (2 * lattice)

    patch.setattr(Window, "close_slot", close)


def again_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """A start dithers what is dithered."""

    def restore(*arguments: Any) -> Timeline:
        timeline = RESTORE(*arguments)
        for window in timeline.windows:
            for place in window.slots:
                window.slots[place] += window.terms.steps_per_quantum[place] // 2
        return timeline

    patch.setattr(Factory, "restore_timeline", restore)


def not_in_the_store(patch: pytest.MonkeyPatch) -> None:
    """What leaves is right, and what is written has no u."""
    added: dict[tuple[str, int, int], int] = {}

    def draw(self: Window, noise: int, covered_ms: int, dither: int) -> None:
        added[self.public_id, self.start_ms, self.draws] = dither
        DRAW(self, noise, covered_ms, dither)

    def state(self: Window, standing: tuple[int, int] | None = None) -> OpenWindow:
        kept = STATE(self, standing)
        bare = [Slot(p, a - added[self.public_id, self.start_ms, p]) for p, a in kept.slots]
        return kept._replace(slots=tuple(bare))

    patch.setattr(Window, "open_slot", draw)
    patch.setattr(Window, "stored_state", state)


def keeps_the_radius(patch: pytest.MonkeyPatch) -> None:
    """R outlives the last draw."""

    def draw(self: Window, noise: int, covered_ms: int, dither: int) -> None:
        noise_bound = self.noise_bound
        DRAW(self, noise, covered_ms, dither)
        self.noise_bound = noise_bound

    patch.setattr(Window, "open_slot", draw)


def keeps_fractions(patch: pytest.MonkeyPatch) -> None:
    """A register's share of a span is exact, and written so."""

    def between(self: RegisterUse, from_ms: int, to_ms: int) -> Fraction:
        return Fraction(self.units * (to_ms - from_ms), self.span_ms)

    window = schema._encode_window

    def written(one: OpenWindow) -> str:
        text = window(one)
        for _, kept in one.slots:
            text = text.replace(f",{kept}]", f',"{kept}"]') if "/" in str(kept) else text
        return text

    patch.setattr(RegisterUse, "use_between", between)
    patch.setattr(schema, "_encode_window", written)


MUTANTS = [
    Mutant("no dither", dithers(lambda *_: 0), "store", "uniform"),
    Mutant("floor without a dither", dithers(lambda *_: 0), "release", "mean at 0.25"),
    Mutant("a dither only at the close", only_at_the_close, "store", "uniform"),
    Mutant("one dither for ever", dithers(lambda lattice, _: lattice // 3), "store", "all distinct"),
    Mutant("a dither of the wrong unit", dithers(lambda m, bits: below(m // 1000, bits)), "store", "uniform"),
    Mutant("a dither of half the cell", dithers(lambda m, bits: below(m // 2, bits)), "store", "uniform"),
    Mutant("a dither that follows the noise", follows_the_noise, "store", "beside the noise"),
    Mutant(
        "a dither of 16 bits",
        dithers(lambda m, bits: below(1 << 16, bits) * (m // (1 << 16) // 4096 * 4096)),
        "store",
        "low bits",
    ),
    Mutant("half-up on top of the dither", half_up_on_top, "release", "mean at 0.0"),
    Mutant("a dither again after a restart", again_after_a_restart, "release", "mean at 0.0"),
    Mutant("a dither again after a restart, as kept", again_after_a_restart, "structure", "a restart"),
    Mutant("a store without the dither", not_in_the_store, "store", "uniform"),
    Mutant("R kept", keeps_the_radius, "structure", "R only"),
    Mutant("fractions kept", keeps_fractions, "structure", "whole numbers"),
]
