"""Consecutive windows: an event that spans several of them is charged in each (THEORY 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from meteragent.privacy.exact import Exact, positive


@dataclass(frozen=True, init=False)
class SlidingPlan:
    """Blocks of `block` slots, each a window, so that `span` consecutive slots cost at most `epsilon`.

    The loss between two streams that differ by at most d, and only within `span` consecutive slots, is at
    most epsilon d: they differ in at most c = ceil((span-1)/block) + 1 blocks, and each block is released at
    epsilon/c (THEORY 3.2). `span` counts slots; an interval as long as w slots touches up to w + 1 slots.
    Raises TypeError if epsilon is not exact; ValueError if a parameter is not positive.
    """

    span: int
    epsilon: Fraction
    block: int

    def __init__(self, span: int, epsilon: Exact, block: int) -> None:
        if span < 1 or block < 1:
            raise ValueError(f"a span and a block need at least one slot, not {span} and {block}")
        object.__setattr__(self, "span", span)
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon))
        object.__setattr__(self, "block", block)

    @classmethod
    def best(cls, span: int, epsilon: Exact) -> Self:
        """Return the plan with the least mean error; of equally good plans, the plan with the shortest block.

        The block is about sqrt(span) and the error about (sqrt(span) + 1)^2 / (2 epsilon). For long spans the
        error tends to half of that of independent noise of scale span/epsilon on each slot.
        """
        return min(
            (cls(span, epsilon, block) for block in range(1, max(span, 1) + 1)),
            key=lambda plan: plan.mean_error,
        )

    def touched(self, length: int) -> int:
        """Return the largest number of blocks that `length` slots can touch: ceil((length-1)/block) + 1.

        Raises ValueError if length < 1.
        """
        if length < 1:
            raise ValueError(f"an event needs at least one slot, not {length}")
        return -(-(length - 1) // self.block) + 1

    @property
    def block_epsilon(self) -> Fraction:
        """The epsilon of each block: epsilon/c."""
        return self.epsilon / self.touched(self.span)

    @property
    def mean_error(self) -> Fraction:
        """A slot's mean absolute error with continuous noise: (block + 1) c / (2 epsilon) (THEORY 1.2)."""
        return (self.block + 1) / (2 * self.block_epsilon)
