"""Planning backwards: from any two of what to hide, what to share and at what error, the third.

Nobody knows how many watts of noise they want. People know what nobody is to learn (a kettle, a TV
evening, a day away), what somebody needs (half hours, days, the month, a typical day), or how good it
has to be (the mean of 1,000 homes to 5 %). `solve` takes two of these, and says the third.

An event is *hidden* where whoever guesses whether it happened is right no more often than about any
change of the radius in one window: 70 of 100 at level 1, whatever they know and compute, wherever the
event lies on the grid and however many windows it touches (`privacy.inference.success_bound`, which is
what `check` prints). That is said beside the odds, which add up over the windows. Who wants the odds of
the whole event within e^level gets windows in a row (`Sliding`, THEORY 3.2).

Everything follows from public examples and what is asked. No trace takes part.
"""

from meteragent.report.plan.ask import SHARES, Goal, Hide, Share, goal, hide, homes, share
from meteragent.report.plan.say import as_json, as_text
from meteragent.report.plan.setting import Setting
from meteragent.report.plan.solve import Answer, Question, solve

__all__ = [
    "SHARES",
    "Answer",
    "Goal",
    "Hide",
    "Question",
    "Setting",
    "Share",
    "as_json",
    "as_text",
    "goal",
    "hide",
    "homes",
    "share",
    "solve",
]
