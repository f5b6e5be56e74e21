"""Tokens with several uses: their message is free after the last use.

A message may hold several readings, and a reading of a phase is part of several sums. All uses hold the same
`Share`. After the last use has returned the share, the tokens in it are free; each belongs to a message or is
itself a share.
"""

from collections.abc import Iterable, Sequence

from meteragent.domain.reading import Token


class Share:
    """A token with a number of `uses`; the `tokens` that it holds are free after the last of them."""

    __slots__ = ("tokens", "uses")

    def __init__(self, tokens: Sequence[Token], uses: int) -> None:
        self.tokens = tokens
        self.uses = uses

    def give_back(self) -> Sequence[Token]:
        """End one use; return the freed tokens."""
        self.uses -= 1
        return () if self.uses else self.tokens


def give_back(tokens: Iterable[Token]) -> list[Token]:
    """Give back tokens; return the tokens of the messages that become free, in order."""
    free: list[Token] = []
    for token in tokens:
        if isinstance(token, Share):
            free += give_back(token.give_back())
        else:
            free.append(token)
    return free
