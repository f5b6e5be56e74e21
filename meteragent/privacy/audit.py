"""Audit: whether a mechanism on windows keeps its word, looked at in three ways (THEORY 6).

A mechanism on windows of n whole quanta claims `loss(d)`, with a = loss(one quantum), and states its law by
`log_mass`. What is done with that claim:

1. Exactly. The ratio of masses at adversarial windows and outputs never exceeds the loss; what leaves lies
   on the lattice; equal bits make equal noise, whatever the windows.
2. By its law. Where `log_mass` is that of the l_inf Laplace mechanism, P(z) ~ e^(-a max|z_i|), draws must
   follow it: the largest |z_i| of a window, that of one slot, of two, of half of them, signs, low bits,
   windows in succession. Two-sided: too much noise is no leak, but not what was said.
   A mechanism with the attribute `rounding` "dithered" claims that law on whole quanta, and between them the
   mixture of THEORY-2 A.1: its draws are tried at fractions of a quantum too (`dither`).
3. As a black box that may lie about 2. Windows a shift apart are released; for an event A that was chosen
   on one half of the draws, the other half bounds ln P(A | x')/P(A | x) from below (Clopper and Pearson).
   For the l_inf law, shifts along signs s and A = {midrange of s o z >= shift} are best: there it is the
   Laplace mechanism (THEORY 1.2). Other shifts and events find other leaks: noise that all slots share is
   perfect along (1 .. 1) and void along e_i - e_j.

`alarm` bounds the chance that an honest mechanism is refused: half of it is split evenly over the tests of
the law, half over the events. Chi-square's p is that of its limit (every cell expects 20); all others are
exact or upper bounds. A failed check refutes the claim at that level; passing is evidence, not proof: what
is rarer than 1/samples is seen by the ratio only, and that trusts `log_mass`.
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
"""The chance to refuse an honest mechanism, unless another is asked for."""

_SURE = -27.0  # ln of the chance that other bits make equal noise, if they do
_MIXTURE_SLACK = 1e-4  # in a log mass: what `WindowLaw` loses where it takes an integral
_LAST_DIGITS = 1e-12  # relative: what floats may lose of a log mass


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: whether it is as it must be, in words and in figures."""

    name: str
    passed: bool
    found: str
    figures: Mapping[str, Any]

    def plain(self) -> dict[str, Any]:
        """As data for JSON, which knows no infinite numbers: they are strings."""
        infinite = {k: str(v) for k, v in self.figures.items() if isinstance(v, float) and math.isinf(v)}
        return {**asdict(self), "figures": {**self.figures, **infinite}}


