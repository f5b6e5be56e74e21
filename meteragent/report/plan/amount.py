"""Plans for amounts: the cost of a day, a week or a month at public prices, released as one number.

The error of an amount depends only on the level, the hidden energy and the largest price per kWh, not on the
window's length or the energy used. At a given level and price, the error and the hidden energy therefore
determine each other.
"""

import json
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from meteragent import config
from meteragent.domain.figures import exact_text
from meteragent.domain.terms import Terms
from meteragent.report import facts, guarantee
from meteragent.report.event import EVENTS
from meteragent.report.format import amount_text, energy_text, localise, mean_label, wrap_text
from meteragent.report.guarantee import CROWDS
from meteragent.report.language import say
from meteragent.report.plan.ask import ENERGY_MAX_WH, Change, name_forms
from meteragent.report.plan.render import join_titles, paste_lines
from meteragent.report.plan.setting import configuration_text, largest_energy, level_text
from meteragent.wire.number import shorten

_MONEY = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([A-Z]{3})", re.ASCII)


class AmountShare(NamedTuple):
    """An amount for each window of the local calendar; `name` is the English name, which JSON uses."""

    name: str
    length: str

    @property
    def title(self) -> str:
        """The name in the current language."""
        return say(f"share.cost_{self.length}")


class Money(NamedTuple):
    """A sum of money, or a price per kWh."""

    value: Fraction
    currency: str

    @property
    def text(self) -> str:
        """The sum as people write it."""
        return f"{localise(exact_text(self.value))} {self.currency}"


_SHARES = {
    "month cost": AmountShare("the cost of each month", "1mo"),
    "week cost": AmountShare("the cost of each week", "1w"),
    "day cost": AmountShare("the cost of each day", "1d"),
}
USUAL_BOUND = Money(Fraction(1, 2), "EUR")
"""The largest price per kWh if the question states none."""


def parse_share(text: str) -> AmountShare | None:
    """Parse what to share: ``month-cost``, ``week-cost`` or ``day-cost``; return None for anything else."""
    plain = " ".join(re.findall(r"[a-z]+", text.lower()))
    return next((value for name, value in _SHARES.items() if plain in name_forms(name)), None)


def parse_money(text: str) -> Money | None:
    """Parse a sum of money such as ``0.05EUR``; return None if `text` is not a sum or is zero."""
    match = _MONEY.fullmatch(text.strip())
    return Money(Fraction(match[1]), match[2]) if match and Fraction(match[1]) else None


def parse_price(text: str) -> Money:
    """Parse the largest price per kWh, such as ``0.45EUR``. Raises ValueError if the text is not a price."""
    if (price := parse_money(text)) is None:
        raise ValueError("the largest price per kWh, such as 0.45EUR")
    return price


@dataclass(frozen=True)
class AmountQuestion:
    """A question: the amount to share, and the energy to hide, the error to reach, or both."""

    share: AmountShare
    hide: Change | None
    goal: Money | None
    bound: Money = USUAL_BOUND
    level: Fraction = Fraction(1)
    timezone: str = "UTC"
    homes: int = 1


@dataclass(frozen=True)
class AmountSetting:
    """A configuration of amounts that hides `hide_wh` in each window."""

    question: AmountQuestion
    hide_wh: Fraction

    @cached_property
    def text(self) -> str:
        """The configuration to paste."""
        question = self.question
        keys = {
            "window.length": f'"{question.share.length}"',
            "window.timezone": f'"{question.timezone}"',
            "window.weights.unit": f'"{question.bound.currency}"',
            "window.weights.bound": exact_text(question.bound.value),
            "window.weights.topic": '"prices/market"    # or [[window.weights.price]] with hours and prices',
            "privacy.hide": f'"{exact_text(self.hide_wh)}Wh"',
            "privacy.level": level_text(question.level),
        }
        return configuration_text(keys)

    @cached_property
    def stream(self) -> config.Stream:
        """The stream of the configuration."""
        return config.parse(self.text).stream[0]

    @cached_property
    def terms(self) -> Terms:
        """The terms of an ordinary window."""
        return config.terms(self.stream)

    @property
    def is_largest(self) -> bool:
        """Whether the setting hides `ENERGY_MAX_WH`, the largest energy that a search tries."""
        return self.hide_wh >= ENERGY_MAX_WH

    @property
    def error(self) -> float:
        """One standard deviation of the mean over the question's homes."""
        return self.terms.sd / math.sqrt(self.question.homes)


