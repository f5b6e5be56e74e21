"""Audit of a mechanism on windows: three kinds of checks that it keeps its promise (THEORY 6).

A mechanism on windows of n slots claims the privacy loss `loss(d)`, with a = loss(one quantum), and states
the distribution of its outputs in `log_mass`. The claim is checked in three ways:

1. Exactly, up to rounding errors. At adversarial windows and outputs, the log ratio of masses does not exceed
   the loss; outputs lie on the lattice; equal bits produce equal noise for different windows (of whole
   quanta, if the mechanism dithers), and different bits different noise, unless nearly all noise is 0.
2. By its distribution. If `log_mass` is that of the l_inf Laplace mechanism, where P(z) is proportional to
   e^(-a max|z_i|), draws must follow it; `conformance` tests other distributions. The tests cover the largest
   |z_i| of a window, its mean, and the largest |z_i| of all windows, of one slot, of two, and of half of the
   slots; also signs, low bits and consecutive windows. They are two-sided: too much noise fails as well. A
   mechanism whose `rounding` is "dithered" claims this distribution on whole quanta, and between them the
   mixture of THEORY A.1; its draws are also tested at fractions (`dither`).
3. As a black box, whatever distribution is stated. Outputs y are drawn for two windows x and x' that
   differ by a shift. An event A is chosen with one half of the draws, and the other half bounds
   |ln P(A | x')/P(A | x)| from below (Clopper and Pearson). THEORY 6 says which shifts and events show what.

`false_alarm` bounds the probability that a correct mechanism fails: half is split evenly over the tests of
the distribution, and half over the events. The p-value of chi-square is asymptotic (each cell has an expected
count of at least 20); all others are exact or upper bounds. Only check 1 can show deviations in outputs rarer
than 1/samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from meteragent.privacy.bits import Bits, SeededBits
from meteragent.privacy.bulk import BulkBits
from meteragent.privacy.dither import TESTS, dither_tests, tested_fractions
from meteragent.privacy.exact import round_half_up
from meteragent.privacy.mechanism.dithered import log_share
from meteragent.privacy.mechanism.window_law import WindowLaw, WindowMechanism
from meteragent.privacy.space.lattice import noise_directions
from meteragent.privacy.statistics import MISS, chi_square_p, prove_loss

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ALARM = 1e-6
"""The default bound on the probability that a correct mechanism fails the audit."""
SAMPLES = 20_000
"""The default number of draws for each test; long windows need fewer."""

WIDTH = 100
"""The default width of a table of checks, in characters."""
_NAME_WIDTH = 42  # of the column of names; after a longer name, the finding moves to the right
_SURE = -27.0  # different bits are expected to give different noise if ln of the chance of equality is lower
_MIXTURE_SLACK = 1e-4  # the tolerated error of a log mass, because `WindowLaw` may approximate a sum
_LAST_DIGITS = 1e-12  # the tolerated rounding error of a log mass, relative to 1 + its size


@dataclass(frozen=True)
class Check:
    """The result of a check: its name, whether it passed, its finding in words, and its figures."""

    name: str
    passed: bool
    finding: str
    figures: Mapping[str, Any]

    def to_json_data(self) -> dict[str, Any]:
        """Convert to data for JSON; infinite figures become strings, because JSON has no infinity."""
        infinite = {k: str(v) for k, v in self.figures.items() if isinstance(v, float) and math.isinf(v)}
        figures = {**self.figures, **infinite}
        return {"name": self.name, "passed": self.passed, "found": self.finding, "figures": figures}


def check_lines(checks: Sequence[Check], indent: str = "", width: int = WIDTH) -> Iterator[str]:
    """Yield a line of at most `width` characters, or several, for each check: verdict, name and finding."""
    column = min(max((len(check.name) for check in checks), default=0), _NAME_WIDTH)
    hanging = indent + " " * (column + 10)
    for check in checks:
        verdict = "ok" if check.passed else "FAILED"
        line = f"{indent}{verdict:<8}{check.name:<{column}}  {check.finding}"
        yield from wrap(line, width, subsequent_indent=hanging)


@dataclass(frozen=True)
class Audit:
    """The results of an audit; `figures()` returns all of them as data for JSON.

    epsilon: the claim, loss(quantum)/quantum, in 1/unit.
    lower: a lower bound on the true epsilon in 1/unit, wrong with a probability of at most `false_alarm`.
    detects: the ratio of true to claimed loss that the audit of l_inf Laplace noise detects with a
        probability of about 0.9; infinite if even a loss of 50 would not be detected.
    detects_scale: the relative error of that noise's scale that is detected with the same probability.
    samples: the number of windows drawn for the tests of the distribution, and on each side of each shift.
    alarm: the bound on the probability that a correct mechanism fails.
    checks: the results of the exact checks, the distribution tests and the events, in this order.
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
        """Convert to data for JSON, with `holds` and `MISS`; an infinite `detects` becomes None."""
        exact = {"epsilon": str(self.epsilon), "detects": self.detects if self.detects < math.inf else None}
        checks = [check.to_json_data() for check in self.checks]
        return {**asdict(self), **exact, "checks": checks, "holds": self.holds, "miss": MISS}


