"""Audit a configuration's mechanisms: does each keep its promise, and how powerful is the test?

Each distinct mechanism of a stream (those of calendar windows can differ in epsilon) is tested alone. Unless
it takes too long, it is also tested from readings to messages (`pipeline_mechanism`), with fewer windows.
ALARM bounds the probability that a correct configuration is rejected; it is divided equally among all audits.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from meteragent import config as settings
from meteragent.domain.figures import count_text
from meteragent.domain.units import DAY_MS
from meteragent.privacy.audit import ALARM, SAMPLES, Audit, audit, check_lines
from meteragent.privacy.bits import Bits
from meteragent.privacy.statistics import MISS
from meteragent.report.format import WIDTH, wrap_text
from meteragent.report.pipeline_mechanism import PipelineMechanism
from meteragent.wire.descriptor import TermsDescriptor, describe_terms

_SIDES = 13  # sample sets that an audit draws: one for the distribution, and two for each of six shifts
_NUMBERS_MAX = 100_000_000  # numbers that the audits of a configuration draw
_CORE_SLOTS, _CORE_SAMPLES_MAX, _CORE_N_MAX = 50_000, 2000, 2000  # the core takes about 0.1 ms for each slot
_REPORT_IT = "Then report it as SECURITY.md says, with this text and the output of `meteragent --version`."
_CORE_SIDES = 25  # sample sets of a small audit, including the sets for exact checks and dithers
_END_MS = 5000 * 365 * DAY_MS  # consecutive windows start in 1970, and end before the year 9999


@dataclass(frozen=True)
class Trial:
    """The audits of a mechanism alone and, if that is fast enough, of all steps from readings to messages."""

    stream: str
    descriptors: tuple[TermsDescriptor, ...]
    mechanism: Audit
    messages: Audit | None

    @property
    def audits(self) -> tuple[Audit, ...]:
        """The audit of the mechanism alone and, if there is one, the audit of its messages."""
        return (self.mechanism,) if self.messages is None else (self.mechanism, self.messages)

    @property
    def holds(self) -> bool:
        """Whether every check passed."""
        return all(audit.holds for audit in self.audits)

    def to_data(self) -> dict[str, Any]:
        """Return the trial as plain data: names as in the descriptors, exact numbers as strings."""
        facts = self.descriptors[0].facts
        names = ("n", "unit", "quantum", "level", "radius", "epsilon", "epsilon_unit")
        return {
            "stream": self.stream,
            "descriptors": [descriptor.id for descriptor in self.descriptors],
            **{name: facts[name] for name in names},
            "holds": self.holds,
            "mechanism": self.mechanism.figures(),
            "messages": None if self.messages is None else self.messages.figures(),
        }


def audit_mechanisms(
    config: settings.Config, *, samples: int | None = None, bits: Bits | None = None
) -> tuple[Trial, ...]:
    """Audit every mechanism that a configuration runs.

    `samples` windows are drawn for the distribution, and for each side of each shift; the default takes a few
    seconds, and tests of the core may use fewer. By default, `bits` are the system's random bits.
    """
    kinds = [(stream.name, kind) for stream in config.stream for kind in _descriptor_groups(config, stream)]
    return tuple(_audit_group(name, kind, len(kinds), samples, bits) for name, kind in kinds)


def _descriptor_groups(config: settings.Config, stream: settings.Stream) -> list[tuple[TermsDescriptor, ...]]:
    """Group the descriptors of a stream's windows by their mechanism; each id occurs once."""
    others_per_day = settings.other_charges_per_day(config, stream)
    kinds: dict[tuple[Fraction, Fraction, int], dict[str, TermsDescriptor]] = {}
    for terms in settings.distinct_terms(stream):
        descriptor = describe_terms(replace(terms, others_per_day=others_per_day))
        kinds.setdefault((terms.epsilon, terms.quantum, terms.n), {}).setdefault(descriptor.id, descriptor)
    return [tuple(kind.values()) for kind in kinds.values()]


