"""The sentences that state a guarantee: texts, filled with numbers of `guarantee`."""

from collections.abc import Iterator, Mapping

from meteragent.domain import loads
from meteragent.domain.problem import Problem, format_fields
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, HOUR_MS, Kind
from meteragent.report.format import (
    MEAN_W,
    amount_text,
    duration,
    energy_text,
    figures_text,
    full_text,
    level_text,
    mean_label,
    odds_text,
    percent_text,
    round_up,
    whole_text,
)
from meteragent.report.guarantee import CROWDS, MONTH_DAYS, REPETITIONS, USEFUL_ERROR_SHARE, Fleet, Guarantee
from meteragent.report.language import say
from meteragent.report.shapes import METRICS, row_of, shape_text
from meteragent.report.warn import unknown_of_loads

_HOME_LABELS = {
    "number": "cost.number",
    "combined": "cost.combined",
    "day_kwh": "cost.day",
    "month_kwh": "cost.month",
    "month_total": "cost.month",
}
"""The key of the label of each error of one home."""


# Streams ------------------------------------------------------------------------------------------


def head_line(guarantee: Guarantee) -> str:
    """Return the stream's name and a description of the numbers that are sent for each window."""
    terms, row = guarantee.terms, row_of(guarantee.terms.shape)
    key = row.number if terms.n == 1 else row.numbers
    return say(
        "stream.head",
        name=guarantee.stream,
        kind=say(f"stream.kind_{terms.readings.kind}"),
        unit=terms.readings.unit,
        windows=windows_phrase(terms),
        numbers=shape_text(key, terms.shape, count=whole_text(terms.n), part=duration(terms.step_ms)),
    )


def shard_phrase(fleet: Fleet) -> str:
    """Return a description of the meters of one agent in a fleet."""
    if not fleet.is_hashed:
        return say("stream.shard_filter", filter=fleet.topic_filter)
    number, count = fleet.shard.number, fleet.shard.count
    return say("stream.shard_hash", filter=fleet.topic_filter, number=number, count=count)


