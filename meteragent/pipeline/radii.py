"""The radii of windows to come, drawn many at once where windows are many."""

from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.sampling import Bits

MANY = 256
"""So many are drawn one by one, for few windows open in a home; from then on so many at once."""


class Radii:
    """R of one window after the other, by the id of its terms.

    What is drawn ahead is as secret as what is in use. It is in memory only: a restart draws anew.
    """

    __slots__ = ("_ahead", "_drawn")

    def __init__(self) -> None:
        self._drawn: dict[str, int] = {}
        self._ahead: dict[str, list[int]] = {}

    def draw(self, terms_id: str, mechanism: LInfLaplace, bits: Bits) -> int:
        """The next one of these terms, whose mechanism it is."""
        ahead = self._ahead.get(terms_id)
        if ahead:
            return ahead.pop()
        drawn = self._drawn[terms_id] = self._drawn.get(terms_id, 0) + 1
        if drawn <= MANY:
            return mechanism.radius(bits)
        ahead = self._ahead[terms_id] = mechanism.radii(MANY, bits)[::-1]
        return ahead.pop()
