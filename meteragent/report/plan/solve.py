"""Solve a question: given two of the hidden energy, the numbers to share and the error, find the third."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from meteragent.report.event import EVENTS, Event
from meteragent.report.format import figures_text
from meteragent.report.language import say
from meteragent.report.plan.ask import SHARES, Change, Goal, Share
from meteragent.report.plan.setting import Setting, covered_events, least_error_setting, most_hiding_setting

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Question:
    """A question that states two or all of these: the change to hide, the numbers to share, and the goal."""

    hide: Change | None = None
    share: Share | None = None
    homes: int | None = None
    goal: Goal | None = None
    level: Fraction = Fraction(1)
    timezone: str = "UTC"

    def least_error_setting(self, hide: Change, share: Share) -> Setting:
        """Find the setting with the least error that hides `hide`."""
        return least_error_setting(hide, share, self.level, self.timezone)

    def most_hiding_setting(self, share: Share, homes: int, goal_w: float) -> Setting | None:
        """Find the setting that hides most within the goal; try the numbers of blocks that suit events."""
        error_w = goal_w * math.sqrt(homes)
        if share.blocks:
            return most_hiding_setting(share, self.level, self.timezone, error_w)
        slots = {self.least_error_setting(Change(e.name, e.energy_wh), share).slots for e in EVENTS}
        settings = [most_hiding_setting(share, self.level, self.timezone, error_w, n) for n in sorted(slots)]
        return max(filter(None, settings), key=lambda setting: setting.radius_w, default=None)


class NearbySetting(NamedTuple):
    """A possible setting near the question, and the number of homes that meets the goal.

    `kind` states the change: ``homes`` for more homes, ``event`` for enough homes to hide `event`, ``share``
    for another share, or ``less`` for less energy to hide.
    """

    kind: str
    setting: Setting
    homes: int
    event: Event | None = None

    @property
    def title(self) -> str:
        """The change in words, in the current language."""
        event = "" if self.event is None else self.event.title
        return say(f"near.{self.kind}", share=self.setting.share.title, event=event)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer: a setting and a number of homes or, if there is none, the reason and nearby settings."""

    question: Question
    setting: Setting | None
    homes: int
    why_not: str = ""
    nearest: tuple[NearbySetting, ...] = ()
    considered_settings: tuple[Setting, ...] = ()

    @property
    def is_possible(self) -> bool:
        """Whether the question has an answer."""
        return not self.why_not


def solve(question: Question) -> Answer:
    """Solve for the part that the question leaves open; if nothing is open, check whether an answer exists.

    Raises ValueError if fewer than two parts are given, or the goal is an energy but the share is a power.
    """
    hide, share, goal = question.hide, question.share, question.goal
    if hide is not None and share is not None:
        return _solve_error(question, hide, share)
    if goal is None or (hide is None and share is None):
        raise ValueError("give two of --hide, --share and --error (for one home, or for --homes homes)")
    if hide is not None:
        return _solve_share(question, hide, goal)
    assert share is not None
    return _solve_hide(question, share, goal)


def homes_needed(setting: Setting, goal_w: float) -> int:
    """Return the smallest number of homes whose mean has an error of at most `goal_w`."""
    return max(1, math.ceil((setting.error_w() / goal_w) ** 2 - _ROUNDING))


def _is_within_goal(setting: Setting, homes: int, goal_w: float) -> bool:
    return homes_needed(setting, goal_w) <= homes


def _goal_w(goal: Goal, share: Share) -> float | None:
    """Return the goal as a power, in W; None if the goal is an energy and the share is a power."""
    try:
        return goal.power_w(share)
    except ValueError:
        return None


# Given the change to hide and the share ---------------------------------------------------------------


def _solve_error(question: Question, hide: Change, share: Share) -> Answer:
    setting = question.least_error_setting(hide, share)
    if question.goal is None:
        return Answer(question, setting, question.homes or 1)
    goal_w = question.goal.power_w(share)
    homes = question.homes or homes_needed(setting, goal_w)
    if _is_within_goal(setting, homes, goal_w):
        return Answer(question, setting, homes)
    reason = say("plan.why_error", factor=figures_text(setting.error_w(homes) / goal_w))
    more_homes = NearbySetting("homes", setting, homes_needed(setting, goal_w))
    shares, smaller = (_sufficient_shares(question, hide, homes), _smaller(question, share, homes, goal_w))
    return Answer(question, setting, homes, reason, (more_homes, *shares, *smaller))


def _sufficient_shares(question: Question, hide: Change, homes: int) -> list[NearbySetting]:
    """Return the other shares that meet the goal with `homes` homes, finest first."""
    alternatives = []
    for share in SHARES:
        goal_w = _goal_w(question.goal, share) if question.goal else None
        if goal_w is None or share == question.share:
            continue
        setting = question.least_error_setting(hide, share)
        if _is_within_goal(setting, homes, goal_w):
            alternatives.append(NearbySetting("share", setting, homes))
    return alternatives


def _smaller(question: Question, share: Share, homes: int, goal_w: float) -> list[NearbySetting]:
    """Return the setting that hides the most within the goal, or an empty list if there is none."""
    setting = question.most_hiding_setting(share, homes, goal_w)
    return [NearbySetting("less", setting, homes)] if setting else []


# Given the change to hide and the error ---------------------------------------------------------------------


def _solve_share(question: Question, hide: Change, goal: Goal) -> Answer:
    homes = question.homes or 1
    goals_w = {share: goal_w for share in SHARES if (goal_w := _goal_w(goal, share))}
    considered = [(question.least_error_setting(hide, share), goal_w) for share, goal_w in goals_w.items()]
    settings = tuple(setting for setting, _ in considered)
    for setting, goal_w in considered:
        if _is_within_goal(setting, homes, goal_w):
            return Answer(question, setting, homes, considered_settings=settings)
    reason = say("plan.why_share")
    with_more_homes = sorted(
        (NearbySetting("homes", setting, homes_needed(setting, goal_w)) for setting, goal_w in considered),
        key=lambda near: near.homes,
    )
    setting, goal_w = min(considered, key=lambda pair: homes_needed(*pair))
    smaller = _smaller(question, setting.share, homes, goal_w)
    return Answer(question, None, homes, reason, (*with_more_homes, *smaller), settings)


# Given the share and the error --------------------------------------------------------------------


def _solve_hide(question: Question, share: Share, goal: Goal) -> Answer:
    homes, goal_w = question.homes or 1, goal.power_w(share)
    setting = question.most_hiding_setting(share, homes, goal_w)
    if setting is not None and covered_events(setting):
        return Answer(question, setting, homes)
    event = min(EVENTS, key=lambda event: event.energy_wh)
    smallest = question.least_error_setting(Change(event.name, event.energy_wh, event), share)
    nearest = [NearbySetting("event", smallest, homes_needed(smallest, goal_w), event)]
    for candidate in SHARES:
        candidate_w = None if candidate == share else _goal_w(goal, candidate)
        largest = question.most_hiding_setting(candidate, homes, candidate_w) if candidate_w else None
        if largest is not None and covered_events(largest):
            nearest.append(NearbySetting("share", largest, homes))
    if setting is not None:
        nearest.append(NearbySetting("less", setting, homes))
    return Answer(question, setting, homes, say("plan.why_smallest"), tuple(nearest))


# Around an answer -------------------------------------------------------------------------------------


def nearby_settings(setting: Setting, factors: tuple[Fraction, ...]) -> list[Setting]:
    """Return a setting for each factor, with the same windows and the hidden energy times the factor."""
    return [replace(setting, hide_wh=setting.hide_wh * factor) for factor in factors]