def _audit_group(
    stream: str, kind: tuple[TermsDescriptor, ...], kinds: int, samples: int | None, bits: Bits | None
) -> Trial:
    terms, numbers = kind[0].terms, kind[0].terms.n * kinds
    alone_samples = samples or max(200, min(SAMPLES, _NUMBERS_MAX // (_SIDES * numbers)))
    core_samples = max(2, _CORE_SLOTS // (_CORE_SIDES * numbers))
    core_samples = min(alone_samples, _CORE_SAMPLES_MAX, core_samples, _END_MS // terms.length_ms)
    false_alarm = ALARM / (2 * kinds)
    mechanism = audit(terms.mechanism, samples=alone_samples, false_alarm=false_alarm, bits=bits)
    messages = None
    if numbers <= _CORE_N_MAX:
        messages = audit(PipelineMechanism(terms), samples=core_samples, false_alarm=false_alarm, bits=bits)
    return Trial(stream, kind, mechanism, messages)


def as_json(trials: Sequence[Trial]) -> str:
    """Return the findings as JSON."""
    holds = all(trial.holds for trial in trials)
    return json.dumps({"holds": holds, "trials": [trial.to_data() for trial in trials]}, indent=2)


# As text ------------------------------------------------------------------------------------------


def as_text(trials: Sequence[Trial], width: int = WIDTH) -> str:
    """Return the findings in words, in lines of at most `width` characters."""
    lines: list[str] = []
    for trial in trials:
        lines += _claim_lines(trial)
        lines += _verdict_lines(trial, "The mechanism alone", trial.mechanism, len(trials), width)
        lines += _verdict_lines(trial, "From readings to messages", trial.messages, len(trials), width)
        lines.append("")
    checks = [check for trial in trials for result in trial.audits for check in result.checks]
    failures = sum(not check.passed for check in checks)
    if failures:
        lines.append(f"VIOLATED: {failures} of {len(checks)} checks failed. Stop the agent: release nothing.")
        lines.append(_REPORT_IT)
    else:
        lines.append(f"All {len(checks)} checks passed: no evidence against the promise.")
    lines.append(f"At most one audit in {1 / ALARM:,.0f} rejects a correct configuration.")
    return "\n".join(wrap_text(line, hanging=" " * 6, width=width) for line in lines)


def _claim_lines(trial: Trial) -> list[str]:
    facts, ids = trial.descriptors[0].facts, ", ".join(descriptor.id for descriptor in trial.descriptors)
    unit, slots = facts["unit"], count_text(facts["n"], "slot")
    lattice = f"{slots} per window, on multiples of {facts['quantum']} {unit}"
    epsilon = f"epsilon = {facts['epsilon']} per {unit}"
    return [
        f"Stream {trial.stream}, descriptor {ids}: {lattice}",
        f"  Promised: {epsilon}, level {facts['level']} at the radius of {facts['radius']} {unit}.",
    ]


def _verdict_lines(trial: Trial, title: str, result: Audit | None, kinds: int, width: int) -> list[str]:
    """Return the measured loss, the detectable violations and each check, or why there is no result."""
    facts = trial.descriptors[0].facts
    if result is None:
        reason = f"windows of {facts['n']:,} slots take too long"
        if facts["n"] <= _CORE_N_MAX:
            reason += f" with {kinds:,} mechanisms to test"
        return ["", f"  {title}: not tested, because {reason}"]
    level = result.lower * float(Fraction(facts["radius"]))
    loss = f"a loss {result.detects:.2f} times the promise, and " if math.isfinite(result.detects) else ""
    scale = f"noise {result.detects_scale:.1%} too large or too small"
    return [
        "",
        f"  {title}: {result.samples:,} windows, and as many for each side of each shift",
        f"    Loss measured: at least {result.lower:.3g} per {facts['unit']}, level {level:.3g}.",
        f"    With a probability of {1 - MISS:.0%}, it detects {loss}{scale}.",
        f"    False alarms: at most one in {1 / result.alarm:,.0f} audits.",
        *check_lines(result.checks, "    ", width),
    ]
