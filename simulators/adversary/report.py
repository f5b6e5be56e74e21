"""The attackers' results as a table: a row for each attacker and bound, a column for each mechanism."""

from collections.abc import Sequence
from fractions import Fraction

from simulators.adversary.measure import AttackResult, Outcome
from simulators.adversary.scene import Scene


def table(scene: Scene, outcomes: Sequence[Outcome], seed: int) -> str:
    """Format a Markdown table of correct guesses in %, with simultaneous 95% intervals.

    If an interval alone is above the bound, but not surely enough to refute the promise (`SURE`), the promise
    is in doubt. Further rows have the worst attacker, the bound, the odds, the error and the promise of each
    mechanism.
    With two classes, there are also rows with the largest area under the ROC curve and the largest F1.
    """
    guess = f"{100 * scene.guess:.3g}"
    lines = [
        f"{scene.question}",
        f"{outcomes[0].trials:,} trials each, seed {seed}; right guesses in %, {guess} without any data.",
        "",
        _line(["attacker", *(outcome.mechanism for outcome in outcomes)]),
        _line(["---"] * (1 + len(outcomes))),
    ]
    for index, result in enumerate(outcomes[0].results):
        lines.append(_line([result.attacker, *(_cell(outcome.results[index]) for outcome in outcomes)]))
    lines.append(
        _line(["**worst**", *(f"**{100 * o.worst.rate:.1f}** {o.worst.attacker}" for o in outcomes)])
    )
    lines.append(_line(["nobody beats, if the promise holds", *(_percent(o.bound) for o in outcomes)]))
    if scene.classes == 2:
        lines.append(_line(["area under the ROC curve, worst", *map(_auc, outcomes)]))
        lines.append(_line(["F1, worst", *(f"{max(r.f1 or 0 for r in o.results):.3f}" for o in outcomes)]))
    lines.append(_line(["change in log-odds / promised, largest", *map(_odds, outcomes)]))
    lines.append(_line(["error of a slot, rms", *(f"{outcome.error_w:,.1f} W" for outcome in outcomes)]))
    lines.append(_line(["the promise", *(_promise(outcome) for outcome in outcomes)]))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(result: AttackResult) -> str:
    return f"{100 * result.rate:.1f} ({100 * result.low:.1f} to {100 * result.high:.1f})"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _auc(outcome: Outcome) -> str:
    best = max(outcome.results, key=lambda result: result.auc or 0)
    limit = "" if outcome.auc_bound is None else f"; at most {outcome.auc_bound:.3f}"
    return f"{best.auc:.3f} ({best.auc_low:.3f} to {best.auc_high:.3f}){limit}"


def _best_auc_low(outcome: Outcome) -> float:
    return max(result.auc_low or 0 for result in outcome.results)


def _odds(outcome: Outcome) -> str:
    return "-" if outcome.odds is None else f"{outcome.odds:.2f}"


def _promise(outcome: Outcome) -> str:
    if outcome.epsilon is None:
        return "none"
    exact = Fraction(outcome.epsilon)
    epsilon = exact if exact.denominator < 10**6 else f"{float(exact):.6g}"
    lows, limits = (outcome.worst.low, _best_auc_low(outcome)), (outcome.bound, outcome.auc_bound)
    is_beaten = any(limit is not None and low > limit for low, limit in zip(lows, limits, strict=True))
    verdict = "**broken**" if outcome.is_broken else "**in doubt**: give more --trials"
    return f"epsilon = {epsilon} per W: {verdict if outcome.is_broken or is_beaten else 'not refuted'}"
