"""The text that the crowd's demo prints: two kinds of totals, their errors, and whom a home trusts."""

from collections.abc import Iterator
from textwrap import wrap

import amqtt

from meteragent.domain.units import DAY_MS, HOUR_MS, MINUTE_MS
from meteragent.report.format import WIDTH
from simulators.crowd.files import SLOT_MS
from simulators.crowd.outcome import CrowdOutcome, Totals

EVERY_MS = 2 * HOUR_MS
"""The time between two listed half hours; all of them are on the first day."""
ALONE, CROWD = "every home adds noise", "two operators add noise"
_TRUST = (
    (
        f"{ALONE}: the home trusts nobody. Its private series is sent, and its receivers can add up any"
        " homes later."
    ),
    (
        f"{CROWD}: the home trusts that the leader and the helper do not pool their data. Each alone"
        " learns who reported, and the total with the noise of the other. Both together know what the home"
        " used in every half hour, without noise. No home's series is published, only totals of the group."
    ),
    "A home does one or the other. These homes did both, only for the comparison, so their levels add up.",
)


def text(outcome: CrowdOutcome, seconds: float) -> str:
    """Return the text of the demo; `seconds` is the run's duration."""
    sections = (_head(outcome, seconds), _table(outcome), _test(outcome), _trust(outcome))
    return "\n".join(line for section in sections for line in [*section, ""])


def _head(outcome: CrowdOutcome, seconds: float) -> Iterator[str]:
    street, slots = outcome.street, len(outcome.crowd.true_wh)
    days = "1 day" if street.days == 1 else f"{street.days} days"
    yield f"{street.homes:,} simulated homes, {days} of readings, every 5 minutes: their total, in two ways"
    yield f"meters -> the agent -> private numbers of each home ------> receiver     {ALONE}"
    yield f"          the agent -> leader <-> helper, leader -> total -> receiver    {CROWD}"
    counts = f"{street.homes * slots:,} private numbers and {slots:,} totals of the operators came out"
    yield f"{street.readings + street.homes:,} readings went in, {counts}, in {seconds:.0f} s."
    broker = f"broker (amqtt {amqtt.__version__})"
    yield f"The agent and the operators are the real programs, at one {broker}; only their clock"
    yield "was set forward from reading to reading. Every run has the same homes and new noise."


def _table(outcome: CrowdOutcome) -> Iterator[str]:
    yield f"The total of {outcome.street.homes:,} homes in a half hour, in Wh"
    layout = "{:>10}{:>8}{:>7}{:>10} "
    columns = layout.format("published", "error", "sd", "interval")
    yield f"{'':<17}{ALONE:^35} {CROWD:^35}".rstrip()
    yield f"{'from':<6}{'true':>10}{columns}{columns}".rstrip()
    for slot in range(0, DAY_MS // SLOT_MS, EVERY_MS // SLOT_MS):
        hour, minute = divmod(slot * SLOT_MS // MINUTE_MS, 60)
        row = f"{f'{hour}:{minute:02}':<6}{outcome.crowd.true_wh[slot]:>10,.0f}"
        for totals in (outcome.alone, outcome.crowd):
            mark = " " if totals.is_inside(slot) else "!"
            row += layout.format(*_cells(totals, slot)).rstrip() + mark
        yield row.rstrip()
    yield "sd, interval: as stated; an interval contains the true total 95% of the time (! not this time)"


def _cells(totals: Totals, slot: int) -> tuple[str, str, str, str]:
    """Format a published total, its error, and the standard deviation and the interval that it states."""
    published = totals.published[slot]
    half_width = (published.high - published.low) / 2
    error = totals.errors_wh[slot]
    return f"{published.value:,.0f}", f"{error:+,.0f}", f"{published.sd:,.0f}", f"± {half_width:,.0f}"


def _test(outcome: CrowdOutcome) -> Iterator[str]:
    ways = outcome.alone, outcome.crowd
    slots = len(outcome.crowd.true_wh)
    spreads = [totals.spread_wh() for totals in ways]
    layout = "  {:<44}{:>25}{:>25}"
    yield "Is it true?"
    yield layout.format(f"{slots:,} totals", ALONE, CROWD)
    stated = (f"{spread.promised:,.0f} Wh" for spread in spreads)
    yield layout.format("typical error, stated (sd)", *stated)
    measured = (f"{spread.measured:,.0f} ± {spread.error:,.0f} Wh" for spread in spreads)
    yield layout.format("typical error, measured (± its own sd)", *measured)
    inside = (f"{totals.inside():,} of {slots:,}" for totals in ways)
    yield layout.format("intervals with the true total (95% promised)", *inside)


def _trust(outcome: CrowdOutcome) -> Iterator[str]:
    hides = f"hide {outcome.hides_wh} Wh of a home in every half hour, at level 1"
    yield f"Both {hides}. They differ in whom the home trusts:"
    for sentence in _TRUST:
        yield from wrap(sentence, WIDTH, initial_indent="  - ", subsequent_indent="    ")
