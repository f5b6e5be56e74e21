"""Tokens with several uses, and when the message behind them is free.

A message may hold several readings, and a reading of a phase is part of several sums. Each use holds the
same `Share`. When all have returned it, the tokens in it are free: those of messages, or shares again.
"""

from collections.abc import Iterable, Sequence

from meteragent.domain.reading import Token


class Share:
    """A token with a number of `uses`; the `tokens` in it are free after the last of them."""

    __slots__ = ("tokens", "uses")

    def __init__(self, tokens: Sequence[Token], uses: int) -> None:
        self.tokens = tokens
        self.uses = uses

    def give_back(self) -> Sequence[Token]:
        """End one use; return the tokens that this frees."""
        self.uses -= 1
        return () if self.uses else self.tokens


def give_back(tokens: Iterable[Token]) -> list[Token]:
    """Return the tokens of messages that are free when these are given back, in order."""
    free: list[Token] = []
    for token in tokens:
        if isinstance(token, Share):
            free += give_back(token.give_back())
        else:
            free.append(token)
    return free
