"""Consecutive windows: an event that spans several of them is charged in each (THEORY 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from meteragent.privacy.exact import Exact, positive, set_fields


@dataclass(frozen=True, init=False)
class SlidingPlan:
    """Blocks of `block` slots, each a window, so that `span` consecutive slots cost at most `epsilon`.

    The loss between two streams that differ by at most d, and only within `span` consecutive slots, is at
    most epsilon d: they differ in at most c = ceil((span-1)/block) + 1 blocks, and each block is released at
    epsilon/c (THEORY 3.2). `span` counts slots; an interval as long as w slots touches up to w + 1 slots.
    Raises ValueError if a parameter is not positive.
    """

    span: int
    epsilon: Fraction
    block: int

    def __init__(self, span: int, epsilon: Exact, block: int) -> None:
        if span < 1 or block < 1:
            raise ValueError(f"a span and a block need at least one slot, not {span} and {block}")
        set_fields(self, span=span, epsilon=positive("epsilon", epsilon), block=block)

    @classmethod
    def best(cls, span: int, epsilon: Exact) -> Self:
        """Return the plan with the least mean error; of equally good plans, the plan with the shortest block.

        The best block is about sqrt(span), with an error of (sqrt(span) + 1)^2 / (2 epsilon), for long spans
        half the error of independent noise of scale span/epsilon on each slot.
        """
        plans = (cls(span, epsilon, block) for block in range(1, max(span, 1) + 1))
        return min(plans, key=lambda plan: plan.mean_error)

    def blocks_touched(self, length: int) -> int:
        """Return ceil((length-1)/block) + 1, the most blocks touched. Raises ValueError if length < 1."""
        if length < 1:
            raise ValueError(f"an event needs at least one slot, not {length}")
        return -(-(length - 1) // self.block) + 1

    @property
    def block_epsilon(self) -> Fraction:
        """The epsilon of each block: epsilon/c."""
        return self.epsilon / self.blocks_touched(self.span)

    @property
    def mean_error(self) -> Fraction:
        """A slot's mean absolute error with continuous noise: (block + 1) c / (2 epsilon) (THEORY 1.2)."""
        return (self.block + 1) / (2 * self.block_epsilon)
