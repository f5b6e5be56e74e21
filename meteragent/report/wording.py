"""The sentences that state a guarantee, for `check`, the statement, the page, `plan` and the demo.

Each function fills in one text of the catalogue. Nothing is computed here: numbers come from `guarantee`.
"""

from meteragent.domain.figures import exact, figures
from meteragent.domain.grid import duration_text
from meteragent.domain.shape import Metric, Space
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, Kind
from meteragent.report.catalogue import say
from meteragent.report.format import MEAN_W, amount, energy, mean_of, odds, rate
from meteragent.report.guarantee import CROWDS, MONTH_DAYS, REPETITIONS, USEFUL_ERROR_SHARE, Fleet, Guarantee

PROMISE = say("promise.title")
HIDDEN = say("hidden.title")
COSTS = say("cost.title")
NOT_HIDDEN = say("hidden.not")
WARNINGS = say("hidden.warnings")
ARCHIVE = say("stream.archive")
GUESS_COLUMNS = (
    say("guess.event"),
    say("guess.moves"),
    say("guess.once"),
    *(say("guess.daily", days=days) for days in REPETITIONS[1:]),
)
USEFUL = say("cost.useful", percent=f"{100 * USEFUL_ERROR_SHARE:.0f}", watts=MEAN_W)
_OF_ONE_HOME = {
    "number": say("cost.number"),
    "day_kwh": say("cost.day"),
    "month_kwh": say("cost.month", days=MONTH_DAYS),
}
_OF = {**_OF_ONE_HOME, **{f"mean_of_{homes}": mean_of(homes) for homes in CROWDS}}


# What a stream is ---------------------------------------------------------------------------------


def head(guarantee: Guarantee) -> str:
    """Name the stream, and say what leaves in a window."""
    terms = guarantee.terms
    keys = {Space.CURVE: "stream.curve", Space.PROFILE: "stream.profile", Space.BANDS: "stream.bands"}
    return say(
        "stream.head",
        name=guarantee.stream,
        kind=say(f"stream.kind_{terms.kind}"),
        unit=terms.unit,
        windows=windows(terms),
        numbers=say(
            "stream.one_number" if terms.n == 1 else keys.get(terms.space, "stream.numbers"), count=terms.n
        ),
    )


def shard_meters(fleet: Fleet) -> str:
    """Say which meters an agent of a fleet has."""
    if not fleet.by_hash:
        return say("stream.shard_filter", filter=fleet.topic_filter)
    number, count = fleet.shard.number, fleet.shard.count
    return say("stream.shard_hash", filter=fleet.topic_filter, number=number, count=count)


