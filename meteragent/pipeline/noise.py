"""The noise of windows to come, drawn many at once where windows are many.

A window needs its radius and the noise of its first slot when it opens; its other slots' noise is drawn
when each of them opens. Of the pair (R, z), R has the mechanism's law and z is uniform on {-R .. R}; pairs
are independent. So it does not matter when they are drawn, nor how many together, as long as each goes to
one window: readings have no part in it.

What is drawn ahead is as secret as what is in use, and as the random bits that wait to be used (64 KiB
of them). It is in memory only: a restart draws anew, and what is on disk is the noise of open slots.
"""

from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.sampling import Bits

MANY = 256
"""So many are drawn one by one, for few windows open in a home; from then on so many at once."""


class Noise:
    """The radius and the first slot's noise of one window after the other, by the id of its terms."""

    __slots__ = ("_ahead", "_bits", "_drawn")

    def __init__(self, bits: Bits) -> None:
        self._bits = bits
        self._drawn: dict[str, int] = {}
        self._ahead: dict[str, list[tuple[int, int]]] = {}

    def open(self, terms_id: str, mechanism: LInfLaplace) -> tuple[int, int]:
        """R of the next window of these terms, whose mechanism it is, and the noise of its first slot."""
        ahead = self._ahead.get(terms_id)
        if ahead:
            return ahead.pop()
        drawn = self._drawn[terms_id] = self._drawn.get(terms_id, 0) + 1
        if drawn <= MANY:
            radius = mechanism.radius(self._bits)
            return radius, mechanism.draw(radius, self._bits)
        radii = mechanism.radii(MANY, self._bits)
        noise = mechanism.slots(radii, self._bits)
        ahead = self._ahead[terms_id] = list(zip(radii, noise, strict=True))[::-1]
        return ahead.pop()

    def slot(self, radius: int, mechanism: LInfLaplace) -> int:
        """The noise of a further slot of a window."""
        return mechanism.draw(radius, self._bits)