def _detection_factor(trials: int, x: float, false_alarm: float) -> float:
    """Return the f for which `midrange_power` is about 0.9, by normal approximation; inf if f x > 50."""
    z_alarm, z_miss, f = float(stats.norm.isf(false_alarm / 2)), float(stats.norm.isf(MISS)), 1.0
    for _ in range(50):
        if f * x > 50:
            return math.inf
        s1, s0 = trials**-0.5, math.sqrt((2 * math.exp(f * x) - 1) / trials)
        f = 1 + (z_alarm * (s1 + s0) + z_miss * math.hypot(s1, s0)) / x
    return f


def audit(
    mechanism: WindowMechanism,
    *,
    samples: int | None = None,
    false_alarm: float = ALARM,
    bits: Bits | None = None,
) -> Audit:
    """Check whether a mechanism on windows keeps its promise, by the checks in the module's docstring.

    `samples` windows, at least two, are drawn for the tests of the distribution and on each side of each
    shift: by default SAMPLES, or fewer (at least 4,000) for long windows. If `bits` is None, the source is
    `BulkBits`. Raises ValueError if the mechanism refuses windows of n slots or releases them in another
    shape, the loss of a quantum is not positive, or the quantum is not a multiple of the mechanism's step.
    """
    count = max(4000, min(SAMPLES, (1 << 22) // mechanism.n)) if samples is None else samples
    bench = _Bench(mechanism, bits or BulkBits(), min(256, count))
    exact = [_check_lattice(bench), _check_bits(bench), _check_noise(bench), _check_ratio(bench)]
    law, shifts = list(_check_law(bench, count, false_alarm / 2)), _choose_shifts(bench)
    event_alarm = false_alarm / 2 / len(shifts) / len(STATISTICS)
    events = [_check_event(bench, kind, shift, count, event_alarm) for kind, shift in shifts.items()]
    lower = max(0.0, *(event.figures["lower"] for event in events))
    return Audit(
        epsilon=mechanism.loss(bench.quantum) / bench.quantum,
        lower=lower / float(bench.shift_quanta * bench.quantum),
        detects=_detection_factor(count // 2, bench.loss(bench.shift_quanta), event_alarm),
        detects_scale=(math.sqrt(2 * math.log(4 * bench.tests / false_alarm)) + stats.norm.isf(MISS))
        / math.sqrt(count * bench.n),
        samples=count,
        alarm=false_alarm,
        checks=(*exact, *law, *events),
    )


class _Bench:
    """A mechanism under test, with its claim, a source of bits, and the number of draws for a quick check."""

    def __init__(self, mechanism: WindowMechanism, bits: Bits, quick: int) -> None:
        self.mechanism, self.bits, self.quick = mechanism, bits, quick
        self.n, self.quantum = mechanism.n, mechanism.quantum
        self.steps, remainder = divmod(self.quantum, Fraction(getattr(mechanism, "step", self.quantum)))
        self.a = self.loss(1)
        if not self.a > 0 or remainder:
            raise ValueError(
                "the loss of a quantum must be positive, and the quantum a multiple of the mechanism's step"
            )
        self.law, self.shift_quanta = WindowLaw(self.n, self.a), max(1, round(2 / self.a))
        self.dithered = getattr(mechanism, "rounding", "half-up") == "dithered"
        self.tests = _LAW_TESTS + TESTS * (self.dithered and self.steps > 1)
        # The base is half a quantum, where rounding rules differ; if dithered, 0, which no dither changes.
        self.base = np.full(self.n, 0 if self.dithered else self.steps // 2, np.int64)

    def loss(self, k: Fraction | int) -> float:
        """Return the claimed loss between windows k quanta apart."""
        return float(self.mechanism.loss(k * self.quantum))

    def quanta(self, window: Integers) -> Integers:
        """Round a window to the lattice: floor(x/q + 1/2), or floor(x/q) for a dithered mechanism."""
        return np.asarray(window // self.steps if self.dithered else round_half_up(window, self.steps))

    def noise(self, window: Integers, count: int, bits: Bits | None = None) -> NDArray[Any]:
        """Return the noise of `count` releases of a window, in quanta: outputs minus the rounded window."""
        windows = np.tile(window, (count, 1))
        released = self.mechanism.release(windows, bits=bits or self.bits)
        if released.shape != windows.shape:
            raise ValueError(f"windows of shape {windows.shape} were released as {released.shape}")
        return np.asarray(released - self.quanta(window))


def _check_lattice(bench: _Bench) -> Check:
    """Check that released values are whole quanta."""
    noise = bench.noise(bench.base, bench.quick)
    share = float(np.mean(noise != np.rint(noise)))
    finding = f"{share:.0%} of the values are not whole quanta"
    return Check("on the lattice", share == 0, finding, {"off": share})


def _check_bits(bench: _Bench) -> Check:
    """Check that the noise depends on the bits: equal bits produce equal noise, different bits do not."""
    noise, repeat, contrast = (bench.noise(bench.base, bench.quick, SeededBits(seed)) for seed in (1, 1, 2))
    # If nearly all noise is 0, different bits may give equal noise, too.
    certain = bench.quick * bench.law.log_most > _SURE
    passed = bool((noise == repeat).all()) and (certain or bool((noise != contrast).any()))
    finding = "equal bits make equal noise" if passed else "noise does not depend on the bits as it must"
    return Check("bits", passed, finding, {})


def _check_noise(bench: _Bench) -> Check:
    """Check that equal bits add equal noise to different windows (of whole quanta, if dithered)."""
    count, step = min(64, bench.quick), bench.steps if bench.dithered else 1
    i = np.arange(bench.n, dtype=np.int64) * step
    base_noise = bench.noise(bench.base, count, SeededBits(3))
    windows = [bench.base * 0, bench.base + bench.steps, bench.base - 3 * i, (1 << 40) * bench.steps + 7 * i]
    different = sum(bool((bench.noise(x, count, SeededBits(3)) != base_noise).any()) for x in windows)
    finding = f"{different} of {len(windows)} other windows got different noise"
    figures = {"windows": len(windows), "moved": different}
    return Check("same noise for any window", not different, finding, figures)


def _check_ratio(bench: _Bench) -> Check:
    """Check the largest |ln P(y | x)/P(y | x')|, relative to the loss, over adversarial x, x' and y."""
    uneven = bench.base + bench.steps * (np.arange(bench.n) % 3)
    worst, noise = 0.0, bench.noise(bench.base, 8)
    moves = [(bench.base, 1), (uneven, 1), (bench.base, bench.shift_quanta), (uneven, 2)]
    moves = [(x, k * bench.steps) for x, k in moves]
    if bench.dithered:
        parts = [0, *tested_fractions(bench.steps)]
        moves += [(uneven + x, k + quanta) for x in parts for k in parts[1:] for quanta in (0, bench.steps)]
    for shift in map(np.array, noise_directions(bench.n)):
        for x, length in moves:
            partner = x + length * shift
            outputs = _choose_outputs(bench, x, partner, shift, noise)
            p, q = (bench.mechanism.log_mass(outputs, window) for window in (x, partner))
            worst = max(worst, ratio_excess(p, q, bench.loss(Fraction(int(length), bench.steps))))
    return Check("density ratio", worst <= 1, f"at most {worst:.6g} times the loss", {"worst": worst})


def _choose_outputs(
    bench: _Bench, x: Integers, partner: Integers, shift: Integers, noise: Any
) -> NDArray[Any]:
    """Return both rounded windows, and each of them plus or minus a unit, plus shifts, and plus noise."""
    centres = [bench.quanta(x), bench.quanta(partner)]
    unit = np.eye(1, bench.n, dtype=np.int64)[0]
    corners = [k * shift for k in (1, -1, -bench.shift_quanta, 9 * bench.shift_quanta * bench.n)]
    centred = [c + move for c in centres for move in (0 * shift, unit, -unit, *corners)]
    return np.concatenate([np.array(centred), *(c + noise for c in centres)])


def ratio_excess(p: Floats, q: Floats, loss: float) -> float:
    """Return the largest |p - q| of log masses, relative to the loss.

    The result is infinite if only one of two masses is 0, or a log mass is NaN. Outputs whose masses are both
    0 are ignored. Rounding errors in the last digits are tolerated.
    """
    is_possible = ~(np.isneginf(p) & np.isneginf(q))
    p, q = p[is_possible], q[is_possible]
    change = np.abs(p - q)
    slack = _LAST_DIGITS * (1 + np.where(np.isfinite(p), np.abs(p), 0))
    change[(change > loss) & (change <= loss + slack)] = loss
    return math.inf if np.isnan(change).any() else float(change.max(initial=0)) / loss


_LAW_TESTS, _CELLS = 10, 20


def _check_law(bench: _Bench, count: int, false_alarm: float) -> Iterator[Check]:
    """Yield the tests of draws against l_inf Laplace noise, or a passed check if `log_mass` differs."""
    zero, i = bench.base * 0, np.arange(9)
    stated = bench.mechanism.log_mass(np.outer(i, np.eye(1, bench.n, dtype=np.int64)), zero)
    expected = bench.law.log_mass(i)
    if not np.allclose(stated, expected, rtol=1e-9, atol=1e-4):
        yield Check("law", True, "not l_inf Laplace: `conformance` tests the draws", {})
        return
    if bench.dithered:
        yield _check_mixture(bench)
    z = np.rint(bench.noise(bench.base, count)).astype(np.int64)
    for name, p in _law_tests(bench, z):
        yield Check(f"law: {name}", p > false_alarm / bench.tests, f"p = {p:.2g}", {"p": p})
    if bench.dithered:
        for name, p in dither_tests(bench.mechanism, bench.law, bench.steps, count, bench.bits):
            yield Check(f"dither: {name}", p > false_alarm / bench.tests, f"p = {p:.2g}", {"p": p})


def _check_mixture(bench: _Bench) -> Check:
    """Check that `log_mass` at fractions of a quantum is the log mass of the mixture."""
    outputs, error = np.outer(np.arange(-4, 5), np.eye(1, bench.n, dtype=np.int64)), 0.0
    for part in tested_fractions(bench.steps).tolist():
        stated = bench.mechanism.log_mass(outputs, bench.base + part)
        expected = bench.law.log_most + log_share(outputs, part / bench.steps, bench.a)
        error = float(np.maximum(error, np.abs(stated - expected).max()))  # NaN stays NaN
    passed = error < _MIXTURE_SLACK
    finding = (
        f"log_mass is within {error:.2g} of the mixture's"
        if math.isfinite(error)
        else "log_mass is not that of the mixture"
    )
    return Check("dither: stated law", passed, finding, {"off": error})


def _law_tests(bench: _Bench, z: Integers) -> Iterator[tuple[str, float]]:
    """Yield the name and the p-value of each test of the noise z of many windows."""
    law, n, row = bench.law, bench.n, np.arange(len(z))
    size = np.abs(z)
    largest = size.max(axis=1)
    # `first` and `second` are two slots of each window (one if n = 1); the pair changes with the window.
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
    yield "signs", chi_square_p(np.bincount(quadrant, minlength=4), even)
    residue = z[row, first] % 16
    yield "low bits", chi_square_p(np.bincount(residue, minlength=16), law.residue_probabilities(16))
    for start in (0, 1):
        pairs = largest[start:][: (len(z) - start) // 2 * 2].reshape(-1, 2)
        yield f"windows in succession, from {start}", _succession_p(pairs, law)


def _cells_p(values: Integers, law: WindowLaw, k: int) -> float:
    """Return the p-value of chi-square on cells that are about equally likely under `law`."""
    cell, probabilities = _assign_cells(values, law, k, _CELLS)
    return chi_square_p(np.bincount(cell, minlength=probabilities.size), probabilities)


def _succession_p(pairs: Integers, law: WindowLaw) -> float:
    """Return the p-value of a chi-square test, in at most 4 x 4 cells, for independence within pairs."""
    cell, probabilities = _assign_cells(pairs, law, law.n, 4)
    counts = np.bincount(cell[:, 0] * probabilities.size + cell[:, 1], minlength=probabilities.size**2)
    return chi_square_p(counts, np.outer(probabilities, probabilities).ravel())


def _assign_cells(values: Integers, law: WindowLaw, k: int, cells: int) -> tuple[Integers, Floats]:
    """Return each value's cell, and the probability of each cell; a value is the largest |z_i| of k slots."""
    ends = law.quantiles(np.arange(1, cells) / cells, k)
    return np.searchsorted(ends, values), np.diff(law.probability_at_most(ends, k), prepend=0, append=1)


def _extreme_p(largest: int, count: int, law: WindowLaw) -> float:
    """Return the two-sided p-value of the largest |z_i| in `count` windows; it is small for clamped noise."""
    below, within = law.probability_at_most([largest - 1, largest], law.n).clip(1e-300, 1).tolist()
    return float(2 * min(0.5, within**count, -math.expm1(count * math.log(below))))


STATISTICS: Mapping[str, Callable[[Any, Any, int], Any]] = {
    "midrange": lambda u, _, __: u.max(axis=1) + u.min(axis=1),
    "clipped sum": lambda u, _, k: np.clip(u, 0, k).sum(axis=1),
    "largest": lambda u, _, __: u.max(axis=1),
    "least": lambda u, _, __: u.min(axis=1),
    "difference": lambda u, v, __: u[:, 0] - v[:, 0],
}
"""Functions of u, v and the shift's length in quanta: u is s (y - x) in the slots with shift s = 1 or -1, and
v is y - x in the other slots (or u if there are none); y is released from x or from the shifted window."""


def _choose_shifts(bench: _Bench) -> dict[str, Integers]:
    """Return a shift of each kind (a single kind for n = 1); each detects faults that the others miss."""
    n, i = bench.n, np.arange(bench.n)
    signs = 1 - 2 * (bench.bits.array(2 * n, np.uint8).astype(np.int64).reshape(2, n) & 1)
    first, second = (bench.bits.integer(64) % m for m in (n, max(1, n - 1)))
    second = (first + 1 + second) % n
    one_slot, pair = 1 * (i == first), 1 * (i == first) - (i == second)
    shifts = {"all slots": i * 0 + 1, "signs": signs[0], "other signs": signs[1]}
    shifts |= {"half of the signs": signs[0] * (2 * i < n), "one slot": one_slot, "one against another": pair}
    return shifts if n > 1 else {"one slot": one_slot}


def _check_event(bench: _Bench, kind: str, shift: Integers, count: int, false_alarm: float) -> Check:
    """Check that no statistic proves a loss above the claim for a shift."""
    k, shifted = bench.shift_quanta, bench.base + bench.shift_quanta * bench.steps * shift
    base_noise = bench.noise(bench.base, count)
    shifted_noise = bench.noise(shifted, count) + bench.quanta(shifted) - bench.quanta(bench.base)
    u = [z[:, shift != 0] * shift[shift != 0] for z in (base_noise, shifted_noise)]
    noises = zip((base_noise, shifted_noise), u, strict=True)
    v = [z[:, shift == 0] if (shift == 0).any() else moved_slots for z, moved_slots in noises]
    bounds = [
        (prove_loss(statistic(u[0], v[0], k), statistic(u[1], v[1], k), false_alarm), name)
        for name, statistic in STATISTICS.items()
    ]
    (lower, best_statistic), claim = max(bounds), bench.loss(k)
    finding = f"at least {lower:.3f} ({best_statistic}), claim {claim:.3f}"
    figures = {"claim": claim, "lower": lower, "statistic": best_statistic, "windows": count, "quanta": k}
    return Check(f"black box: {kind}", lower <= claim, finding, figures)
