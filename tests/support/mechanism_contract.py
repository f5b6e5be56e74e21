"""Tests that every mechanism must pass: a mechanism's test class inherits `Conformance`.

The suite is the library's, `meteragent.privacy.conformance`. A correct mechanism fails a run with a
probability of at most ALARM; seeds are fixed, so that a run is reproducible. `MechanismContract` is for
noise on windows, which it also compares with the exact law.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, Protocol

import mpmath
import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from meteragent.privacy import Bits, SeededBits
from meteragent.privacy.conformance import Report, conform
from meteragent.privacy.mechanism.base import Guarantee

ALARM = 1e-9


class Mechanism(Protocol):
    """A mechanism on windows of n slots, in quanta."""

    def loss(self, distance: Fraction, /) -> Fraction:
        """Return the log of how much the odds may change between windows at `distance`, in the unit."""
        ...

    def release(self, windows: ArrayLike, *, bits: Bits | None = None) -> NDArray[np.int64]:
        """Return windows with noise, in quanta."""
        ...


@dataclass(frozen=True)
class Drawn:
    """A mechanism with the promise of `stated_mechanism` and the draws of `drawn_mechanism`."""

    stated_mechanism: Any
    drawn_mechanism: Any
    space: Any = field(init=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("space", "n", "quantum", "step", "rounding"):
            if hasattr(self.stated_mechanism, name):
                object.__setattr__(self, name, getattr(self.stated_mechanism, name))

    def release(self, points: Any, *, bits: Bits | None = None) -> NDArray[Any]:
        """Release with `drawn_mechanism`."""
        released: NDArray[Any] = self.drawn_mechanism.release(points, bits=bits)
        return released

    def log_mass(self, outputs: Any, point: Any) -> NDArray[np.float64]:
        """Return the log mass of `stated_mechanism`."""
        mass: NDArray[np.float64] = self.stated_mechanism.log_mass(outputs, point)
        return mass


class MetricDrawn(Drawn):
    """A `Drawn` with a metric promise."""

    def loss(self, distance: Fraction, /) -> Fraction:
        """Return the loss of `stated_mechanism`."""
        loss: Fraction = self.stated_mechanism.loss(distance)
        return loss


class PairDrawn(Drawn):
    """A `Drawn` whose promise is a pair."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of `stated_mechanism`."""
        guarantee: Guarantee = self.stated_mechanism.guarantee
        return guarantee


class Conformance:
    """The library's suite on a mechanism; a subclass defines `made`."""

    samples = 10_000
    tight = True
    """Whether some output attains the loss."""
    scaled = "epsilon"
    """The parameter that scales the noise."""
    pairs: Iterable[tuple[Any, Any]] | None = None
    """Pairs of points to compare; None: those of the space."""

    def made(self) -> "partial[Any]":
        """Return a partial that makes the mechanism from keywords."""
        raise NotImplementedError

    def other(self, factor: Fraction) -> Any:
        """Return the mechanism with the parameter `scaled` multiplied by `factor`."""
        make = self.made()
        return partial(make, **{self.scaled: Fraction(make.keywords[self.scaled]) * factor})()

    def tried(self, mechanism: Any, make: "partial[Any] | None" = None) -> Report:
        """Return the suite's findings."""
        return conform(
            mechanism,
            pairs=self.pairs,
            make=make,
            tight=self.tight,
            samples=self.samples,
            false_alarm=ALARM,
            bits=SeededBits(7),
        )

    def test_it_conforms(self) -> None:
        """Promise, ratios, release and draws are correct; false-alarm rate ALARM."""
        report = self.tried(self.made()(), self.made())
        assert report.conforms, report.table()

    @pytest.mark.parametrize("factor", [Fraction(10, 9), Fraction(9, 10)])
    def test_draws_of_another_scale_are_refused(self, factor: Fraction) -> None:
        """Draws with 10% more or less noise are refused, by the checks that examine draws."""
        stated_mechanism, drawn_mechanism = self.made()(), self.other(factor)
        kind = MetricDrawn if hasattr(stated_mechanism, "loss") else PairDrawn
        failures = self.tried(kind(stated_mechanism, drawn_mechanism)).failed
        assert failures
        assert all(
            name.startswith(("draws", "frequencies", "law", "dither", "black box")) for name in failures
        )

    def test_equal_parameters_make_equal_mechanisms(self) -> None:
        """A mechanism is an immutable value: equal parameters make equal mechanisms."""
        mechanism, copy = self.made()(), self.made()()
        assert mechanism == copy
        with pytest.raises(AttributeError):
            mechanism.epsilon = Fraction(100)


