"""The conformance suite and its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from textwrap import wrap
from typing import Any

from meteragent.privacy.audit import ALARM, SAMPLES, WIDTH, Check, audit, check_lines
from meteragent.privacy.bits import Bits
from meteragent.privacy.bulk import BulkBits
from meteragent.privacy.conformance import black_box, draws, promise
from meteragent.privacy.conformance.trial import PointPair, Trial, UnsupportedMechanism, promised_pairs
from meteragent.privacy.mechanism.base import LawlessMechanism, Mechanism, MetricMechanism
from meteragent.privacy.space import Windows
from meteragent.privacy.statistics import MISS
from meteragent.privacy.table import Columns

__all__ = ["SAMPLES", "Report", "UnsupportedMechanism", "audit_release", "conform"]


@dataclass(frozen=True)
class Report(Columns):
    """The results of all checks of a mechanism; `figures()` returns them as plain data, `table()` as text."""

    mechanism: str
    samples: int
    alarm: float
    checks: tuple[Check, ...]

    @property
    def conforms(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def failed(self) -> list[str]:
        """The names of the checks that failed."""
        return [check.name for check in self.checks if not check.passed]

    def figures(self) -> dict[str, Any]:
        """Return the report as plain data, with the verdict and the probability of a miss."""
        checks = [check.to_json_data() for check in self.checks]
        return {**asdict(self), "checks": checks, "conforms": self.conforms, "miss": MISS}

    def columns(self) -> dict[str, list[Any]]:
        """Return columns with a row for each check: its name, whether it passed, and its finding in words."""
        return {
            name: [getattr(check, name) for check in self.checks] for name in ("name", "passed", "finding")
        }

    def table(self, width: int = WIDTH) -> str:
        """Format the report as text: the verdict, each check, and the false-alarm rate, `width` wide."""
        count = f"{len(self.failed)} of {len(self.checks)} checks failed"
        verdict = "conforms" if self.conforms else f"does NOT conform: {count}"
        rates = f"{self.samples} draws per test; the probability of a false alarm is at most {self.alarm:g}"
        head, tail = (wrap(text, width) for text in (f"{self.mechanism} {verdict}", rates))
        return "\n".join([*head, *check_lines(self.checks, width=width), *tail])


def conform(
    mechanism: Mechanism | LawlessMechanism,
    *,
    pairs: Iterable[tuple[Any, Any]] | None = None,
    make: partial[Any] | None = None,
    tight: bool = True,
    samples: int = SAMPLES,
    false_alarm: float = ALARM,
    bits: Bits | None = None,
) -> Report:
    """Test whether a mechanism keeps its promise, by the checks that the package's docstring lists.

    A mechanism that has a loss but no `log_mass` is tested as a black box; for a release without a loss, use
    `audit_release`. `pairs` replace those of the mechanism's space. Each numeric keyword of the partial
    `make` is tested with a float. If `tight`, the log ratio must reach the loss at a pair
    (`MetricMechanism`). `samples` are drawn for each test. A mechanism that keeps its promise fails with a
    probability of at most `false_alarm`.

    Raises UnsupportedMechanism if the mechanism lacks a method, no pair of points can be tested, or a method
    returns an array of the wrong shape or a log mass of NaN.
    """
    has_law = isinstance(mechanism, Mechanism) or not isinstance(mechanism, LawlessMechanism)
    trial = Trial(mechanism, promised_pairs(mechanism, pairs, needs_law=has_law), samples, bits or BulkBits())
    checks = [] if make is None else [promise.check_parameters(make)]
    if not has_law:
        checks += _black_box_checks(trial, false_alarm)
        return Report(_name_of(mechanism), samples, false_alarm, tuple(checks))
    if isinstance(mechanism, MetricMechanism):
        checks += [promise.check_loss(mechanism), *promise.check_ratios(trial, tight=tight)]
    else:
        checks += [promise.check_hockey_sticks(trial, false_alarm / 4)]
    checks += [draws.check_shapes(trial), draws.check_randomness(trial)]
    checks += [draws.check_calibration(trial, false_alarm / 4)]
    checks += draws.check_frequencies(trial, false_alarm / 4)
    checks += [draws.check_independence(trial, false_alarm / 8), *_windows(trial, false_alarm / 8)]
    return Report(_name_of(mechanism), samples, false_alarm, tuple(checks))


def audit_release(
    release: Callable[[Any], Any],
    claims: Iterable[tuple[Any, Any, float]],
    *,
    samples: int = SAMPLES,
    false_alarm: float = ALARM,
    name: str = "release",
) -> Report:
    """Test whether the outputs of a release distinguish points better than is claimed.

    `release` returns an output for each point of an array, with fresh noise of any distribution. Each of
    `claims`, (x, x', loss), says that no event's probability changes by more than e^loss between x and x'.
    `samples` are drawn at each point; a release that keeps all claims fails with a probability of at most
    `false_alarm`. Raises UnsupportedMechanism if there is no claim, or not one output per point.
    """
    pairs = [PointPair(x, x_prime, float(claim)) for x, x_prime, claim in claims]
    checks = tuple(black_box.check_pairs(release, pairs, samples, false_alarm))
    return Report(name, samples, false_alarm, checks)


def _name_of(mechanism: object) -> str:
    """Return a mechanism's `repr`, or its class's name if the `repr` is only an address, or too long."""
    text = repr(mechanism)
    return type(mechanism).__name__ if " object at 0x" in text or len(text) > WIDTH else text


def _black_box_checks(trial: Trial, false_alarm: float) -> Iterator[Check]:
    """Yield the checks of the loss, shapes and outputs of a mechanism without `log_mass`."""
    release = partial(trial.mechanism.release, bits=trial.bits)
    tested_pairs = trial.most_telling_pairs(draws.CALIBRATION_PAIRS)
    yield promise.check_loss(trial.mechanism)
    yield draws.check_shapes(trial)
    yield from black_box.check_pairs(release, tested_pairs, trial.samples, false_alarm)


def _windows(trial: Trial, false_alarm: float) -> Iterator[Check]:
    """Yield the checks of the audit if the mechanism adds noise to unbounded windows under d_inf."""
    mechanism, space, x = trial.mechanism, trial.mechanism.space, trial.pairs[0].x
    is_unbounded = (
        isinstance(space, Windows) and space.norm == "linf" and space.low is None and space.high is None
    )
    if is_unbounded and hasattr(mechanism, "quantum") and trial.draw(x, 1).shape[1:] == (space.n,):
        samples = min(trial.samples, max(4000, (1 << 22) // space.n))
        yield from audit(mechanism, samples=samples, false_alarm=false_alarm, bits=trial.bits).checks
