"""Tokens that stand for more than one thing, and when the message behind them is free.

A message may hold several readings, and a reading of a phase is used by several sums. Each use holds the
same `Share`; when all have given it back, so are the tokens in it: those of messages, or shares again.
"""

from collections.abc import Iterable, Sequence

from meteragent.domain.reading import Token


class Share:
    """A token with `left` uses; the `tokens` in it are free after the last of them."""

    __slots__ = ("left", "tokens")

    def __init__(self, tokens: Sequence[Token], left: int) -> None:
        self.tokens = tokens
        self.left = left

    def give_back(self) -> Sequence[Token]:
        """One use less; what is free by that."""
        self.left -= 1
        return () if self.left else self.tokens


def give_back(tokens: Iterable[Token]) -> list[Token]:
    """The tokens of messages that are free when these are given back, in order."""
    free: list[Token] = []
    for token in tokens:
        if isinstance(token, Share):
            free += give_back(token.give_back())
        else:
            free.append(token)
    return free
