"""What `audit` finds: whether the mechanism that a configuration runs keeps its word, and with what power.

Each stream's distinct mechanisms (the windows of a calendar differ in epsilon) are looked at twice, by
`meteragent.privacy.audit`: alone, with many windows; and from readings to messages (`rehearsal`), with as
many as the time allows, since all of the core runs for each slot. ALARM bounds the chance that a right
configuration is refused; it is split evenly over all that is looked at.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from meteragent import config as settings
from meteragent.domain.units import DAY_MS
from meteragent.privacy.audit import ALARM, Audit, audit
from meteragent.privacy.bits import Bits
from meteragent.privacy.statistics import MISS
from meteragent.report.rehearsal import Rehearsal
from meteragent.wire.descriptor import TermsDescriptor, describe

_SIDES = 13  # numbers of samples that an audit draws: for the law, and twice for each of six shifts
_NUMBERS, _MOST = 100_000_000, 20_000
_SLOTS, _WINDOWS_MOST, _SLOTS_MOST = 50_000, 2000, 2000  # sent through the core, about 0.1 ms each
_CHECKED = 25  # numbers of samples where they are few: also for what is looked at exactly, and for dithers
_UNTIL_MS = 5000 * 365 * DAY_MS  # so much time is there after 1970, before dates end


@dataclass(frozen=True)
class Trial:
    """What was found of one mechanism of a stream: alone, and in messages (None: windows too long to send).

    `descriptors` are those of all windows that have it: they differ in how long they are, not in the noise.
    """

    stream: str
    descriptors: tuple[TermsDescriptor, ...]
    mechanism: Audit
    messages: Audit | None

    @property
    def audits(self) -> tuple[Audit, ...]:
        """All that was done."""
        return (self.mechanism,) if self.messages is None else (self.mechanism, self.messages)

    @property
    def holds(self) -> bool:
        """Whether every check passed."""
        return all(audit.holds for audit in self.audits)

    def figures(self) -> dict[str, Any]:
        """As plain data: names as in the descriptors, which it names; exact numbers are strings."""
        facts = self.descriptors[0].facts
        same = ("n", "unit", "quantum", "level", "radius", "epsilon", "epsilon_unit")
        return {
            "stream": self.stream,
            "descriptors": [descriptor.id for descriptor in self.descriptors],
            **{name: facts[name] for name in same},
            "holds": self.holds,
            "mechanism": self.mechanism.figures(),
            "messages": None if self.messages is None else self.messages.figures(),
        }


def trials(
    config: settings.Config, *, samples: int | None = None, bits: Bits | None = None
) -> tuple[Trial, ...]:
    """Every mechanism that a configuration runs, tried.

    `samples` windows for the law, and as many for each side of each shift: without, as many as take a few
    seconds in all; no more are sent through the core. `bits` are the operating system's unless given.
    """
    kinds = [(stream.name, kind) for stream in config.stream for kind in _kinds(config, stream)]
    return tuple(_trial(name, kind, len(kinds), samples, bits) for name, kind in kinds)


def _kinds(config: settings.Config, stream: settings.Stream) -> list[tuple[TermsDescriptor, ...]]:
    """The descriptors of a stream's windows, together where the mechanism is the same; each id once."""
    others = settings.others_per_day(config, stream)
    kinds: dict[tuple[Fraction, Fraction, int], dict[str, TermsDescriptor]] = {}
    for terms in settings.shapes(stream):
        shared = describe(replace(terms, others_per_day=others))
        kinds.setdefault((terms.epsilon, terms.quantum, terms.n), {}).setdefault(shared.id, shared)
    return [tuple(kind.values()) for kind in kinds.values()]


def _trial(
    stream: str, kind: tuple[TermsDescriptor, ...], kinds: int, samples: int | None, bits: Bits | None
) -> Trial:
    terms, numbers = kind[0].terms, kind[0].terms.n * kinds
    many = samples or max(200, min(_MOST, _NUMBERS // (_SIDES * numbers)))
    few = min(many, _WINDOWS_MOST, max(2, _SLOTS // (_CHECKED * numbers)), _UNTIL_MS // terms.length_ms)
    alarm = ALARM / (2 * kinds)
    alone = audit(kind[0].terms.mechanism, samples=many, alarm=alarm, bits=bits)
    sent = audit(Rehearsal(terms), samples=few, alarm=alarm, bits=bits) if numbers <= _SLOTS_MOST else None
    return Trial(stream, kind, alone, sent)


def as_json(trials: Sequence[Trial]) -> str:
    """Return the findings as JSON."""
    holds = all(trial.holds for trial in trials)
    return json.dumps({"holds": holds, "trials": [trial.figures() for trial in trials]}, indent=2)


# As text ------------------------------------------------------------------------------------------


def as_text(trials: Sequence[Trial]) -> str:
    """Return the findings in words."""
    lines: list[str] = []
    for trial in trials:
        alone = _verdict(trial, "The mechanism alone", trial.mechanism)
        lines += [*_claim(trial), *alone, *_verdict(trial, "From readings to messages", trial.messages), ""]
    checks = [check for trial in trials for result in trial.audits for check in result.checks]
    failed = sum(not check.passed for check in checks)
    if failed:
        lines.append(f"VIOLATED: {failed} of {len(checks)} checks failed. Release nothing with this.")
    else:
        lines.append(f"All {len(checks)} checks passed: nothing found speaks against the promise.")
    lines.append(f"A right configuration is refused by one audit in {1 / ALARM:,.0f} at most.")
    return "\n".join(lines)


def _claim(trial: Trial) -> list[str]:
    facts, ids = trial.descriptors[0].facts, ", ".join(descriptor.id for descriptor in trial.descriptors)
    unit, slots = facts["unit"], f"{facts['n']:,} {'slot' if facts['n'] == 1 else 'slots'}"
    where = f"{slots} a window, on multiples of {facts['quantum']} {unit}"
    epsilon = f"epsilon = {facts['epsilon']} per {unit}"
    return [
        f"Stream {trial.stream}, descriptor {ids}: {where}",
        f"  Claimed: {epsilon}, level {facts['level']} at the radius of {facts['radius']} {unit}.",
    ]


def _verdict(trial: Trial, title: str, result: Audit | None) -> list[str]:
    """Return what was shown, what would have been seen, and each check with its verdict."""
    facts = trial.descriptors[0].facts
    if result is None:
        return ["", f"  {title}: not tried, {facts['n']:,} slots are too many to be sent often enough"]
    level = result.lower * float(Fraction(facts["radius"]))
    loss = f"a loss {result.detects:.2f} times the claim, " if math.isfinite(result.detects) else ""
    scale = f"noise {result.detects_scale:.1%} too large or too small"
    rows = [f"    {'ok' if c.passed else 'FAILED':<7} {c.name:<36} {c.found}" for c in result.checks]
    return [
        "",
        f"  {title}, {result.samples:,} windows and as many for each side of each shift",
        f"    Shown: at least {result.lower:.3g} per {facts['unit']}, level {level:.3g}.",
        f"    Seen with a chance of {1 - MISS:.0%}: {loss}{scale}.",
        f"    False alarms: one in {1 / result.alarm:,.0f} audits at most.",
        *rows,
    ]
