"""Conformance tests: does a mechanism, from this library or any other, keep its promise?

    from meteragent.privacy.conformance import conform

    report = conform(mechanism)  # any MetricMechanism or PairMechanism
    print(report.table())

or, without a program of your own, `python -m meteragent.privacy.conformance package.module:Name epsilon=1/2`.

The suite checks (each result is a `Check` with its figures):

* the promise: the loss, if the mechanism has one, is exact, is 0 at distance 0, does not decrease with the
  distance, and refuses floats and negative distances. If `conform` gets `make`, the mechanism must also
  refuse floats as parameters;
* the log ratio of masses: it is within the loss at the first 512 pairs that the space proposes for tests, and
  (unless `tight` is False) reaches the loss at one of them. For a promise (epsilon, delta), the suite checks
  instead that the hockey-stick sum of max(0, P - e^epsilon P') is within delta at up to 64 of these pairs,
  where P and P' are the masses of an output at the two points. The sum is exact if the outputs can be listed.
  Otherwise it is bounded from below, by the outputs that were drawn or, for outputs that are floats, by
  Hoeffding's inequality;
* the release: it keeps shapes (more than one dimension of points is tested only for categories, numbers and
  windows), does not change the array of points, and takes all randomness from the bits;
* the draws: they are distributed as `log_mass` states (by two-sided tests: `calibration_p_values` and, unless
  outputs are floats or rarely repeat, chi-square over outputs or ranges of outputs) and are independent of
  each other. Noise on unbounded windows under d_inf also has to pass all checks of
  `meteragent.privacy.audit`.

A mechanism with a loss but without `log_mass` is a black box: its promise and its shapes are checked as
above. The points of up to six pairs are released many times; one half of the draws chooses an event, and the
other half bounds how well this event distinguishes the two points. `audit_release` does the same for a bare
function and any claims, except for the checks of promise and shapes.

The probability that a mechanism whose promise and `log_mass` are true fails any of the tests on draws is at
most `false_alarm`, which is divided among these tests.

For example, a simple Laplace mechanism on whole numbers, and a subclass that adds half of the noise that it
states:

    >>> import numpy as np
    >>> from meteragent.privacy import Numbers, SeededBits, SystemBits, discrete_laplace
    >>> from meteragent.privacy.exact import positive, to_rational
    >>> class Mine:
    ...     def __init__(self, epsilon):
    ...         self.epsilon = positive("epsilon", epsilon)  # a float is refused
    ...         self.space = Numbers(quantum=1)
    ...     def loss(self, distance):
    ...         exact = to_rational("distance", distance)
    ...         if exact < 0:
    ...             raise ValueError("a distance must not be negative")
    ...         return self.epsilon * exact
    ...     def noise(self, count, bits):
    ...         return discrete_laplace(count, self.epsilon, bits)
    ...     def release(self, points, *, bits=None):
    ...         x = np.asarray(points)
    ...         return x + self.noise(x.size, bits or SystemBits()).reshape(x.shape)
    ...     def log_mass(self, outputs, point):
    ...         a = float(self.epsilon)
    ...         return np.log(np.tanh(a / 2)) - a * np.abs(np.asarray(outputs) - point)
    >>> class Half(Mine):
    ...     def noise(self, count, bits):
    ...         return discrete_laplace(count, 2 * self.epsilon, bits)
    >>> conform(Mine("1/2"), samples=2000, bits=SeededBits(1)).failed
    []
    >>> conform(Half("1/2"), samples=2000, bits=SeededBits(1)).failed
    ['draws are calibrated', 'frequencies at 0', 'frequencies at 1', 'frequencies at -1']
"""

from meteragent.privacy.audit import Check
from meteragent.privacy.conformance.draws import calibration_p_values
from meteragent.privacy.conformance.suite import Report, UnsupportedMechanism, audit_release, conform

__all__ = ["Check", "Report", "UnsupportedMechanism", "audit_release", "calibration_p_values", "conform"]
