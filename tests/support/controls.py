"""Negative controls: mechanisms on windows with a false promise, which an audit must refuse.

All promise epsilon d_inf for windows of n whole quanta, with a = epsilon q. The `log_mass` of an honest
control is the law of its noise. The `log_mass` of a lying control is the law of the l_inf Laplace
mechanism, so that only its draws reveal it. `CAUGHT` lists the checks that must refuse each control.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meteragent.privacy.bits import Bits, SystemBits
from meteragent.privacy.mechanism.window_law import WindowLaw
from meteragent.privacy.sampling import discrete_laplace, geometric
from meteragent.privacy.sampling.uniform import uniform_rows
from meteragent.privacy.sampling.windows import noise_bounds
from meteragent.privacy.space import Windows

Floats = NDArray[np.float64]
Noise = Callable[[int, int, Fraction, Bits], NDArray[Any]]
"""A function of (count, n, a, bits) that draws the noise of `count` windows of n slots."""


def linf_mass(n: int, a: Fraction, z: NDArray[Any]) -> Floats:
    """Return log P(z) of the l_inf Laplace mechanism."""
    return WindowLaw(n, float(a)).log_mass(np.abs(z).max(axis=-1))


@dataclass(frozen=True)
class Control:
    """A mechanism that adds `noise` to windows and claims that the noise has the law `mass`."""

    n: int
    a: Fraction
    noise: Noise
    mass: Callable[[int, Fraction, NDArray[Any]], Floats] = linf_mass
    quantum: Fraction = Fraction(1)
    to_quanta: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray

    @property
    def step(self) -> Fraction:
        """The unit of windows: half quanta if the control rounds, else quanta."""
        return self.quantum if self.to_quanta is np.asarray else self.quantum / 2

    @property
    def space(self) -> Windows:
        """The space of its windows."""
        return Windows(self.n, self.step)

    def loss(self, distance: Fraction) -> Fraction:
        """Return the promise: epsilon d_inf, between whole quanta."""
        if isinstance(distance, float):
            raise TypeError("a distance must be exact")
        if distance < 0:
            raise ValueError("a distance must not be negative")
        return self.a * -(-distance // self.quantum)

    def release(self, windows: Any, *, bits: Bits | None = None) -> NDArray[Any]:
        """Return the windows with noise."""
        rows = np.asarray(windows)
        noise = self.noise(rows.size // self.n, self.n, self.a, bits or SystemBits())
        return np.asarray(self.to_quanta(rows) + noise.reshape(rows.shape))

    def log_mass(self, outputs: Any, point: Any) -> Floats:
        """Return the log of the mass that the control claims."""
        return self.mass(self.n, self.a, np.asarray(outputs) - self.to_quanta(np.asarray(point)))


# Noise --------------------------------------------------------------------------------------------


def cubes(shape: int, slots: int, a: Fraction, count: int, bits: Bits) -> NDArray[np.int64]:
    """Draw `count` rows of `slots` uniforms on {-R .. R}, one R per row, P(R) ~ (2R+1)^shape e^(-aR)."""
    # For no slots P(R) ~ e^(-aR).
    return uniform_rows(
        noise_bounds(shape, a, count, bits) if shape else geometric(count, a, bits), slots, bits
    )


def honest(count: int, n: int, a: Fraction, bits: Bits) -> NDArray[np.int64]:
    """Draw l_inf Laplace noise, the law from which the others must be distinguished."""
    return cubes(n, n, a, count, bits)


def per_reading(count: int, n: int, a: Fraction, bits: Bits) -> NDArray[np.int64]:
    """Draw Laplace noise of scale 1/epsilon for each reading, claimed as a promise for the window."""
    return discrete_laplace(count * n, a, bits).reshape(count, n)


def one_less(count: int, n: int, a: Fraction, bits: Bits) -> NDArray[np.int64]:
    """Draw with Gamma(n) in place of Gamma(n+1): on the lattice, P(R) ~ (2R+1)^(n-1) e^(-aR)."""
    return cubes(n - 1, n, a, count, bits)


def scalar(count: int, n: int, a: Fraction, bits: Bits) -> NDArray[np.int64]:
    """Draw one number for each window and add it to every reading."""
    return np.repeat(discrete_laplace(count, a, bits)[:, np.newaxis], n, axis=1)


def clamped(count: int, n: int, a: Fraction, bits: Bits) -> NDArray[np.int64]:
    """Clamp the noise instead of the output, at 3 times its mean size: once in hundreds of readings."""
    limit = int(3 * (n + 1) / (2 * a))
    return honest(count, n, a, bits).clip(-limit, limit)


def one_more(count: int, n: int, a: Fraction, bits: Bits) -> NDArray[np.int64]:
    """Draw R for windows of n - 1 slots, and use it for n."""
    return cubes(n - 1, n, a, count, bits)


def shared(count: int, n: int, a: Fraction, bits: Bits) -> NDArray[np.int64]:
    """Draw R correctly, but use it for two windows, for n uniforms too many."""
    return cubes(n, 2 * n, a, (count + 1) // 2, bits).reshape(-1, n)[:count]


def streamed(count: int, n: int, a: Fraction, bits: Bits) -> NDArray[np.int64]:
    """Draw a new R after n + 1 readings of a stream instead of n: a 31st reading from one R."""
    rows = cubes(n, n + 1, a, count * n // (n + 1) + 1, bits)
    return rows.ravel()[: count * n].reshape(count, n)


def scaled(percent: int) -> Noise:
    """Return the correct law with its scale multiplied by `percent` / 100."""
    return lambda count, n, a, bits: honest(count, n, a * 100 / percent, bits)


def _doubles(count: int, bits: Bits) -> Floats:
    """Draw Laplace noise of scale 1 in floats: the inverse distribution function at multiples of 2^-53."""
    u = ((bits.array(count, np.uint64) >> np.uint64(11)).astype(np.float64) + 0.5) / (1 << 53) - 0.5
    return np.asarray(-np.sign(u) * np.log1p(-2 * np.abs(u)))


def floats(count: int, n: int, a: Fraction, bits: Bits) -> Floats:
    """Draw with a float sampler, without rounding."""
    return (_doubles(count * n, bits) / float(a)).reshape(count, n)


def rounded_floats(count: int, n: int, a: Fraction, bits: Bits) -> NDArray[np.int64]:
    """Draw with a float sampler, rounded to whole quanta."""
    return np.rint(floats(count, n, a, bits)).astype(np.int64)


def single_precision(count: int, n: int, a: Fraction, bits: Bits) -> NDArray[np.int64]:
    """Draw with a float sampler of 24 bits, rounded to quanta finer than its resolution."""
    return np.rint(floats(count, n, a, bits).astype(np.float32)).astype(np.int64)


def numpy_s(count: int, n: int, a: Fraction, _: Bits) -> NDArray[np.int64]:
    """Draw with numpy's float sampler and numpy's own generator, rounded."""
    return np.rint(np.random.default_rng().laplace(scale=1 / float(a), size=(count, n))).astype(np.int64)


def half_even(halves: NDArray[Any]) -> NDArray[Any]:
    """Round half quanta to even quanta, so that a distance of one quantum may become two."""
    return np.asarray(halves // 2 + (halves % 2) * (halves // 2 % 2))


def half_up(halves: NDArray[Any]) -> NDArray[Any]:
    """Round half quanta to quanta by floor(x + 1/2), the correct rule."""
    return np.asarray((halves + 1) // 2)


# Laws of the honest controls ------------------------------------------------------------------------


def per_reading_mass(_: int, a: Fraction, z: NDArray[Any]) -> Floats:
    """Return the log mass of independent discrete Laplace noise."""
    return np.asarray(z.shape[-1] * np.log(np.tanh(float(a) / 2)) - float(a) * np.abs(z).sum(axis=-1))


def one_less_mass(n: int, a: Fraction, z: NDArray[Any]) -> Floats:
    """Return log P(z), P(z) = sum over R >= max|z_i| of (2R+1)^-1 e^(-aR), normalised."""
    r = np.arange(int((n + 60 + (3600 + 120 * n) ** 0.5) / float(a)) + 3)
    log_w = (n - 1) * np.log(2 * r + 1) - float(a) * r
    log_total = log_w.max() + np.log(np.exp(log_w - log_w.max()).sum())
    tails = np.cumsum((np.exp(-float(a) * r) / (2 * r + 1))[::-1])[::-1]
    largest = np.abs(z).max(axis=-1)
    inside = np.log(tails[np.minimum(largest, r.size - 1)])
    return np.asarray(np.where(largest < r.size, inside, -np.inf) - log_total)


def scalar_mass(_: int, a: Fraction, z: NDArray[Any]) -> Floats:
    """Return the log mass of discrete Laplace noise where all slots are equal, -inf elsewhere."""
    mass = np.log(np.tanh(float(a) / 2)) - float(a) * np.abs(z[..., 0])
    return np.where((z == z[..., :1]).all(axis=-1), mass, -np.inf)


def clamped_mass(n: int, a: Fraction, z: NDArray[Any]) -> Floats:
    """Return the log mass of the l_inf law up to the limit, and -inf beyond.

    The mass at the limit itself is too small, which does not matter to the checks.
    """
    limit = int(3 * (n + 1) / (2 * a))
    return np.where(np.abs(z).max(axis=-1) <= limit, linf_mass(n, a, z), -np.inf)


def scaled_mass(percent: int) -> Callable[[int, Fraction, NDArray[Any]], Floats]:
    """Return the l_inf law with its scale multiplied by `percent` / 100."""
    return lambda n, a, z: linf_mass(n, a * 100 / percent, z)


# The checks that must refuse each control ---------------------------------------------------------

A = Fraction(1, 10)


@dataclass(frozen=True)
class Case:
    """A control, and the checks of the audit that must refuse it; other checks may refuse it too."""

    control: Control
    caught: tuple[str, ...]


LARGEST, SCALE, SLOT = "law: largest of a window", "law: its scale", "law: one slot"
PARTS = ("law: two slots", "law: half of the slots")
RATIO, ALL, PAIR = "density ratio", "black box: all slots", "black box: one against another"

CAUGHT = {
    # Laplace of scale 1/epsilon per reading, claimed as a promise for the window: the honest control is
    # refused for its mass, the lying one for the law of its draws and by a black box.
    "per reading": Case(Control(6, A, per_reading, per_reading_mass), (RATIO, ALL)),
    "per reading, lying": Case(Control(30, A, per_reading), (LARGEST, SCALE, SLOT, *PARTS, ALL)),
    # Gamma(n) in place of Gamma(n+1): a leak at the centre, which no black box detects (THEORY 6).
    "Gamma(n)": Case(Control(6, A, one_less, one_less_mass), (RATIO,)),
    "Gamma(n), lying": Case(Control(6, A, one_less), (LARGEST, SCALE, SLOT)),
    "Gamma(n), lying, of one slot": Case(Control(1, A, one_less), (LARGEST, SCALE)),
    "Gamma(n), lying, of 30 slots": Case(Control(30, A, one_less), (LARGEST, SCALE)),
    # One scalar for all readings: correct in the direction (1 .. 1).
    "scalar": Case(Control(6, A, scalar, scalar_mass), (RATIO, PAIR)),
    "scalar, lying": Case(Control(6, A, scalar), (LARGEST, "law: signs", PAIR)),
    "clamped": Case(Control(6, A, clamped, clamped_mass), (RATIO,)),
    "clamped, lying": Case(Control(6, A, clamped), ("law: the largest of all",)),
    # A 31st uniform from one R: in a window of 31, in a stream of windows of 30, in every second window.
    "31st": Case(Control(31, A, one_more, one_less_mass), (RATIO,)),
    "31st, lying": Case(Control(31, A, one_more), (LARGEST, SCALE)),
    "31st, in a stream": Case(Control(30, A, streamed), (LARGEST, "law: windows in succession, from 0")),
    "R shared by two windows": Case(Control(6, A, shared), ("law: windows in succession, from 0",)),
    "half-even": Case(Control(6, A, honest, to_quanta=half_even), (RATIO, "same noise for any window")),
    # Floats: off the lattice; rounded to it, visible for a = 1; of few bits, rounded; from other bits.
    "floats": Case(Control(1, A, floats), ("on the lattice",)),
    "floats, rounded": Case(Control(1, Fraction(1), rounded_floats), (LARGEST, SLOT)),
    "floats of 24 bits": Case(Control(1, Fraction(1, 1 << 30), single_precision), ("law: low bits",)),
    "numpy's floats": Case(Control(1, A, numpy_s), ("bits",)),
    # A scale that is 10% too small or too large.
    "90%": Case(Control(6, A, scaled(90)), (LARGEST, SCALE)),
    "110%": Case(Control(6, A, scaled(110)), (LARGEST, SCALE)),
    "90%, of one slot": Case(Control(1, A, scaled(90)), (SCALE,)),
    "110%, of one slot": Case(Control(1, A, scaled(110)), (SCALE,)),
    "90%, and says so": Case(Control(6, A, scaled(90), scaled_mass(90)), (RATIO,)),
}
