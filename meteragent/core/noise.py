"""The noise of the slots that open in one feed: nothing is drawn before the feed or kept after it.

A window needs its noise bound and the noise of its first slot when it opens; the noise of each further slot
is drawn when that slot opens, and every slot has a dither. Of the pair (R, z), R has the mechanism's law and
z is uniform on {-R .. R}; pairs are independent, and so are dithers, which are uniform on the quantum of
their slot. So it does not matter how many are drawn together, as long as each goes to one window or slot:
readings have no influence on the draws. Where thousands of windows open at once, drawing in bulk is several
times faster.

Noise that waited in memory for a later window would be in any copy of the memory, such as the snapshot of a
virtual machine: the copy and the original would then give two windows the same noise. Hence a feed ends with
`forget`, which drops the pairs and dithers that were not used, and the bits.
"""

from meteragent.domain.terms import Terms
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.sampling import SecretBits
from meteragent.privacy.sampling.uniform import below, below_array

FEW = 10
"""The first pairs of a feed are drawn one by one: few windows open in a home."""
MANY = 256
"""Later ones are drawn in batches, each as slow as a dozen single draws. Dithers are drawn likewise."""
LATTICE_MAX = 2**63
"""The coarsest lattice whose dithers fit into arrays."""


class Noise:
    """The draws of one feed, and those drawn ahead: (R, z) by the id of terms, dithers by lattice."""

    __slots__ = ("_ahead", "_bits", "_dither_counts", "_dithers", "_pair_counts")

    def __init__(self, bits: SecretBits) -> None:
        self._bits = bits
        self._pair_counts: dict[str, int] = {}
        self._ahead: dict[str, list[tuple[int, int]]] = {}
        self._dither_counts: dict[int, int] = {}
        self._dithers: dict[int, list[int]] = {}

    def open(self, terms_id: str, mechanism: LInfLaplace) -> tuple[int, int]:
        """Draw R and the first slot's noise for the next window of these terms, from their mechanism."""
        count = self._pair_counts.get(terms_id, 0)
        self._pair_counts[terms_id] = count + 1
        ahead = self._ahead.get(terms_id)
        if ahead:
            return ahead.pop()
        if count < FEW:
            noise_bound = mechanism.noise_bound(self._bits)
            return noise_bound, mechanism.draw(noise_bound, self._bits)
        noise_bounds = mechanism.noise_bounds(MANY, self._bits)
        noise = mechanism.slots(noise_bounds, self._bits)
        ahead = self._ahead[terms_id] = list(zip(noise_bounds, noise, strict=True))[::-1]
        return ahead.pop()

    def slot(self, noise_bound: int, mechanism: LInfLaplace) -> int:
        """Draw the noise of a further slot of a window."""
        return mechanism.draw(noise_bound, self._bits)

    def dither(self, terms: Terms, slot_index: int) -> int | None:
        """Draw u of a slot, uniform on {0, ..., L - 1}; None for half-up terms, which have none."""
        if terms.rounding != "dithered":
            return None
        lattice = terms.lattice(slot_index)
        ahead = self._dithers.get(lattice)
        if ahead:
            return ahead.pop()
        count = self._dither_counts[lattice] = self._dither_counts.get(lattice, 0) + 1
        if count <= FEW or lattice > LATTICE_MAX:
            return below(lattice, self._bits)
        dithers: list[int] = below_array(lattice, MANY, self._bits).tolist()
        self._dithers[lattice] = dithers
        return dithers.pop()

    def forget(self) -> None:
        """Drop all that was drawn and not used: the feed has ended."""
        for draws in (self._pair_counts, self._ahead, self._dither_counts, self._dithers):
            draws.clear()
        self._bits.discard()
