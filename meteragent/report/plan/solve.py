"""Solve a question: given two of what to hide, what to share and the error for some homes, find the third."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from meteragent.privacy.stream import SlidingPlan
from meteragent.report.event import EVENTS
from meteragent.report.plan.ask import CURVE, DAY, SHARES, Goal, Hide, Share
from meteragent.report.plan.setting import Setting, covered, least, most

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Question:
    """A question: hide and share, or one of them and a goal."""

    hide: Hide | None = None
    share: Share | None = None
    homes: int | None = None
    goal: Goal | None = None
    level: Fraction = Fraction(1)
    timezone: str = "UTC"

    def least(self, hide: Hide, share: Share) -> Setting:
        """Find the setting of least error."""
        return least(hide, share, self.level, self.timezone)

    def most(self, share: Share, homes: int, goal_w: float) -> Setting | None:
        """Find the setting that hides most; of a curve, with a number of blocks advised for some event."""
        error_w = goal_w * math.sqrt(homes)
        if share.space is not CURVE.space:
            return most(share, self.level, self.timezone, error_w)
        counts = {self.least(Hide(event.name, event.energy_wh), share).slots for event in EVENTS}
        settings = [most(share, self.level, self.timezone, error_w, count) for count in sorted(counts)]
        return max(filter(None, settings), key=lambda setting: setting.radius_w, default=None)


class Near(NamedTuple):
    """A possible setting: its difference from the question, and the homes with which it meets the goal."""

    change: str
    setting: Setting
    homes: int


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows in a row that keep an event's odds over all that it touches, whatever its shape (THEORY 3.2).

    `simple` hides the event's energy in each number, which keeps the odds for all of it too.
    """

    plan: SlidingPlan
    setting: Setting
    simple: Setting


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a question has an answer: its setting and homes; else why not, and the nearest settings."""

    question: Question
    setting: Setting | None
    homes: int
    why_not: str = ""
    nearest: tuple[Near, ...] = ()
    considered: tuple[Setting, ...] = ()

    @property
    def possible(self) -> bool:
        """Whether the question has an answer."""
        return not self.why_not


def solve(question: Question) -> Answer:
    """Solve for what the question leaves open; where it leaves nothing open, check it.

    Raises:
        ValueError: the question leaves too much open, or its goal is an energy where the share is none.
    """
    hide, share, goal = question.hide, question.share, question.goal
    if hide is not None and share is not None:
        return _error(question, hide, share)
    if goal is None or (hide is None and share is None):
        raise ValueError("give two of --hide, --share and --error (for one home, or as many as --homes says)")
    if hide is not None:
        return _share(question, hide, goal)
    assert share is not None  # noqa: S101  two of the three are given
    return _hide(question, share, goal)


def needed(setting: Setting, goal_w: float) -> int:
    """Return the least number of homes whose mean has an error of at most `goal_w`."""
    return max(1, math.ceil((setting.error_w() / goal_w) ** 2 - _ROUNDING))


def _meets(setting: Setting, homes: int, goal_w: float) -> bool:
    return needed(setting, goal_w) <= homes


def _watts(goal: Goal, share: Share) -> float | None:
    """Return the goal as a power; None where it is an energy and the share is none."""
    try:
        return goal.watts(share)
    except ValueError:
        return None


# What to hide and what to share: the error ----------------------------------------------------------


def _error(question: Question, hide: Hide, share: Share) -> Answer:
    setting = question.least(hide, share)
    if question.goal is None:
        return Answer(question, setting, question.homes or 1)
    goal_w = question.goal.watts(share)
    homes = question.homes or needed(setting, goal_w)
    if _meets(setting, homes, goal_w):
        return Answer(question, setting, homes)
    why = f"the error is {setting.error_w(homes) / goal_w:,.3g} times the goal"
    more = Near("more homes", setting, needed(setting, goal_w))
    near = [more, *_shares_that_do(question, hide, homes), *_smaller(question, share, homes, goal_w)]
    return Answer(question, setting, homes, why, tuple(near))


def _shares_that_do(question: Question, hide: Hide, homes: int) -> list[Near]:
    """List the shares that meet the goal with these homes, the finest first."""
    near = []
    for share in SHARES:
        goal_w = _watts(question.goal, share) if question.goal else None
        if goal_w is None or share == question.share:
            continue
        setting = question.least(hide, share)
        if _meets(setting, homes, goal_w):
            near.append(Near(f"share {share.name}", setting, homes))
    return near


def _smaller(question: Question, share: Share, homes: int, goal_w: float) -> list[Near]:
    setting = question.most(share, homes, goal_w)
    return [Near("hide less", setting, homes)] if setting else []


# What to hide and at what error: what to share --------------------------------------------------------


def _share(question: Question, hide: Hide, goal: Goal) -> Answer:
    homes = question.homes or 1
    considered = [
        (question.least(hide, share), goal_w) for share in SHARES if (goal_w := _watts(goal, share))
    ]
    settings = tuple(setting for setting, _ in considered)
    for setting, goal_w in considered:
        if _meets(setting, homes, goal_w):
            return Answer(question, setting, homes, considered=settings)
    why = "no share is that accurate"
    more = [Near("more homes", setting, needed(setting, goal_w)) for setting, goal_w in considered]
    setting, goal_w = min(considered, key=lambda pair: needed(*pair))
    less = _smaller(question, setting.share, homes, goal_w)
    return Answer(question, None, homes, why, (*sorted(more, key=lambda near: near.homes), *less), settings)


# What to share and at what error: what to hide --------------------------------------------------------


def _hide(question: Question, share: Share, goal: Goal) -> Answer:
    homes, goal_w = question.homes or 1, goal.watts(share)
    setting = question.most(share, homes, goal_w)
    if setting is not None and covered(setting):
        return Answer(question, setting, homes)
    why = "at that error not even the smallest example can be hidden"
    event = min(EVENTS, key=lambda event: event.energy_wh)
    smallest = question.least(Hide(event.name, event.energy_wh, event), share)
    near = [Near(f"more homes, enough to hide {event.name!r}", smallest, needed(smallest, goal_w))]
    for other in SHARES:
        other_w = _watts(goal, other)
        instead = question.most(other, homes, other_w) if other_w and other != share else None
        if instead is not None and covered(instead):
            near.append(Near(f"share {other.name}", instead, homes))
    if setting is not None:
        near.append(Near("hide less", setting, homes))
    return Answer(question, setting, homes, why, tuple(near))


# Around an answer -------------------------------------------------------------------------------------


def around(setting: Setting, factors: tuple[Fraction, ...]) -> list[Setting]:
    """Return the same windows with more and less hidden."""
    return [replace(setting, hide_wh=setting.hide_wh * factor) for factor in factors]


def sliding(question: Question, setting: Setting) -> Sliding | None:
    """Find windows in a row that keep the level over a whole event, if their error is smaller.

    A stretch of time of w slots touches w + 1; the event may have any shape within its power.
    """
    event = question.hide.event if question.hide else None
    share = setting.share
    if share == DAY and question.timezone == "UTC":
        share = share._replace(unit=None)
    if event is None or share.unit is not None or event.duration_ms <= share.step_ms:
        return None
    span = -(-event.duration_ms // share.step_ms) + 1
    plan = SlidingPlan.best(span, question.level / event.power_w)
    level = question.level / plan.touched(span)
    offered = Setting(share, plan.block, event.power_w * share.hours, level)
    simple = Setting(share, 1, event.energy_wh, question.level)
    return Sliding(plan, offered, simple) if offered.error_w() < simple.error_w() else None


def is_chosen(setting: Setting) -> bool:
    """Return whether the number of blocks is a choice: where a window of the calendar has several."""
    return setting.share.unit is not None and setting.slots > 1
