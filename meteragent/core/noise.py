"""The noise of the slots that open in one feed: nothing is drawn before it, nothing drawn outlives it.

A window needs its noise bound and the noise of its first slot when it opens; its other slots' noise is drawn
when each of them opens, and every slot has a dither. Of the pair (R, z), R has the mechanism's law and z is
uniform on {-R .. R}; pairs are independent, and so are dithers, which are uniform on the quantum of their
slot. So it does not matter how many are drawn together, as long as each goes to one window or slot: readings
have no part in it. Where thousands of windows open at once, that is several times faster.

Noise that waits in memory for a window to come would be in a copy of the memory, such as the snapshot of a
virtual machine: the copy and the original would then give two windows the same noise. Hence `forget`,
with which a feed ends: the pairs and dithers that are not used go, and so do the bits.
"""

from meteragent.domain.terms import Terms
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.sampling import SecretBits
from meteragent.privacy.sampling.uniform import below, below_array

FEW = 10
"""So many pairs of a feed are drawn one by one: few windows open in a home."""
MANY = 256
"""From then on so many at once, which takes as long as a dozen one by one. Likewise with dithers."""
LATTICE_MAX = 2**63
"""Arrays hold dithers of no coarser lattice."""


class Noise:
    """The draws of a feed: bound and first noise of windows, by the id of their terms; noise and dither."""

    __slots__ = ("_ahead", "_bits", "_dithered", "_dithers", "_used")

    def __init__(self, bits: SecretBits) -> None:
        self._bits = bits
        self._used: dict[str, int] = {}
        self._ahead: dict[str, list[tuple[int, int]]] = {}
        self._dithered: dict[int, int] = {}
        self._dithers: dict[int, list[int]] = {}

    def open(self, terms_id: str, mechanism: LInfLaplace) -> tuple[int, int]:
        """Return R of the next window of these terms, whose mechanism it is, and its first slot's noise."""
        used = self._used.get(terms_id, 0)
        self._used[terms_id] = used + 1
        ahead = self._ahead.get(terms_id)
        if ahead:
            return ahead.pop()
        if used < FEW:
            noise_bound = mechanism.noise_bound(self._bits)
            return noise_bound, mechanism.draw(noise_bound, self._bits)
        noise_bounds = mechanism.noise_bounds(MANY, self._bits)
        noise = mechanism.slots(noise_bounds, self._bits)
        ahead = self._ahead[terms_id] = list(zip(noise_bounds, noise, strict=True))[::-1]
        return ahead.pop()

    def slot(self, noise_bound: int, mechanism: LInfLaplace) -> int:
        """Return the noise of a further slot of a window."""
        return mechanism.draw(noise_bound, self._bits)

    def dither(self, terms: Terms, place: int) -> int | None:
        """Return u of a slot, uniform on {0, ..., L - 1}; None for half-up terms, which have none."""
        if terms.rounding != "dithered":
            return None
        lattice = terms.lattice(place)
        ahead = self._dithers.get(lattice)
        if ahead:
            return ahead.pop()
        used = self._dithered[lattice] = self._dithered.get(lattice, 0) + 1
        if used <= FEW or lattice > LATTICE_MAX:
            return below(lattice, self._bits)
        dithers: list[int] = below_array(lattice, MANY, self._bits).tolist()
        self._dithers[lattice] = dithers
        return dithers.pop()

    def forget(self) -> None:
        """Drop all that was drawn and not used: the feed has ended."""
        for drawn in (self._used, self._ahead, self._dithered, self._dithers):
            drawn.clear()
        self._bits.discard()
