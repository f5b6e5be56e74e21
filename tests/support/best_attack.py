"""The best attacker's success on one mechanism, by enumeration: the reference of certificates and attacks."""

import math

import numpy as np

from meteragent.privacy.certificate import Library
from meteragent.privacy.mechanism.laplace import LInfLaplace

LEFT_OUT = 1e-9
"""The largest mass of the noise that the enumeration leaves out, by which its result is too small."""


def best_attack(mechanism: LInfLaplace, library: Library) -> float:
    """Return the chance of naming a shape by its largest posterior, summed over a box; for n = 1..3."""
    a, n = float(mechanism.a), mechanism.n
    largest = np.arange(math.ceil((n + 60 + math.sqrt(3600 + 120 * n)) / a) + 1)
    # (2m+1)^n - (2m-1)^n points have max|z_i| = m; at m = 0 there is one point.
    counts = (2.0 * largest + 1) ** n - np.maximum(2.0 * largest - 1, 0) ** n
    shells = counts * np.exp(-a * largest)
    reach = int(np.argmax(1 - np.cumsum(shells) / shells.sum() <= LEFT_OUT))
    low, high = library.signatures.min(axis=0) - reach, library.signatures.max(axis=0) + reach
    outputs = np.stack(np.meshgrid(*map(np.arange, low, high + 1), indexing="ij"), axis=-1)
    best = np.zeros(outputs.shape[:-1])
    for signature, chance in zip(library.signatures, library.prior, strict=True):
        distance = np.abs(outputs - signature).max(axis=-1)
        np.maximum(best, chance * np.exp(-a * distance), out=best)
    return float(best.sum() / shells.sum())
