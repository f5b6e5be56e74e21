"""The whole suite, and its report."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from meteragent.privacy.audit import ALARM, Check, audit
from meteragent.privacy.bits import Bits
from meteragent.privacy.bulk import BulkBits
from meteragent.privacy.conformance import draws, promise
from meteragent.privacy.conformance.trial import Trial, Unusable, promised
from meteragent.privacy.mechanism.base import Mechanism, MetricMechanism
from meteragent.privacy.space import Windows
from meteragent.privacy.statistics import MISS

__all__ = ["SAMPLES", "Report", "Unusable", "conform"]

SAMPLES = 20_000


@dataclass(frozen=True)
class Report:
    """What was found of one mechanism; `figures()` is all of it for JSON, `table()` for people."""

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
        """The names of the checks that did not."""
        return [check.name for check in self.checks if not check.passed]

    def figures(self) -> dict[str, Any]:
        """As plain data."""
        checks = [check.plain() for check in self.checks]
        return {**asdict(self), "checks": checks, "conforms": self.conforms, "miss": MISS}

    def table(self) -> str:
        """A line for each check, and what the error rates are."""
        width = max(len(check.name) for check in self.checks)
        lines = [f"{'ok' if c.passed else 'NO':3}{c.name:{width}}  {c.found}" for c in self.checks]
        verdict = "conforms" if self.conforms else f"does NOT conform: {', '.join(self.failed)}"
        rates = f"{self.samples} draws a test; a kept word is refused with a chance of {self.alarm:g} at most"
        return "\n".join([f"{self.mechanism} {verdict}", *lines, rates])


def conform(
    mechanism: Mechanism,
    *,
    pairs: Iterable[tuple[Any, Any]] | None = None,
    make: "partial[Any] | None" = None,
    tight: bool = True,
    samples: int = SAMPLES,
    alarm: float = ALARM,
    bits: Bits | None = None,
) -> Report:
    """Whether a mechanism keeps its word: the package's text says what is looked at.

    `pairs` of points to tell apart, in place of those of its space; `make` made it, with its parameters as
    keywords: each is tried as a float; `tight` demands that a loss is reached somewhere; `samples` draws
    for each test; `bits` are the operating system's unless given.

    Raises:
        Unusable: the mechanism lacks a method, or what it returns has not the shape that it must have.
    """
    trial = Trial(mechanism, promised(mechanism, pairs), samples, bits or BulkBits())
    checks = [] if make is None else [promise.parameters_are_exact(make)]
    if isinstance(mechanism, MetricMechanism):
        checks += [promise.loss_is_one(mechanism), *promise.ratios(trial, tight=tight)]
    else:
        checks += [promise.hockey_sticks(trial, alarm / 4)]
    checks += [draws.shapes(trial), draws.randomness(trial), draws.calibrated(trial, alarm / 4)]
    checks += [
        *draws.cells(trial, alarm / 4),
        draws.independent(trial, alarm / 8),
        *_windows(trial, alarm / 8),
    ]
    return Report(repr(mechanism), samples, alarm, tuple(checks))


def _windows(trial: Trial, alarm: float) -> Iterator[Check]:
    """The audit, where windows get noise under d_inf."""
    mechanism, space, x = trial.mechanism, trial.mechanism.space, trial.pairs[0].x
    free = isinstance(space, Windows) and space.norm == "linf" and space.low is None and space.high is None
    if free and hasattr(mechanism, "quantum") and trial.draw(x, 1).shape[1:] == (space.n,):
        samples = min(trial.samples, max(4000, (1 << 22) // space.n))
        yield from audit(mechanism, samples=samples, alarm=alarm, bits=trial.bits).checks