@dataclass(frozen=True)
class AmountAnswer:
    """The setting, whether it meets the goal and, if any setting does, the one that hides the most energy."""

    question: AmountQuestion
    setting: AmountSetting
    is_possible: bool
    limit: AmountSetting | None


def solve(question: AmountQuestion) -> AmountAnswer:
    """Find the error that hiding an energy costs, or the largest energy that can be hidden within an error.

    Raises ValueError if the question states neither energy nor error, the error is too small to hide
    anything, or error and price are in different currencies.
    """
    hide, goal = question.hide, question.goal
    if goal is not None and goal.currency != question.bound.currency:
        raise ValueError(f"give --error in {question.bound.currency}, the currency of --price")
    if goal is None:
        if hide is None:
            raise ValueError("give --hide or --error, or both")
        return AmountAnswer(question, AmountSetting(question, hide.energy_wh), is_possible=True, limit=None)
    limit = _hide_most(question, goal)
    setting = limit if hide is None else AmountSetting(question, hide.energy_wh)
    if setting is None:
        raise ValueError("this error is too small to hide anything: give a larger one")
    return AmountAnswer(question, setting, setting.error <= goal.value, limit)


def _hide_most(question: AmountQuestion, goal: Money) -> AmountSetting | None:
    """Return the setting that hides the most energy within the goal; None if it would be below 1 mWh."""
    error_of_one_home = float(goal.value) * math.sqrt(question.homes)
    # The noise's scale is hidden energy x price / level; its standard deviation is sqrt(2) times that.
    limit_wh = 1000 * error_of_one_home * float(question.level / question.bound.value) / math.sqrt(2)
    if limit_wh < 1e-3:
        return None
    hide_wh = largest_energy(
        limit_wh, float(goal.value), lambda hide_wh: AmountSetting(question, hide_wh).error
    )
    return None if hide_wh is None else AmountSetting(question, hide_wh)


# In words and as JSON -------------------------------------------------------------------------------


def as_text(answer: AmountAnswer) -> str:
    """Return the answer as text: its errors, the hidden energy, its configuration, and the next step."""
    question, setting = answer.question, answer.setting
    currency = question.bound.currency
    lines = [_verdict_line(answer), "", say("plan.amount_costs")]
    for homes in sorted({1, question.homes, *CROWDS}):
        error = amount_text(setting.terms.sd / math.sqrt(homes), currency)
        lines.append(f"  {mean_label(homes):<28}{error:>14}")
    within = say("cost.within", half_width=amount_text(setting.terms.half_width(0.95), currency))
    lines += [f"  {say('plan.one_home', within=within)}", ""]
    if not answer.is_possible and answer.limit is not None:
        lines += [say("plan.amount_limit", energy=energy_text(answer.limit.hide_wh)), ""]
    events = join_titles(event for event in EVENTS if event.energy_wh <= setting.hide_wh)
    hides = say(
        "plan.amount_hides", energy=energy_text(setting.hide_wh), events=events or say("plan.no_example")
    )
    if question.hide is None and setting.is_largest:
        hides += f" {say('plan.search_limit', energy=energy_text(setting.hide_wh))}"
    return "\n".join([*lines, wrap_text(hides), "", *paste_lines(setting.text)])


def _verdict_line(answer: AmountAnswer) -> str:
    question = answer.question
    parts = [say("plan.hide", change=question.hide.title)] if question.hide else []
    parts.append(say("plan.amount_share", share=question.share.title, price=question.bound.text))
    if question.goal is not None:
        parts.append(say("plan.within", homes=mean_label(question.homes), goal=question.goal.text))
    key = "plan.possible" if answer.is_possible else "plan.amount_impossible"
    return wrap_text(say(key, question=say("plan.join").join(parts)))


def as_json(answer: AmountAnswer) -> str:
    """Return the answer as JSON: errors in the currency, and exact numbers as text.

    `hides_at_most_wh` is null if nothing limits the energy: no goal, or a goal beyond `ENERGY_MAX_WH`.
    """
    question, setting, limit = answer.question, answer.setting, answer.limit
    document: dict[str, Any] = {
        "share": question.share.name,
        "largest_price": question.bound.text,
        "possible": answer.is_possible,
        "hides_wh": str(setting.hide_wh),
        "hides_at_most_wh": None if limit is None or limit.is_largest else str(limit.hide_wh),
        "level": str(question.level),
        "homes": question.homes,
        "error": shorten(setting.error),
        "error_of_one_home": shorten(setting.terms.sd),
        "configuration": setting.text,
        "check": facts.facts_of(guarantee.compute_guarantee(setting.stream)),
    }
    return json.dumps(document, indent=2)