def windows(terms: Terms) -> str:
    """Say which windows there are."""
    if terms.timezone is None:
        return say("stream.windows", duration=duration_text(terms.length_ms))
    period = {1: "days", 7: "weeks"}.get(terms.length_ms // DAY_MS, "months")
    return say("stream.local_windows", period=say(f"stream.{period}"), timezone=terms.timezone)


def slot(terms: Terms) -> str:
    """Say what a slot is; of a mean day, its shortest band."""
    return say("stream.band" if terms.bands else "stream.slot", duration=duration_text(terms.step_ms))


def where(terms: Terms, slot_text: str | None = None) -> str:
    """Say within what an energy is hidden: within any slot, or in all bands together."""
    if terms.metric is Metric.L1:
        return say("promise.in_all")
    return say("promise.within", slot=slot_text or slot(terms))


def slot_values(terms: Terms) -> str:
    """Say what is released of a slot."""
    return say("promise.slot_energies" if terms.is_energy else "promise.slot_means")


# The promise --------------------------------------------------------------------------------------


def promise(guarantee: Guarantee) -> list[str]:
    """State the promise, one sentence or two to a line."""
    lines = (
        hidden(guarantee),
        indistinguishable(guarantee),
        exactly(guarantee),
        windows_add(guarantee),
        streams_add(guarantee),
        of_curves(guarantee),
        of_loads(guarantee),
    )
    return [line for line in lines if line]


def hidden(guarantee: Guarantee) -> str:
    """Say which energy is hidden."""
    terms, slot_text = guarantee.terms, slot(guarantee.terms)
    if terms.kind is Kind.REGISTER:
        slot_text = say("promise.register_slot", slot=slot_text)
    key = "promise.hidden" if guarantee.follows_loads else "promise.hidden_in_readings"
    return say(key, energy=energy(terms.hides_wh), where=where(terms, slot_text))


def indistinguishable(guarantee: Guarantee) -> str:
    """Say by how much what leaves changes the odds between two courses."""
    terms = guarantee.terms
    return say(
        "promise.odds_in_all" if terms.metric is Metric.L1 else "promise.odds",
        courses=say("promise.loads_courses" if guarantee.follows_loads else "promise.readings_courses"),
        values=slot_values(terms),
        radius=f"{exact(terms.radius)} {terms.value_unit}",
        odds=odds(terms.level),
    )


def exactly(guarantee: Guarantee) -> str:
    """State the privacy parameter and the lattice."""
    terms = guarantee.terms
    return say("promise.exactly", epsilon=terms.epsilon, unit=terms.value_unit, quantum=exact(terms.quantum))


def windows_add(guarantee: Guarantee) -> str:
    """Say what the levels of windows add up to."""
    terms = guarantee.terms
    if terms.length_ms > DAY_MS:
        return say("promise.levels_a_window", level=rate(terms.level), windows=windows(terms))
    return say("promise.levels_a_day", level=rate(guarantee.level_in(1)))


def streams_add(guarantee: Guarantee) -> str:
    """Say what several streams on one meter cost it; nothing where there is one."""
    epsilon = guarantee.meter_epsilon_per_day
    return "" if epsilon is None else say("promise.streams_add", epsilon=figures(epsilon))


def of_curves(guarantee: Guarantee) -> str:
    """Say what a dead band or a step makes of the promise for what the home really used, if there is one."""
    terms, level = guarantee.terms, guarantee.level_of_curves
    if level is None:
        return ""
    key = "promise.dead_band" if terms.kind is Kind.POWER else "promise.count_step"
    return say(key, step=f"{exact(guarantee.step)} {terms.unit}", odds=odds(level))


def of_loads(guarantee: Guarantee) -> str:
    """Say how much of the promise holds for the load itself."""
    if guarantee.unknown_of_loads:
        return say("promise.loads_unknown", keys=say("and").join(guarantee.unknown_of_loads))
    terms = guarantee.terms
    loads = say("promise.loads", energy=energy(terms.hides_wh), odds=odds(guarantee.level_of_loads))
    if terms.kind is not Kind.POWER and terms.dead_band:
        return say("promise.loads_step", loads=loads, level=f"{float(guarantee.level_of_step):.2g}")
    return loads


# What it costs ------------------------------------------------------------------------------------


def within(half_width: str) -> str:
    """Say where 95 % of all numbers are."""
    return say("cost.within", half_width=half_width)


def costs(guarantee: Guarantee) -> list[tuple[str, str, str]]:
    """Return the errors: what of, how large, and whether that is useful."""
    errors = [
        (label, name, guarantee.errors[name]) for name, label in _OF.items() if name in guarantee.errors
    ]
    return [(label, _size(guarantee, name), USEFUL if error.useful else "") for label, name, error in errors]


def _size(guarantee: Guarantee, name: str) -> str:
    """Say how large an error is; of a number also where 95 % are."""
    error, band = guarantee.errors[name], guarantee.errors["ci95"]
    size = amount(error.value, error.unit)
    if name != "number":
        return size
    return say("cost.size", size=size, within=within(amount(band.value, band.unit)))


def summary(guarantee: Guarantee) -> str:
    """Say in a line what is hidden, and what that costs one home."""
    names = [name for name in _OF_ONE_HOME if name in guarantee.errors]
    sizes = ", ".join(f"{_OF_ONE_HOME[name]} {_size(guarantee, name)}" for name in names)
    terms = guarantee.terms
    return say("cost.summary", energy=energy(terms.hides_wh), where=where(terms), sizes=sizes)


# What is hidden and what is not -------------------------------------------------------------------


def guesses() -> str:
    """Name the figures of `guess_rows`."""
    return say("guess.title")


def guess_limit(percent: int, events: str) -> str:
    """Say how often whoever guesses is right at most about one of these events."""
    return say("guess.limit", percent=percent, events=events)


def guess_rows(guarantee: Guarantee) -> list[tuple[str, ...]]:
    """Return a row of `GUESS_COLUMNS` for each event."""
    return [
        (event.name, energy(event.energy_wh), *(str(percent.get(days, "-")) for days in REPETITIONS))
        for event, percent in guarantee.exposures
    ]


def not_hidden(guarantee: Guarantee) -> list[str]:
    """List what is not hidden, whatever the terms."""
    terms = guarantee.terms
    key = "hidden.large_in_all" if terms.metric is Metric.L1 else "hidden.large"
    large = say(key, energy=energy(terms.hides_wh), slot=slot(terms))
    return [large, say("hidden.repeated"), say("hidden.public"), say("hidden.bill")]
