"""The noise of the slots that open in one feed; nothing is drawn before the feed or kept after it.

When a window opens, it needs its noise bound R and the noise z of its first slot. The noise of each further
slot is drawn from R when that slot opens. In an l1 window, each slot has its own R, and all noise is drawn
when the window opens. Every slot has a dither, uniform over its quantum. In a pair (R, z), R has the
mechanism's distribution and z is uniform on {-R .. R}. Pairs and dithers are independent, also of readings,
so any number may be drawn together, several times faster, if each is used for one window or slot only.
"""

from collections import Counter, defaultdict

from meteragent.domain.terms import Terms
from meteragent.privacy.mechanism.laplace import LInfLaplace
from meteragent.privacy.sampling import SecretBits
from meteragent.privacy.sampling.uniform import below, below_array

SINGLE_DRAWS = 10
"""The number of pairs for the same terms, or of dithers for one lattice, that are drawn one at a time."""
DRAW_BATCH = 256
"""The size of the batches of further pairs or dithers; drawing a batch takes as long as a dozen draws."""
LATTICE_MAX = 2**63
"""The largest quantum, in accumulator units, whose dithers are drawn in batches, as 64-bit integers."""


class Noise:
    """The unused draws of the current feed: pairs (R, z) by the id of their terms, and dithers by lattice.

    The windows of a crowd have a pad instead of noise, drawn from the same `bits`.
    """

    def __init__(self, bits: SecretBits) -> None:
        self.bits = bits
        self._counts = Counter[str | int]()
        self._pairs = defaultdict[str, list[tuple[int, int]]](list)
        self._dithers = defaultdict[int, list[int]](list)

    def draw_slot(self, mechanism: LInfLaplace, noise_bound: int) -> int:
        """Return the noise of a window's next slot, given the window's noise bound."""
        return mechanism.draw_slot(noise_bound, self.bits)

    def draw_window(self, terms_id: str, mechanism: LInfLaplace) -> tuple[int, int]:
        """Return a new noise bound R for these terms, and the noise of one slot, uniform on {-R .. R}."""
        if pairs := self._pairs[terms_id]:
            return pairs.pop()
        self._counts[terms_id] += 1
        if self._counts[terms_id] <= SINGLE_DRAWS:
            noise_bound = mechanism.draw_noise_bound(self.bits)
            return noise_bound, mechanism.draw_slot(noise_bound, self.bits)
        noise_bounds = mechanism.draw_noise_bounds(DRAW_BATCH, self.bits)
        noise = mechanism.draw_slots(noise_bounds, self.bits)
        pairs += list(zip(noise_bounds, noise, strict=True))[::-1]
        return pairs.pop()

    def draw_dither(self, terms: Terms, slot_index: int) -> int:
        """Draw a slot's dither u, uniform on {0, ..., L - 1}, with L one quantum in accumulator units."""
        lattice = terms.steps_per_quantum[slot_index]
        if dithers := self._dithers[lattice]:
            return dithers.pop()
        self._counts[lattice] += 1
        if self._counts[lattice] <= SINGLE_DRAWS or lattice > LATTICE_MAX:
            return below(lattice, self.bits)
        dithers += below_array(lattice, DRAW_BATCH, self.bits).tolist()
        return dithers.pop()

    def drop_unused(self) -> None:
        """Drop all unused draws and bits at the end of the feed."""
        # A copy of the memory, such as a snapshot of a machine, would open windows with the same noise.
        for draws in (self._counts, self._pairs, self._dithers):
            draws.clear()
        self.bits.discard()