# The audit ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Audit:
    """What was found of one mechanism; `figures()` is all of it for JSON.

    epsilon, claimed: loss(quantum)/quantum, in 1/unit. lower, shown: the loss is at least so much, but for
    a chance of `alarm`. detects: a loss so many times the claim would have been shown with a chance of 0.9,
    of an l_inf law (None: none would); detects_scale: noise so much larger or smaller, relatively, would be.
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
        """As plain data; exact numbers are strings."""
        exact = {"epsilon": str(self.epsilon), "detects": self.detects if self.detects < math.inf else None}
        checks = [check.plain() for check in self.checks]
        return {**asdict(self), **exact, "checks": checks, "holds": self.holds, "miss": MISS}


def _detects(trials: int, x: float, alarm: float) -> float:
    """The factor f for which `midrange_power` is about 0.9: by the normal approximation of both bounds."""
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
    """Whether a mechanism on windows keeps its word, as the module's text has it.

    `samples` windows, two or more, for the law, and as many for each side of each shift (20,000, fewer where
    windows are long); `bits` are the operating system's unless given.

    Raises:
        ValueError: it does not take windows of its n, or the loss of a quantum is not above zero.
    """
    count = max(4000, min(20_000, (1 << 22) // mechanism.n)) if samples is None else samples
    bench = _Bench(mechanism, bits or BulkBits(), min(256, count))
    exact = [_lattice(bench), _reproducible(bench), _added(bench), _ratio(bench)]
    law, shifts = list(_law(bench, count, alarm / 2)), _shifts(bench)
    each = alarm / 2 / len(shifts) / len(_STATISTICS)
    events = [_event(bench, kind, shift, count, each) for kind, shift in shifts.items()]
    lower = max(0.0, *(event.figures["lower"] for event in events))
    return Audit(
        epsilon=mechanism.loss(bench.quantum) / bench.quantum,
        lower=lower / float(bench.telling * bench.quantum),
        detects=_detects(count // 2, bench.loss(bench.telling), each),
        detects_scale=(math.sqrt(2 * math.log(4 * bench.tests / alarm)) + stats.norm.isf(MISS))
        / math.sqrt(count * bench.n),
        samples=count,
        alarm=alarm,
        checks=(*exact, *law, *events),
    )


class _Bench:
    """A mechanism, what it claims, where its draws come from, and how many are few."""

    def __init__(self, mechanism: WindowMechanism, bits: Bits, few: int) -> None:
        self.mechanism, self.bits, self.few = mechanism, bits, few
        self.n, self.quantum = mechanism.n, mechanism.quantum
        self.per, rest = divmod(self.quantum, Fraction(getattr(mechanism, "step", self.quantum)))
        self.a = self.loss(1)
        if not self.a > 0 or rest:
            raise ValueError("the loss of a quantum must be above zero, and a quantum a multiple of the step")
        self.law, self.telling = WindowLaw(self.n, self.a), max(1, round(2 / self.a))
        self.dithered = getattr(mechanism, "rounding", "half-up") == "dithered"
        self.tests = _LAW_TESTS + TESTS * (self.dithered and self.per > 1)
        # Half a quantum, where ways to round differ; dithered, whole quanta, where no dither shows.
        self.base = np.full(self.n, 0 if self.dithered else self.per // 2)

    def loss(self, k: Fraction | int) -> float:
        """The claim for windows k quanta apart."""
        return float(self.mechanism.loss(k * self.quantum))

    def quanta(self, window: Integers) -> Integers:
        """What a window is on the lattice: floor(x/q + 1/2); dithered, floor(x/q)."""
        return np.asarray(window // self.per if self.dithered else round_half_up(window, self.per))

    def noise(self, window: Integers, count: int, bits: Bits | None = None) -> NDArray[Any]:
        """What `count` releases of a window add to it, in quanta."""
        windows = np.tile(window, (count, 1))
        released = self.mechanism.release(windows, bits=bits or self.bits)
        if released.shape != windows.shape:
            raise ValueError(f"windows of shape {windows.shape} were released as {released.shape}")
        return np.asarray(released - self.quanta(window))


# 1. Exactly ---------------------------------------------------------------------------------------


def _lattice(bench: _Bench) -> Check:
    noise = bench.noise(bench.base, bench.few)
    off = float(np.mean(noise != np.rint(noise)))
    return Check("on the lattice", off == 0, f"{off:.0%} of the values are not whole quanta", {"off": off})


def _reproducible(bench: _Bench) -> Check:
    """Its randomness is the bits given: equal ones make equal noise, others (nearly always) do not."""
    one, same, other = (bench.noise(bench.base, bench.few, SeededBits(seed)) for seed in (1, 1, 2))
    certain = bench.few * bench.law.log_most > _SURE  # no window is likelier than zeros
    passed = bool((one == same).all()) and (certain or bool((one != other).any()))
    return Check("bits", passed, "what leaves is decided by the bits given" if passed else "it is not", {})


def _added(bench: _Bench) -> Check:
    """Equal bits make equal noise, whatever the windows: it is added to them, rounded half up.

    Dithered, to windows of whole quanta: what others get is random too.
    """
    few, i = min(64, bench.few), np.arange(bench.n) * (bench.per if bench.dithered else 1)
    right = bench.noise(bench.base, few, SeededBits(3))
    others = [bench.base * 0, bench.base + bench.per, bench.base - 3 * i, (1 << 40) * bench.per + 7 * i]
    moved = sum(bool((bench.noise(x, few, SeededBits(3)) != right).any()) for x in others)
    found = f"with equal bits {moved} of {len(others)} other windows got other noise"
    return Check("same noise for any window", not moved, found, {"windows": len(others), "moved": moved})


def _ratio(bench: _Bench) -> Check:
    """The largest |ln P(y | x)/P(y | x')| in parts of the loss, over adversarial x, x' and y."""
    uneven = bench.base + bench.per * (np.arange(bench.n) % 3)
    worst, noise = 0.0, bench.noise(bench.base, 8)
    moves = [(bench.base, 1), (uneven, 1), (bench.base, bench.telling), (uneven, 2)]
    moves = [(x, k * bench.per) for x, k in moves]
    if bench.dithered:
        parts = [0, *fractions(bench.per)]
        moves += [(uneven + x, k + whole) for x in parts for k in parts[1:] for whole in (0, bench.per)]
    for shift in map(np.array, directions(bench.n)):
        for x, steps in moves:
            other = x + steps * shift
            outputs = _outputs(bench, x, other, shift, noise)
            here, there = (bench.mechanism.log_mass(outputs, window) for window in (x, other))
            worst = max(worst, ratio_excess(here, there, bench.loss(Fraction(int(steps), bench.per))))
    return Check("density ratio", worst <= 1, f"at most {worst:.6g} times the loss", {"worst": worst})


def _outputs(bench: _Bench, x: Integers, other: Integers, shift: Integers, noise: Any) -> NDArray[Any]:
    """Where a ratio may be large: at the windows, beside them, at corners far away, and what noise makes."""
    centres = [bench.quanta(x), bench.quanta(other)]
    single = np.eye(1, bench.n, dtype=np.int64)[0]
    far = [k * shift for k in (1, -1, -bench.telling, 9 * bench.telling * bench.n)]
    near = [c + move for c in centres for move in (0 * shift, single, -single, *far)]
    return np.concatenate([np.array(near), *(c + noise for c in centres)])


def ratio_excess(p: Floats, q: Floats, loss: float) -> float:
    """The largest |p - q| of log masses in parts of the loss; infinite where only one is of nothing.

    What floats lose in the last digits is forgiven.
    """
    some = ~(np.isneginf(p) & np.isneginf(q))
    p, q = p[some], q[some]
    change = np.abs(p - q)
    slack = _LAST_DIGITS * (1 + np.where(np.isfinite(p), np.abs(p), 0))
    change[(change > loss) & (change <= loss + slack)] = loss
    return float(change.max(initial=0)) / loss


# 2. By its law ------------------------------------------------------------------------------------

_LAW_TESTS, _CELLS = 10, 20


def _law(bench: _Bench, count: int, alarm: float) -> Iterator[Check]:
    """Draws against the l_inf law, if it is the mechanism's."""
    zero, i = bench.base * 0, np.arange(9)
    said = bench.mechanism.log_mass(np.outer(i, np.eye(1, bench.n, dtype=np.int64)), zero)
    right = bench.law.log_mass(i)
    if not np.allclose(said, right, rtol=1e-9, atol=1e-4):
        yield Check("law", True, "log_mass is not that of l_inf Laplace: `conformance` looks at draws", {})
        return
    if bench.dithered:
        yield _mixture(bench)
    z = np.rint(bench.noise(bench.base, count)).astype(np.int64)
    for name, p in _law_tests(bench, z):
        yield Check(f"law: {name}", p > alarm / bench.tests, f"p = {p:.2g}", {"p": p})
    if bench.dithered:
        for name, p in dither_tests(bench.mechanism, bench.law, bench.per, count, bench.bits):
            yield Check(f"dither: {name}", p > alarm / bench.tests, f"p = {p:.2g}", {"p": p})


def _mixture(bench: _Bench) -> Check:
    """Whether log_mass at fractions of a quantum is that of the mixture."""
    outputs, wrong = np.outer(np.arange(-4, 5), np.eye(1, bench.n, dtype=np.int64)), 0.0
    for part in fractions(bench.per).tolist():
        said = bench.mechanism.log_mass(outputs, bench.base + part)
        right = bench.law.log_most + log_share(outputs, part / bench.per, bench.a)
        wrong = max(wrong, float(np.abs(said - right).max()))
    passed = wrong < _MIXTURE_SLACK
    found = (
        f"log_mass is at most {wrong:.2g} off that of the mixture" if math.isfinite(wrong) else "it is not"
    )
    return Check("dither: stated law", passed, found, {"off": wrong})


def _law_tests(bench: _Bench, z: Integers) -> Iterator[tuple[str, float]]:
    law, n, row = bench.law, bench.n, np.arange(len(z))
    size = np.abs(z)
    largest = size.max(axis=1)
    # A slot of each window, in turn, and another one.
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
    """Chi-square in cells that the law fills about evenly."""
    place, alone = _places(values, law, k, _CELLS)
    return chi_square(np.bincount(place, minlength=alone.size), alone)


def _succession_p(pairs: Integers, law: WindowLaw) -> float:
    """Chi-square of pairs of independent values in 4 x 4 cells: what two share fills them unevenly."""
    place, alone = _places(pairs, law, law.n, 4)
    counts = np.bincount(place[:, 0] * alone.size + place[:, 1], minlength=alone.size**2)
    return chi_square(counts, np.outer(alone, alone).ravel())


def _places(values: Integers, law: WindowLaw, k: int, cells: int) -> tuple[Integers, Floats]:
    ends = law.quantiles(np.arange(1, cells) / cells, k)
    return np.searchsorted(ends, values), np.diff(law.at_most(ends, k), prepend=0, append=1)


def _extreme_p(most: int, count: int, law: WindowLaw) -> float:
    """Two-sided, of the largest of independent values: what is clamped has too small a one."""
    below, within = law.at_most([most - 1, most], law.n).clip(1e-300, 1).tolist()
    return float(2 * min(0.5, within**count, -math.expm1(count * math.log(below))))


# 3. As a black box --------------------------------------------------------------------------------

_STATISTICS: Mapping[str, Callable[[Any, Any, int], Any]] = {
    "midrange": lambda u, _, __: u.max(axis=1) + u.min(axis=1),
    "clipped sum": lambda u, _, k: np.clip(u, 0, k).sum(axis=1),
    "largest": lambda u, _, __: u.max(axis=1),
    "least": lambda u, _, __: u.min(axis=1),
    "difference": lambda u, rest, __: u[:, 0] - rest[:, 0],
}
"""Of s o (y - x) where the shift s is not 0, of the slots where it is, and of its size in quanta."""


def _shifts(bench: _Bench) -> dict[str, Integers]:
    """Signs, half of them, single slots and pairs: each kind of shift that some wrong noise does not hide."""
    n, i = bench.n, np.arange(bench.n)
    signs = 1 - 2 * (bench.bits.array(2 * n, np.uint8).astype(np.int64).reshape(2, n) & 1)
    first, second = (bench.bits.integer(64) % m for m in (n, max(1, n - 1)))
    second = (first + 1 + second) % n
    single, pair = 1 * (i == first), 1 * (i == first) - (i == second)
    shifts = {"all slots": i * 0 + 1, "signs": signs[0], "other signs": signs[1]}
    shifts |= {"half of the signs": signs[0] * (2 * i < n), "one slot": single, "one against another": pair}
    return shifts if n > 1 else {"one slot": single}


def _event(bench: _Bench, kind: str, shift: Integers, count: int, alarm: float) -> Check:
    """The most that any statistic shows of a shift."""
    k, other = bench.telling, bench.base + bench.telling * bench.per * shift
    near = bench.noise(bench.base, count)
    far = bench.noise(other, count) + bench.quanta(other) - bench.quanta(bench.base)
    u = [z[:, shift != 0] * shift[shift != 0] for z in (near, far)]
    rest = [z[:, shift == 0] if (shift == 0).any() else v for z, v in zip((near, far), u, strict=True)]
    shown = [
        (_shown(of(u[0], rest[0], k), of(u[1], rest[1], k), alarm), name) for name, of in _STATISTICS.items()
    ]
    (lower, best), claim = max(shown), bench.loss(k)
    found = f"at least {lower:.3f} (by the {best}) of {claim:.3f}"
    figures = {"claim": claim, "lower": lower, "statistic": best, "windows": count, "quanta": k}
    return Check(f"black box: {kind}", lower <= claim, found, figures)


def _shown(t0: Any, t1: Any, alarm: float) -> float:
    """The bound of ln P1/P0 by the event {T >= c} or {T < c} that tells most in one half of the draws."""
    half = len(t0) // 2
    cuts = np.unique(np.quantile([t0[:half], t1[:half]], np.arange(65) / 64, method="nearest"))

    def counts(t: Any) -> Any:
        above = half - np.searchsorted(np.sort(t), cuts)
        return np.array([above, half - above])

    chosen, tested = ([counts(t[part]) for t in (t0, t1)] for part in (slice(half), slice(half, 2 * half)))
    both = [lower_bound(chosen[1 - i], chosen[i], half, alarm) for i in (0, 1)]
    world, tail, cut = np.unravel_index(int(np.argmax(both)), np.shape(both))
    return float(lower_bound(tested[1 - world][tail, cut], tested[world][tail, cut], half, alarm))
