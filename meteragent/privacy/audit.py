"""Audit of a mechanism on windows: does it keep its promise? Three kinds of checks (THEORY 6).

A mechanism on windows of n whole quanta claims `loss(d)`, with a = loss(one quantum), and states its law by
`log_mass`. The claim is checked

1. Exactly. The ratio of masses at adversarial windows and outputs never exceeds the loss; outputs lie on the
   lattice; equal bits make equal noise, whatever the windows.
2. By its law. Where `log_mass` is that of the l_inf Laplace mechanism, P(z) ~ e^(-a max|z_i|), draws must
   follow it: the largest |z_i| of a window, of one slot, of two, of half of the slots; signs, low bits,
   consecutive windows. The tests are two-sided: too much noise leaks nothing, but it is not the stated law.
   A mechanism whose attribute `rounding` is "dithered" claims that law on whole quanta, and between them the
   mixture of THEORY-2 A.1: its draws are tested at fractions of a quantum too (`dither`).
3. As a black box that may state a wrong law. Windows a shift apart are released; an event A is chosen on one
   half of the draws, and the other half bounds ln P(A | x')/P(A | x) from below (Clopper and Pearson).
   For the l_inf law, shifts along signs s and A = {midrange of s o z >= shift} are best: along them it is the
   Laplace mechanism (THEORY 1.2). Other shifts and events find other leaks: noise that all slots share is
   perfect along (1 .. 1) and void along e_i - e_j.

`alarm` bounds the chance that an honest mechanism is refused: half of it is split evenly over the tests of
the law, half over the events. Chi-square's p is that of its limit (every cell expects 20); all other p are
exact or upper bounds. A failed check refutes the claim at that level. A passed check is evidence, not proof:
only the ratio can see what is rarer than 1/samples, and it trusts `log_mass`.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from meteragent.privacy.bits import Bits, SeededBits
from meteragent.privacy.bulk import BulkBits
from meteragent.privacy.dither import TESTS, dither_tests, fractions
from meteragent.privacy.exact import round_half_up
from meteragent.privacy.mechanism.dithered import log_share
from meteragent.privacy.mechanism.window_law import WindowLaw, WindowMechanism
from meteragent.privacy.space.lattice import directions
from meteragent.privacy.statistics import MISS, chi_square, lower_bound

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ALARM = 1e-6
"""The default chance to refuse an honest mechanism."""

_SURE = -27.0  # ln of the largest chance of equal noise from different bits that still counts as impossible
_MIXTURE_SLACK = 1e-4  # of a log mass: the error of `WindowLaw` where it replaces a sum by an integral
_LAST_DIGITS = 1e-12  # relative: the rounding error of a log mass


@dataclass(frozen=True)
class Check:
    """One check: whether it passed, its finding in words, and its figures."""

    name: str
    passed: bool
    finding: str
    figures: Mapping[str, Any]

    def plain(self) -> dict[str, Any]:
        """Convert to data for JSON; infinite numbers, which JSON lacks, become strings."""
        infinite = {k: str(v) for k, v in self.figures.items() if isinstance(v, float) and math.isinf(v)}
        figures = {**self.figures, **infinite}
        return {"name": self.name, "passed": self.passed, "found": self.finding, "figures": figures}


# The audit ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Audit:
    """The result of an audit; `figures()` is all of it for JSON.

    epsilon: the claim, loss(quantum)/quantum, in 1/unit.
    lower: a lower bound of the true epsilon, wrong with a chance of `alarm` at most.
    detects: the factor by which the loss of an l_inf law must exceed the claim to be detected with a chance
        of 0.9; infinite where no loss would be.
    detects_scale: the relative error of the noise's scale that is detected with that chance.
    """

    epsilon: Fraction
    lower: float
    detects: float
    detects_scale: float
    samples: int
    alarm: float
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def figures(self) -> dict[str, Any]:
        """Convert to plain data; exact numbers become strings."""
        exact = {"epsilon": str(self.epsilon), "detects": self.detects if self.detects < math.inf else None}
        checks = [check.plain() for check in self.checks]
        return {**asdict(self), **exact, "checks": checks, "holds": self.holds, "miss": MISS}


def _detection_factor(trials: int, x: float, alarm: float) -> float:
    """Return the factor f for which `midrange_power` is about 0.9, by normal approximation."""
    z, beyond, f = float(stats.norm.isf(alarm / 2)), float(stats.norm.isf(MISS)), 1.0
    for _ in range(50):
        if f * x > 50:
            return math.inf
        s1, s0 = trials**-0.5, math.sqrt((2 * math.exp(f * x) - 1) / trials)
        f = 1 + (z * (s1 + s0) + beyond * math.hypot(s1, s0)) / x
    return f


def audit(
    mechanism: WindowMechanism, *, samples: int | None = None, alarm: float = ALARM, bits: Bits | None = None
) -> Audit:
    """Audit whether a mechanism on windows keeps its promise, by the checks that the module describes.

    `samples` windows, two or more, are drawn for the law, and as many on each side of each shift. The default
    is 20,000, fewer where windows are long. `bits` default to the operating system's.

    Raises:
        ValueError: the mechanism refuses windows of n slots, or the loss of a quantum is not above zero.
    """
    count = max(4000, min(20_000, (1 << 22) // mechanism.n)) if samples is None else samples
    bench = _Bench(mechanism, bits or BulkBits(), min(256, count))
    exact = [_check_lattice(bench), _check_bits(bench), _check_noise(bench), _check_ratio(bench)]
    law, shifts = list(_check_law(bench, count, alarm / 2)), _choose_shifts(bench)
    event_alarm = alarm / 2 / len(shifts) / len(_STATISTICS)
    events = [_check_event(bench, kind, shift, count, event_alarm) for kind, shift in shifts.items()]
    lower = max(0.0, *(event.figures["lower"] for event in events))
    return Audit(
        epsilon=mechanism.loss(bench.quantum) / bench.quantum,
        lower=lower / float(bench.shift_quanta * bench.quantum),
        detects=_detection_factor(count // 2, bench.loss(bench.shift_quanta), event_alarm),
        detects_scale=(math.sqrt(2 * math.log(4 * bench.tests / alarm)) + stats.norm.isf(MISS))
        / math.sqrt(count * bench.n),
        samples=count,
        alarm=alarm,
        checks=(*exact, *law, *events),
    )


class _Bench:
    """A mechanism under test: its claim, the source of its draws, the number of draws of a quick check."""

    def __init__(self, mechanism: WindowMechanism, bits: Bits, quick: int) -> None:
        self.mechanism, self.bits, self.quick = mechanism, bits, quick
        self.n, self.quantum = mechanism.n, mechanism.quantum
        self.steps, rest = divmod(self.quantum, Fraction(getattr(mechanism, "step", self.quantum)))
        self.a = self.loss(1)
        if not self.a > 0 or rest:
            raise ValueError(
                "the loss of a quantum must be above zero, and the quantum a multiple of the mechanism's step"
            )
        self.law, self.shift_quanta = WindowLaw(self.n, self.a), max(1, round(2 / self.a))
        self.dithered = getattr(mechanism, "rounding", "half-up") == "dithered"
        self.tests = _LAW_TESTS + TESTS * (self.dithered and self.steps > 1)
        # Half a quantum, where ways to round differ; dithered, whole quanta, where the dither does nothing.
        self.base = np.full(self.n, 0 if self.dithered else self.steps // 2)

    def loss(self, k: Fraction | int) -> float:
        """Return the claimed loss of windows k quanta apart."""
        return float(self.mechanism.loss(k * self.quantum))

    def quanta(self, window: Integers) -> Integers:
        """Return a window on the lattice: floor(x/q + 1/2), or floor(x/q) of a dithered mechanism."""
        return np.asarray(window // self.steps if self.dithered else round_half_up(window, self.steps))

    def noise(self, window: Integers, count: int, bits: Bits | None = None) -> NDArray[Any]:
        """Return the noise of `count` releases of a window, in quanta."""
        windows = np.tile(window, (count, 1))
        released = self.mechanism.release(windows, bits=bits or self.bits)
        if released.shape != windows.shape:
            raise ValueError(f"windows of shape {windows.shape} were released as {released.shape}")
        return np.asarray(released - self.quanta(window))


# 1. Exactly ---------------------------------------------------------------------------------------


def _check_lattice(bench: _Bench) -> Check:
    """Check that released values are whole quanta."""
    noise = bench.noise(bench.base, bench.quick)
    off = float(np.mean(noise != np.rint(noise)))
    return Check("on the lattice", off == 0, f"{off:.0%} of the values are not whole quanta", {"off": off})


def _check_bits(bench: _Bench) -> Check:
    """Check that the output depends on the bits alone: equal bits make equal noise, different ones do not."""
    first, repeat, different = (bench.noise(bench.base, bench.quick, SeededBits(seed)) for seed in (1, 1, 2))
    # Nearly noiseless windows repeat whatever the bits: no window is likelier than zeros.
    certain = bench.quick * bench.law.log_most > _SURE
    passed = bool((first == repeat).all()) and (certain or bool((first != different).any()))
    finding = "equal bits make equal noise" if passed else "noise does not depend on the bits as it must"
    return Check("bits", passed, finding, {})


def _check_noise(bench: _Bench) -> Check:
    """Check that equal bits add equal noise to any window (if dithered, to any of whole quanta)."""
    count, i = min(64, bench.quick), np.arange(bench.n) * (bench.steps if bench.dithered else 1)
    expected = bench.noise(bench.base, count, SeededBits(3))
    windows = [bench.base * 0, bench.base + bench.steps, bench.base - 3 * i, (1 << 40) * bench.steps + 7 * i]
    changed = sum(bool((bench.noise(x, count, SeededBits(3)) != expected).any()) for x in windows)
    finding = f"with equal bits {changed} of {len(windows)} other windows got different noise"
    figures = {"windows": len(windows), "moved": changed}
    return Check("same noise for any window", not changed, finding, figures)


def _check_ratio(bench: _Bench) -> Check:
    """Check the largest |ln P(y | x)/P(y | x')|, relative to the loss, over adversarial x, x' and y."""
    uneven = bench.base + bench.steps * (np.arange(bench.n) % 3)
    worst, noise = 0.0, bench.noise(bench.base, 8)
    moves = [(bench.base, 1), (uneven, 1), (bench.base, bench.shift_quanta), (uneven, 2)]
    moves = [(x, k * bench.steps) for x, k in moves]
    if bench.dithered:
        parts = [0, *fractions(bench.steps)]
        moves += [(uneven + x, k + quanta) for x in parts for k in parts[1:] for quanta in (0, bench.steps)]
    for shift in map(np.array, directions(bench.n)):
        for x, length in moves:
            other = x + length * shift
            outputs = _choose_outputs(bench, x, other, shift, noise)
            p, q = (bench.mechanism.log_mass(outputs, window) for window in (x, other))
            worst = max(worst, ratio_excess(p, q, bench.loss(Fraction(int(length), bench.steps))))
    return Check("density ratio", worst <= 1, f"at most {worst:.6g} times the loss", {"worst": worst})


def _choose_outputs(bench: _Bench, x: Integers, other: Integers, shift: Integers, noise: Any) -> NDArray[Any]:
    """Return outputs where a ratio may be large: both windows, neighbours, far corners, noisy windows."""
    centres = [bench.quanta(x), bench.quanta(other)]
    single = np.eye(1, bench.n, dtype=np.int64)[0]
    far = [k * shift for k in (1, -1, -bench.shift_quanta, 9 * bench.shift_quanta * bench.n)]
    near = [c + move for c in centres for move in (0 * shift, single, -single, *far)]
    return np.concatenate([np.array(near), *(c + noise for c in centres)])


def ratio_excess(p: Floats, q: Floats, loss: float) -> float:
    """Return the largest |p - q| of log masses, relative to the loss; infinite where only one mass is 0.

    Rounding errors in the last digits are forgiven.
    """
    possible = ~(np.isneginf(p) & np.isneginf(q))
    p, q = p[possible], q[possible]
    change = np.abs(p - q)
    slack = _LAST_DIGITS * (1 + np.where(np.isfinite(p), np.abs(p), 0))
    change[(change > loss) & (change <= loss + slack)] = loss
    return float(change.max(initial=0)) / loss


# 2. By its law ------------------------------------------------------------------------------------

_LAW_TESTS, _CELLS = 10, 20


def _check_law(bench: _Bench, count: int, alarm: float) -> Iterator[Check]:
    """Yield the checks of draws against the l_inf law, if the mechanism states it."""
    zero, i = bench.base * 0, np.arange(9)
    stated = bench.mechanism.log_mass(np.outer(i, np.eye(1, bench.n, dtype=np.int64)), zero)
    expected = bench.law.log_mass(i)
    if not np.allclose(stated, expected, rtol=1e-9, atol=1e-4):
        yield Check("law", True, "log_mass is not that of l_inf Laplace: `conformance` tests the draws", {})
        return
    if bench.dithered:
        yield _check_mixture(bench)
    z = np.rint(bench.noise(bench.base, count)).astype(np.int64)
    for name, p in _law_tests(bench, z):
        yield Check(f"law: {name}", p > alarm / bench.tests, f"p = {p:.2g}", {"p": p})
    if bench.dithered:
        for name, p in dither_tests(bench.mechanism, bench.law, bench.steps, count, bench.bits):
            yield Check(f"dither: {name}", p > alarm / bench.tests, f"p = {p:.2g}", {"p": p})


def _check_mixture(bench: _Bench) -> Check:
    """Check that log_mass at fractions of a quantum is that of the mixture."""
    outputs, error = np.outer(np.arange(-4, 5), np.eye(1, bench.n, dtype=np.int64)), 0.0
    for part in fractions(bench.steps).tolist():
        stated = bench.mechanism.log_mass(outputs, bench.base + part)
        expected = bench.law.log_most + log_share(outputs, part / bench.steps, bench.a)
        error = max(error, float(np.abs(stated - expected).max()))
    passed = error < _MIXTURE_SLACK
    finding = (
        f"log_mass differs from the mixture's by at most {error:.2g}"
        if math.isfinite(error)
        else "log_mass is not that of the mixture"
    )
    return Check("dither: stated law", passed, finding, {"off": error})


def _law_tests(bench: _Bench, z: Integers) -> Iterator[tuple[str, float]]:
    """Yield each test of the noise z of many windows against the law, with its p."""
    law, n, row = bench.law, bench.n, np.arange(len(z))
    size = np.abs(z)
    largest = size.max(axis=1)
    # Of each window one slot, in turn, and a second one.
    first, second = row % n, (row % n + 1 + row // n % max(1, n - 1)) % n
    yield "largest of a window", _cells_p(largest, law, n)
    yield "its scale", min(1.0, 2 * math.exp(-len(z) * law.divergence(float(largest.mean()))))
    yield "the largest of all", _extreme_p(int(largest.max()), len(z), law)
    yield "one slot", _cells_p(size[row, first], law, 1)
    two, half = np.maximum(size[row, first], size[row, second]), max(1, n // 2)
    yield "two slots", _cells_p(two, law, min(2, n))
    yield "half of the slots", _cells_p(size[:, -half:].max(axis=1), law, half)
    signs = np.sign(z[row, first]), np.sign(z[row, second])
    quadrant = (2 * (signs[0] > 0) + (signs[1] > 0))[(signs[0] != 0) & (signs[1] != 0)].astype(np.int64)
    even = np.full(4, 0.25) if n > 1 else np.array([0.5, 0, 0, 0.5])
    yield "signs", chi_square(np.bincount(quadrant, minlength=4), even)
    residue = z[row, first] % 16
    yield "low bits", chi_square(np.bincount(residue, minlength=16), law.residues(16))
    for start in (0, 1):
        pairs = largest[start:][: (len(z) - start) // 2 * 2].reshape(-1, 2)
        yield f"windows in succession, from {start}", _succession_p(pairs, law)


def _cells_p(values: Integers, law: WindowLaw, k: int) -> float:
    """Return chi-square's p in cells that the law fills about evenly."""
    cell, probabilities = _assign_cells(values, law, k, _CELLS)
    return chi_square(np.bincount(cell, minlength=probabilities.size), probabilities)


def _succession_p(pairs: Integers, law: WindowLaw) -> float:
    """Return chi-square's p of pairs in 4 x 4 cells, which dependent values fill unevenly."""
    cell, probabilities = _assign_cells(pairs, law, law.n, 4)
    counts = np.bincount(cell[:, 0] * probabilities.size + cell[:, 1], minlength=probabilities.size**2)
    return chi_square(counts, np.outer(probabilities, probabilities).ravel())


def _assign_cells(values: Integers, law: WindowLaw, k: int, cells: int) -> tuple[Integers, Floats]:
    """Return the cell of each value, the largest |z_i| of k slots, and the probability of each cell."""
    ends = law.quantiles(np.arange(1, cells) / cells, k)
    return np.searchsorted(ends, values), np.diff(law.at_most(ends, k), prepend=0, append=1)


def _extreme_p(largest: int, count: int, law: WindowLaw) -> float:
    """Return the two-sided p of the largest of `count` windows, which is too small where noise is clamped."""
    below, within = law.at_most([largest - 1, largest], law.n).clip(1e-300, 1).tolist()
    return float(2 * min(0.5, within**count, -math.expm1(count * math.log(below))))


# 3. As a black box --------------------------------------------------------------------------------

_STATISTICS: Mapping[str, Callable[[Any, Any, int], Any]] = {
    "midrange": lambda u, _, __: u.max(axis=1) + u.min(axis=1),
    "clipped sum": lambda u, _, k: np.clip(u, 0, k).sum(axis=1),
    "largest": lambda u, _, __: u.max(axis=1),
    "least": lambda u, _, __: u.min(axis=1),
    "difference": lambda u, rest, __: u[:, 0] - rest[:, 0],
}
"""Functions of s o (y - x) where the shift s is not 0, of y - x where it is 0, and of the shift in quanta."""


def _choose_shifts(bench: _Bench) -> dict[str, Integers]:
    """Return a shift of each kind: for each there is a wrong noise that the other kinds do not find."""
    n, i = bench.n, np.arange(bench.n)
    signs = 1 - 2 * (bench.bits.array(2 * n, np.uint8).astype(np.int64).reshape(2, n) & 1)
    first, second = (bench.bits.integer(64) % m for m in (n, max(1, n - 1)))
    second = (first + 1 + second) % n
    single, pair = 1 * (i == first), 1 * (i == first) - (i == second)
    shifts = {"all slots": i * 0 + 1, "signs": signs[0], "other signs": signs[1]}
    shifts |= {"half of the signs": signs[0] * (2 * i < n), "one slot": single, "one against another": pair}
    return shifts if n > 1 else {"one slot": single}


def _check_event(bench: _Bench, kind: str, shift: Integers, count: int, alarm: float) -> Check:
    """Check the largest lower bound of the loss that any statistic proves for a shift against the claim."""
    k, other = bench.shift_quanta, bench.base + bench.shift_quanta * bench.steps * shift
    near = bench.noise(bench.base, count)
    far = bench.noise(other, count) + bench.quanta(other) - bench.quanta(bench.base)
    u = [z[:, shift != 0] * shift[shift != 0] for z in (near, far)]
    rest = [z[:, shift == 0] if (shift == 0).any() else v for z, v in zip((near, far), u, strict=True)]
    bounds = [
        (_prove_loss(statistic(u[0], rest[0], k), statistic(u[1], rest[1], k), alarm), name)
        for name, statistic in _STATISTICS.items()
    ]
    (lower, best), claim = max(bounds), bench.loss(k)
    finding = f"at least {lower:.3f} (by the {best}) of {claim:.3f}"
    figures = {"claim": claim, "lower": lower, "statistic": best, "windows": count, "quanta": k}
    return Check(f"black box: {kind}", lower <= claim, finding, figures)


def _prove_loss(t0: Any, t1: Any, alarm: float) -> float:
    """Return a lower bound of ln P1/P0, by the event {T >= c} or {T < c} chosen on half of the draws."""
    half = len(t0) // 2
    cuts = np.unique(np.quantile([t0[:half], t1[:half]], np.arange(65) / 64, method="nearest"))

    def counts(t: Any) -> Any:
        above = half - np.searchsorted(np.sort(t), cuts)
        return np.array([above, half - above])

    chosen, tested = ([counts(t[part]) for t in (t0, t1)] for part in (slice(half), slice(half, 2 * half)))
    bounds = [lower_bound(chosen[1 - i], chosen[i], half, alarm) for i in (0, 1)]
    world, tail, cut = np.unravel_index(int(np.argmax(bounds)), np.shape(bounds))
    return float(lower_bound(tested[1 - world][tail, cut], tested[world][tail, cut], half, alarm))
