"""Tokens with several uses: their message may be acknowledged after the last use.

A message may hold several readings, and a reading of a phase may be part of several sums. All uses hold the
same `Share`. When the last use gives the share back, the tokens in it are given back, too. Each of these
tokens belongs to a message or is itself a share.
"""

from collections.abc import Iterable, Sequence

from meteragent.domain.reading import Token


class Share:
    """A token with a number of `uses`; the `tokens` in it are given back after the last use."""

    __slots__ = ("tokens", "uses")

    def __init__(self, tokens: Sequence[Token], uses: int) -> None:
        self.tokens = tokens
        self.uses = uses

    def give_back(self) -> Sequence[Token]:
        """End one use; return the freed tokens."""
        self.uses -= 1
        return () if self.uses else self.tokens


def give_back(tokens: Iterable[Token]) -> list[Token]:
    """Give back tokens; return, in order, the tokens of messages that may now be acknowledged."""
    free_tokens: list[Token] = []
    for token in tokens:
        if isinstance(token, Share):
            free_tokens += give_back(token.give_back())
        else:
            free_tokens.append(token)
    return free_tokens
