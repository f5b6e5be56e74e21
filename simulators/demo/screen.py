"""The text that the demo prints: the uses of private numbers, a test of the promises, and what is hidden."""

import math
from collections.abc import Iterator
from textwrap import wrap

import amqtt

from meteragent.report import wording
from meteragent.report.format import MEAN_W, mean_label
from meteragent.report.guarantee import MONTH_DAYS, Guarantee
from meteragent.report.language import say
from simulators.demo.outcome import Compared, Measured, Outcome

MANY = 1000


def text(outcome: Outcome, guarantee: Guarantee, seconds: float) -> str:
    """Return the demo's text, which includes the guarantee of `check`; `seconds` is the run's duration."""
    sections = (_head(outcome, seconds), _use(outcome), _test(outcome), _hidden(guarantee), _end(guarantee))
    return "\n".join(line for section in sections for line in [*section, ""])


def _head(outcome: Outcome, seconds: float) -> Iterator[str]:
    street, hides = outcome.street, outcome.terms.facts["hides_wh"]
    days = "1 day" if street.days == 1 else f"{street.days} days"
    yield f"{street.homes:,} simulated homes, {days} of readings, every 5 minutes"
    yield f"meters -> broker (amqtt {amqtt.__version__}) -> the agent -> broker -> receiver"
    yield f"The agent hides {hides} Wh in every half hour, such as one use of a kettle."
    count = f"{outcome.private_w.size:,} private numbers came out"
    yield f"{street.readings:,} readings went in, {count}, each once, in {seconds:.0f} s."
    yield "Every run has the same homes and new noise."


def _use(outcome: Outcome) -> Iterator[str]:
    layout = "{:<34}{:>11}{:>12}{:>13}   {}"
    yield "What it is good for"
    yield layout.format("", "true", "private", "off by *", "of a home's use **")
    for count in sorted({1, outcome.street.homes, MANY}):
        yield _homes(outcome, count)
        power = outcome.power_w(count)
        yield layout.format("  the half hour from 18:00", *_cells(power, "W"), _share(power, MEAN_W))
        for days in sorted({1, outcome.street.days, MONTH_DAYS}):
            energy = outcome.energy_kwh(count, days)
            name = "  a day" if days == 1 else f"  {days} days"
            cells = _cells(energy, "kWh")
            yield layout.format(name, *cells, _share(energy, MEAN_W * 24 * days / 1000))
    yield f"*  at most, 95% of the time     ** {MEAN_W} W, about 8 kWh a day"


def _homes(outcome: Outcome, count: int) -> str:
    if count > 1:
        return mean_label(count)
    return f"one home ({outcome.street.meters[outcome.median_index]}, the middle one by use)"


def _cells(compared: Compared, unit: str) -> tuple[str, str, str]:
    """Format the truth, the private number and the half-width, which gets at least two significant digits."""
    places = max(0, 1 - math.floor(math.log10(compared.within)))
    within = f"± {compared.within:,.{places}f} {unit}"
    if compared.true is None or compared.private is None:
        return "", "(promised)", within
    return f"{compared.true:,.{places}f} {unit}", f"{compared.private:,.{places}f} {unit}", within


def _share(compared: Compared, use: float) -> str:
    percent = 100 * compared.within / use
    return f"{percent:.0f}%" if percent > 10 else f"{percent:.2g}%"


def _hidden(guarantee: Guarantee) -> Iterator[str]:
    layout = "  {:<26}{:>10}{:>8}{:>18}{:>18}"
    yield say("hidden.title")
    yield f"{say('guess.title')}."
    for cells in (wording.guess_columns(), *wording.guess_rows(guarantee)):
        yield layout.format(*cells)


def _test(outcome: Outcome) -> Iterator[str]:
    layout = "  {:<58}{:>8}{:>22}"
    homes, slots = outcome.private_w.shape
    rows = (
        ("typical error of a number (standard deviation)", outcome.spread_w(), "W"),
        (f"typical error of the mean of {homes:,} homes", outcome.spread_of_mean_w(), "W"),
        ("mean error of a number", outcome.bias_w(), "W"),
        ("numbers that are off by no more than *", outcome.covered(), "%"),
    )
    yield "Is it true?"
    yield layout.format(f"{homes * slots:,} numbers, {slots:,} means", "promised", "measured in this run")
    for name, measured, unit in rows:
        yield layout.format(name, *_promised_and_measured(measured, unit))


def _promised_and_measured(figures: Measured, unit: str) -> tuple[str, str]:
    scale = 100 if unit == "%" else 1
    promised, measured, error = (scale * figure for figure in figures)
    places = max(0, -math.floor(math.log10(error)))
    return f"{promised:,.{places}f} {unit}", f"{measured:,.{places}f} ± {error:,.{places}f} {unit}"


def _end(guarantee: Guarantee) -> Iterator[str]:
    yield say("hidden.not")
    for sentence in wording.exposed_sentences(guarantee):
        yield from wrap(sentence, 100, initial_indent="  - ", subsequent_indent="    ")
