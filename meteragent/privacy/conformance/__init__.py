"""Whether any mechanism keeps its word: what ours must pass, for ours and anybody's.

    from meteragent.privacy.conformance import conform

    report = conform(mechanism)  # any MetricMechanism or PairMechanism
    print(report.table())

or, without writing a program, `python -m meteragent.privacy.conformance package.module:Name epsilon=1/2`.

What is looked at (each is a `Check` with its figures):

* the promise: the loss is exact, 0 at 0, never falls with the distance, refuses what is no distance; with
  `make` given, parameters are exact;
* the ratio of masses at pairs of points that a test should tell apart is within the loss, and reaches it
  somewhere; or, for a pair (epsilon, delta), the hockey-stick sum of max(0, P - e^epsilon P') is within
  delta: exact where the outputs can be listed, else a bound from draws (Hoeffding);
* the release: shapes are kept, nothing that was passed in changes, randomness is the bits given;
* the draws: they follow `log_mass`, two-sided (`calibration`, and chi-square over outputs or ranges of
  them), and are independent of each other; where windows get noise under d_inf, everything of
  `meteragent.privacy.audit`.

Draws refuse a mechanism that keeps its word with a chance of at most `alarm`, evenly split over the tests.
"""

from meteragent.privacy.audit import Check
from meteragent.privacy.conformance.draws import calibration
from meteragent.privacy.conformance.suite import Report, Unusable, conform

__all__ = ["Check", "Report", "Unusable", "calibration", "conform"]
