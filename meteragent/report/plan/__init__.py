"""Planning: compute the energy to hide, the numbers to share or the error from the other two.

Nobody knows how many watts of noise they want. People know what should stay private (a kettle, a TV evening,
a day away), which values are needed (half hours, days, the month, a typical day), and how accurate these
values must be (the mean of 1,000 homes to 5%). `solve` takes two of these answers and finds the third.

An event is *hidden* if an attacker is right about it no more often than about a change by the radius in one
window. At level 1, this is 70% of the time, whatever attackers know and compute, wherever the event lies on
the grid and however many windows it touches (`privacy.inference.success_bound`, as shown by `check`). The
change in the odds, which adds up over the windows, is also stated.

All figures follow from public examples and the question; no private trace is used.
"""

from meteragent.report.plan.render import as_json, as_text
from meteragent.report.plan.solve import Answer, Question, solve

__all__ = ["Answer", "Question", "as_json", "as_text", "solve"]