def windows_phrase(terms: Terms) -> str:
    """Return a description of the windows."""
    if terms.timezone is None:
        return say("stream.windows", duration=duration(terms.length_ms))
    period = {1: "days", 7: "weeks"}.get(terms.length_ms // DAY_MS, "months")
    return say("stream.local_windows", period=say(f"stream.{period}"), timezone=terms.timezone)


def slot_phrase(terms: Terms) -> str:
    """Return a description of a slot; for bands, a slot is the shortest band, and for a peak, one part."""
    return say(row_of(terms.shape).slot, duration=duration(terms.step_ms))


def place_phrase(terms: Terms, slot_text: str | None = None) -> str:
    """Return a phrase that states where energy is hidden: in any slot, or in a window's slots together."""
    key = METRICS[terms.metric].where or row_of(terms.shape).in_all
    return say(key, slot=slot_text or slot_phrase(terms))


def slot_values(terms: Terms) -> str:
    """Return the noun for the values of slots."""
    usual = "promise.slot_energies" if terms.is_energy else "promise.slot_means"
    return shape_text(row_of(terms.shape).values or usual, terms.shape)


# The promise --------------------------------------------------------------------------------------


def promise_lines(guarantee: Guarantee) -> list[str]:
    """Return the promise as lines of sentences; the lines after `hidden_sentence` contain formulas."""
    terms, row = guarantee.terms, row_of(guarantee.terms.shape)
    lines = (
        *(shape_text(key, terms.shape) for key in row.first),
        hidden_sentence(guarantee),
        odds_sentence(guarantee),
        say(
            "promise.exactly", epsilon=terms.epsilon, unit=terms.value_unit, quantum=full_text(terms.quantum)
        ),
        *(shape_text(key, terms.shape) for key in row.about),
        in_all_sentences(guarantee),
        windows_sentence(guarantee),
        *recharge_sentences(guarantee),
        streams_sentence(guarantee),
        curves_sentence(guarantee),
        space_sentence(guarantee),
        loads_sentence(guarantee),
    )
    return [line for line in lines if line]


def hidden_sentence(guarantee: Guarantee) -> str:
    """Return the sentence about the hidden energy."""
    terms, slot_text = guarantee.terms, slot_phrase(guarantee.terms)
    if terms.readings.kind is Kind.REGISTER:
        slot_text = say("promise.register_slot", slot=slot_text)
    key = "promise.hidden" if guarantee.follows_loads else "promise.hidden_in_readings"
    return say(key, energy=energy_text(terms.hides_wh), where=place_phrase(terms, slot_text))


def odds_sentence(guarantee: Guarantee) -> str:
    """Return the sentence about the odds between two series (loads or readings) that differ by the radius."""
    terms = guarantee.terms
    return say(
        METRICS[terms.metric].odds,
        courses=say("promise.loads_courses" if guarantee.follows_loads else "promise.readings_courses"),
        values=slot_values(terms),
        radius=f"{full_text(terms.radius)} {terms.value_unit}",
        odds=odds_text(terms.level),
    )


def windows_sentence(guarantee: Guarantee) -> str:
    """Return the sentence about how the levels of windows add up."""
    terms = guarantee.terms
    if terms.length_ms > DAY_MS:
        return say("promise.levels_a_window", level=level_text(terms.level), windows=windows_phrase(terms))
    return say("promise.levels_a_day", level=level_text(guarantee.level_in(1)))


def recharge_sentences(guarantee: Guarantee) -> list[str]:
    """Return the sentences about what charges a window again, such as a restart of the agent."""
    shape, level = guarantee.terms.shape, level_text(guarantee.terms.level)
    return [shape_text(key, shape, level=level) for key in row_of(shape).repeats]


def streams_sentence(guarantee: Guarantee) -> str:
    """Return the sentence about a meter's charge by several streams; empty if no other stream charges it."""
    epsilon = guarantee.meter_epsilon_per_day
    return "" if epsilon is None else say("promise.streams_add", epsilon=figures_text(epsilon))


def curves_sentence(guarantee: Guarantee) -> str:
    """Return the sentence about the promise for load curves; empty if no dead band or step affects it."""
    terms, level = guarantee.terms, guarantee.level_of_curves
    if level is None:
        return ""
    key = "promise.dead_band" if terms.readings.kind is Kind.POWER else "promise.count_step"
    radius = say(METRICS[terms.metric].radius, radius=f"{full_text(terms.radius)} {terms.value_unit}")
    step = f"{full_text(guarantee.step)} {terms.readings.unit}"
    return say(key, step=step, values=slot_values(terms), radius=radius, odds=odds_text(level))


def space_sentence(guarantee: Guarantee) -> str:
    """Return the promise for two curves at a distance in C([0, T]) (THEORY 4.1); empty without curves."""
    terms, key = guarantee.terms, row_of(guarantee.terms.shape).distance
    if key is None:
        return ""
    return say(
        key,
        length=duration(terms.length_ms),
        radius=f"{full_text(terms.radius_w)} W",
        step=f"{full_text(guarantee.step)} {terms.readings.unit}",
        odds=odds_text(loads.level_of_curves(terms)),
    )


def loads_sentence(guarantee: Guarantee) -> str:
    """Return the sentence about the promise for the load itself."""
    terms = guarantee.terms
    if guarantee.unknown_of_loads:
        return say("promise.loads_unknown", cure=say(f"promise.set_{unknown_of_loads(terms)}"))
    text = say("promise.loads", energy=energy_text(terms.hides_wh), odds=odds_text(guarantee.level_of_loads))
    if terms.readings.kind is not Kind.POWER and terms.readings.dead_band:
        level = figures_text(guarantee.level_of_step)
        return say("promise.loads_step", loads=text, place=say(METRICS[terms.metric].stretch), level=level)
    return text


# A change in all ----------------------------------------------------------------------------------


def in_all_sentences(guarantee: Guarantee) -> str:
    """Return the sentences about a change by the hidden energy, added up over many slots.

    If such a change costs more than the level, they state the reasons and an attacker's success limit.
    """
    terms, hidden_energy = guarantee.terms, energy_text(guarantee.terms.hides_wh)
    if guarantee.is_in_all:
        key = "in_all.hidden_in_readings" if guarantee.unknown_of_loads else "in_all.hidden"
        return say(key, energy=hidden_energy, odds=odds_text(round_up(guarantee.in_all[-1].level)))
    levels = {limit.days: odds_text(round_up(limit.level)) for limit in guarantee.in_all}
    chances = {limit.days: percent_text(str(limit.success_percent)) for limit in guarantee.in_all}
    limited = "in_all.limited_in_readings" if guarantee.unknown_of_loads else "in_all.limited"
    parts = (
        say(limited, energy=hidden_energy, limits=_joined_limits(levels, terms)),
        *_reason_sentences(terms),
        say("in_all.success", limits=_joined_limits(chances, terms)),
        say("in_all.table") if terms.readings.dead_band else "",
    )
    return " ".join(filter(None, parts))


def _joined_limits(limits: Mapping[int, str], terms: Terms) -> str:
    """Join the limits, each with its number of days; omit the days if the limit holds for any number."""
    if len(set(limits.values())) == 1:
        if not loads.step_wh(terms) and terms.rounding != "half-up":
            return next(iter(limits.values()))
        limits = dict([max(limits.items())])
    lengths = ((limit, duration(days * DAY_MS)) for days, limit in limits.items())
    return say("and").join(say("in_all.over", limit=limit, duration=length) for limit, length in lengths)


def _reason_sentences(terms: Terms) -> Iterator[str]:
    """Yield a sentence for each reason why a change over many slots costs more than its energy alone."""
    step_wh = loads.step_wh(terms)
    if step_wh:
        key = "in_all.dead_band" if terms.readings.kind is Kind.POWER else "in_all.step"
        step = amount_text(float(step_wh / loads.wh_per_unit(terms)), terms.value_unit)
        yield say(key, place=say(METRICS[terms.metric].stretch), step=step)
    if terms.readings.kind is Kind.POWER and (hold_ms := terms.readings.longest_hold_ms):
        key = "in_all.sampled" if hold_ms == terms.readings.every_ms else "in_all.held"
        more_wh = terms.readings.width_w * hold_ms / HOUR_MS
        yield say(key, period=duration(hold_ms), energy=energy_text(more_wh))
    if terms.rounding == "half-up":
        yield say("in_all.rounded", quantum=f"{full_text(terms.quantum)} {terms.value_unit}")


# What it costs ------------------------------------------------------------------------------------


def cost_rows(guarantee: Guarantee) -> list[tuple[str, str, str]]:
    """Return each error's label, its size, and a note, which is empty unless the error is small."""
    labels = {name: _label(name) for name in _HOME_LABELS} | {
        f"mean_of_{homes}": mean_label(homes) for homes in CROWDS
    }
    return [
        (label, _error_size(guarantee, name), useful_note() if guarantee.errors[name].is_useful else "")
        for name, label in labels.items()
        if name in guarantee.errors
    ]


def _label(name: str) -> str:
    return say(_HOME_LABELS[name], days=MONTH_DAYS)


def useful_note() -> str:
    """Return the note on an error that is small enough to be useful."""
    return say("cost.useful", percent=f"{100 * USEFUL_ERROR_SHARE:.0f}", watts=MEAN_W)


def _error_size(guarantee: Guarantee, name: str) -> str:
    """Return the size of an error; for a number, combined or not, add the 95% half-width."""
    error = guarantee.errors[name]
    size = amount_text(error.value, error.unit)
    if name not in {"number", "combined"}:
        return size
    band = guarantee.errors["combined_ci95" if name == "combined" else "ci95"]
    return with_half_width(size, amount_text(band.value, band.unit))


def with_half_width(size: str, half_width: str) -> str:
    """Return the size of an error with the half-width of its 95% interval."""
    return say("cost.size", size=size, within=say("cost.within", half_width=half_width))


def summary_figures(guarantee: Guarantee) -> list[tuple[str, str]]:
    """Return the hidden energy, and one home's errors for a number and a month, each after its label."""
    errors = guarantee.errors
    names = [name for name in _HOME_LABELS if name in errors and name != "day_kwh"]
    sizes = [(_label(name), amount_text(errors[name].value, errors[name].unit)) for name in names]
    return [(say("cost.hides"), energy_text(guarantee.terms.hides_wh)), *sizes]


# Hidden and not hidden ----------------------------------------------------------------------------


def guess_columns() -> tuple[str, ...]:
    """Return the column headings of `guess_rows`."""
    daily = (say("guess.daily", days=days) for days in REPETITIONS[1:])
    return (say("guess.event"), say("guess.moves"), say("guess.once"), *daily)


def guess_rows(guarantee: Guarantee) -> list[tuple[str, ...]]:
    """Return a row with the columns of `guess_columns` for each event."""
    return [
        (event.title, energy_text(event.energy_wh), *(str(percent.get(days, "-")) for days in REPETITIONS))
        for event, percent, _ in guarantee.exposures
    ]


def exposed_sentences(guarantee: Guarantee) -> list[str]:
    """Return the sentences about facts that are not hidden."""
    terms, row = guarantee.terms, row_of(guarantee.terms.shape)
    energy, slot = energy_text(terms.hides_wh), slot_phrase(terms)
    large = say(METRICS[terms.metric].large or row.large, energy=energy, slot=slot)
    return [large, *map(say, ("hidden.repeated", "hidden.public", "hidden.bill", *row.exposed))]


# The agent's state --------------------------------------------------------------------------------


def problem_sentence(item: Problem) -> str:
    """Return a problem's cause as a sentence, after the stream's name and the number of its meters."""
    filled = format_fields(item.fields, duration, lambda counter: say(f"counter.{counter}"))
    cause = say(f"problem.{item.code}", **dict(filled))
    if item.fields.get("of", 1) != 1:
        cause = say("problem.of_meters", meters=item.fields["meters"], of=item.fields["of"], cause=cause)
    return cause if item.stream is None else say("problem.of_stream", stream=item.stream, cause=cause)