class MechanismContract(Conformance):
    """The suite for noise on windows; a subclass defines `make` and `probabilities`."""

    epsilon = Fraction(1, 3)
    quantum = Fraction(1, 2)

    def made(self) -> "partial[Any]":
        """Return a partial that makes windows of three slots."""
        return partial(self.make, epsilon=self.epsilon, quantum=self.quantum, n=3)

    def make(self, epsilon: Fraction, quantum: Fraction, n: int) -> Mechanism:
        """Make the mechanism for windows of n slots."""
        raise NotImplementedError

    def probabilities(self, mechanism: Mechanism, reach: int) -> dict[tuple[int, ...], mpmath.mpf]:
        """Return P(z), up to a common factor, for all z in {-reach .. reach}^n, correct to 30 digits."""
        raise NotImplementedError

    @pytest.fixture(params=[1, 2, 5])
    def mechanism(self, request: pytest.FixtureRequest) -> Mechanism:
        """Return the mechanism for windows of 1, 2 and 5 slots."""
        return self.make(self.epsilon, self.quantum, request.param)

    def size(self, mechanism: Mechanism) -> int:
        """Return the number of slots in the windows of a mechanism."""
        n: int = mechanism.n  # type: ignore[attr-defined]
        return n

    def test_nothing_is_lost_between_equal_windows(self, mechanism: Mechanism) -> None:
        """The loss at distance 0 is 0."""
        assert mechanism.loss(Fraction(0)) == 0

    def test_the_loss_is_epsilon_times_distance_on_the_lattice(self, mechanism: Mechanism) -> None:
        """At a multiple of the quantum the loss is epsilon times the distance, exactly."""
        for quanta in (1, 2, 7, 1000):
            assert mechanism.loss(quanta * self.quantum) == self.epsilon * quanta * self.quantum

    def test_between_lattice_points_rounding_costs_up_to_a_quantum(self, mechanism: Mechanism) -> None:
        """The loss at d is that of the next multiple of the quantum: at least epsilon d, never less."""
        for d in (Fraction(1, 10**9), Fraction(49, 100), Fraction(51, 100), Fraction(22, 7)):
            assert self.epsilon * d < mechanism.loss(d) < self.epsilon * (d + self.quantum)
            assert mechanism.loss(d) % (self.epsilon * self.quantum) == 0

    def test_the_loss_is_exact_and_refuses_what_is_not(self, mechanism: Mechanism) -> None:
        """A loss is a Fraction; a float distance is a TypeError, a negative one a ValueError."""
        assert isinstance(mechanism.loss(Fraction(3)), Fraction)
        with pytest.raises(TypeError, match="distance must be exact"):
            mechanism.loss(0.5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="not be negative"):
            mechanism.loss(Fraction(-1))

    def test_parameters_are_exact_and_above_zero(self) -> None:
        """A float parameter is a TypeError that names it; zero and below are ValueErrors."""
        parameters: dict[str, Any] = {"epsilon": self.epsilon, "quantum": self.quantum}
        for name in parameters:
            with pytest.raises(TypeError, match=f"{name} must be exact"):
                self.make(**{**parameters, name: 0.25}, n=1)
            for value in (Fraction(0), Fraction(-1)):
                with pytest.raises(ValueError, match=f"{name} must be positive"):
                    self.make(**{**parameters, name: value}, n=1)
        with pytest.raises(ValueError, match="n must be at least 1"):
            self.make(**parameters, n=0)

    def test_a_mechanism_cannot_be_changed(self, mechanism: Mechanism) -> None:
        """A mechanism's parameters are immutable; equal parameters make equal mechanisms."""
        with pytest.raises(AttributeError):
            mechanism.epsilon = Fraction(100)  # type: ignore[attr-defined]
        copy = self.make(self.epsilon, self.quantum, self.size(mechanism))
        assert copy == mechanism
        assert hash(copy) == hash(mechanism)

    def test_a_release_has_the_shape_of_its_windows(self, mechanism: Mechanism) -> None:
        """Windows of shape (..., n) are released as int64 of that shape; the input is not modified."""
        n = self.size(mechanism)
        for shape in [(n,), (4, n), (2, 3, n), (0, n)]:
            for dtype in (np.int16, np.uint32, np.int64):
                windows = np.ones(shape, dtype)
                released = mechanism.release(windows, bits=SeededBits(1))
                assert released.shape == shape
                assert released.dtype == np.int64
                assert (windows == 1).all()

    def test_the_noise_does_not_depend_on_the_windows(self, mechanism: Mechanism) -> None:
        """With the same bits the noise is the same for any values: a release only adds noise."""
        n = self.size(mechanism)
        noise = mechanism.release(np.zeros((50, n), np.int64), bits=SeededBits(2))
        windows = np.arange(50 * n).reshape(50, n) * 10**12
        assert (mechanism.release(windows, bits=SeededBits(2)) - windows == noise).all()
        assert len({tuple(row) for row in noise.tolist()}) > 10

    def test_noise_is_fresh_and_secret_unless_bits_are_given(self, mechanism: Mechanism) -> None:
        """Without `bits`, the operating system's bits are used, so that no two releases are alike."""
        windows = np.zeros((200, self.size(mechanism)), np.int64)
        assert (mechanism.release(windows) != mechanism.release(windows)).any()

    def test_what_is_no_window_is_refused(self, mechanism: Mechanism) -> None:
        """Values that are not whole quanta, of the wrong length or out of range are refused."""
        n = self.size(mechanism)
        with pytest.raises(TypeError, match="whole quanta"):
            mechanism.release(np.zeros((2, n)))
        for shape in [(), (n + 1,), (n, 2, n + 1)]:
            with pytest.raises(ValueError, match="points have shape"):
                mechanism.release(np.zeros(shape, np.int64))
        for value in (-(2**63), 2**63 - 1):
            with pytest.raises(ValueError, match="beyond"):
                mechanism.release(np.full((1, n), value))

    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_the_density_ratio_is_within_the_loss_and_reaches_it(self, n: int) -> None:
        """P(z)/P(z - k) <= e^loss(q max|k_i|) for all z, k of a box, and some z attains it (Def. 1)."""
        mechanism, reach = self.make(self.epsilon, self.quantum, n), 4 if n < 3 else 2
        law = self.probabilities(mechanism, reach)
        worst: dict[int, mpmath.mpf] = {}
        with mpmath.workdps(40):
            logs = {z: mpmath.log(p) for z, p in law.items()}
            for z, y in product(law, repeat=2):
                d = max(abs(u - v) for u, v in zip(z, y, strict=True))
                worst[d] = max(worst.get(d, mpmath.mpf("-inf")), logs[z] - logs[y])
            for d in range(1, reach + 1):
                loss = mechanism.loss(d * self.quantum)
                assert abs(worst[d] * loss.denominator - loss.numerator) < mpmath.mpf(10) ** -28
            assert all(worst[d] <= worst[reach] * d / reach + mpmath.mpf(10) ** -28 for d in worst)
