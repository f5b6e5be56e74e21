"""The sentences that say a guarantee, each once: for `check`, the statement, the page, `plan`, the demo."""

from meteragent.domain.figures import exact, figures
from meteragent.domain.grid import format_duration
from meteragent.domain.shape import Space
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, Kind
from meteragent.report.format import MEAN_W, amount, energy, mean_of, odds, rate
from meteragent.report.guarantee import CROWDS, MONTH_DAYS, REPETITIONS, USEFUL_ERROR_SHARE, Fleet, Guarantee

HIDDEN = "What is hidden, and what is not"
COSTS = "What it costs (one standard deviation)"
NOT_HIDDEN = "Does NOT hide"
WARNINGS = "Warnings"
ARCHIVE = "For `meteragent sanitise`: the noise comes from a key, and whoever has the key can take it off."
GUESS_COLUMNS = ("what happened", "moves", "once", *(f"daily, {days} days" for days in REPETITIONS[1:]))
USEFUL = f"fit for use: below {USEFUL_ERROR_SHARE:.0%} of a home of {MEAN_W} W"
_OF_ONE_HOME = {"number": "a number", "day_kwh": "a day", "month_kwh": f"a month of {MONTH_DAYS} days"}
_OF = {**_OF_ONE_HOME, **{f"mean_of_{homes}": mean_of(homes) for homes in CROWDS}}
_CALENDAR = {1: "days", 7: "weeks"}


# What a stream is ---------------------------------------------------------------------------------


def head(guarantee: Guarantee) -> str:
    """Name the stream, and say what leaves of a window."""
    terms = guarantee.terms
    numbers = "one number each" if terms.n == 1 else f"{terms.n} numbers each"
    shape = {Space.CURVE: f", the means of {terms.n} blocks of a curve", Space.PROFILE: ", a mean day"}
    name, what = guarantee.stream, f"{terms.kind} in {terms.unit}"
    return f"Stream {name}: {what}, {windows(terms)}, {numbers}{shape.get(terms.space, '')}"


def shard_meters(fleet: Fleet) -> str:
    """Say which meters an agent of a fleet has."""
    if not fleet.by_hash:
        return f"those on {fleet.topic_filter}"
    number, count = fleet.shard.number, fleet.shard.count
    return f"those of {fleet.topic_filter} whose names hash (FNV-1a) to {number} modulo {count}"


def windows(terms: Terms) -> str:
    """Say which windows there are."""
    if terms.timezone is None:
        return f"windows of {format_duration(terms.length_ms)}"
    return f"local {_CALENDAR.get(terms.length_ms // DAY_MS, 'months')} of {terms.timezone}"


def slot(terms: Terms) -> str:
    """Say what a slot is; of a mean day, its shortest band."""
    if terms.bands:
        return f"band of the day ({format_duration(terms.step_ms)} in all)"
    return f"slot of {format_duration(terms.step_ms)}"


def slot_values(terms: Terms) -> str:
    """Say what is released of a slot."""
    return "slot means" if terms.kind is Kind.POWER else "slot energies"


# The promise --------------------------------------------------------------------------------------


def promise(guarantee: Guarantee) -> list[str]:
    """Say the promise, one sentence or two to a line."""
    lines = (
        indistinguishable(guarantee),
        exactly(guarantee),
        hidden(guarantee),
        windows_add(guarantee),
        streams_add(guarantee),
        of_curves(guarantee),
        of_loads(guarantee),
    )
    return [line for line in lines if line]


def indistinguishable(guarantee: Guarantee) -> str:
    """Say by how much what leaves changes the odds between two courses."""
    terms = guarantee.terms
    courses = "load shapes" if guarantee.follows_loads else "courses of readings"
    return (
        f"For any two {courses} whose {slot_values(terms)} differ by at most"
        f" {exact(terms.radius)} {terms.unit}, what leaves in a window changes the odds between"
        f" them by a factor of at most {odds(terms.level)}."
    )


def exactly(guarantee: Guarantee) -> str:
    """Say the privacy parameter."""
    terms = guarantee.terms
    return f"Exactly: epsilon = {terms.epsilon} per {terms.unit}, on multiples of {exact(terms.quantum)}."


def hidden(guarantee: Guarantee) -> str:
    """Say which energy is hidden."""
    terms = guarantee.terms
    said = "" if guarantee.follows_loads else ", in what the readings say"
    around = " and the readings around it" if terms.kind is Kind.REGISTER else ""
    return f"Hidden{said}: whatever moves at most {energy(terms.hides_wh)} within any {slot(terms)}{around}."


def windows_add(guarantee: Guarantee) -> str:
    """Say what repeats."""
    terms, spent = guarantee.terms, f"{rate(guarantee.level_in(1))} a day"
    if terms.length_ms > DAY_MS:
        spent = f"{rate(terms.level)} in each of the {windows(terms)}"
    return f"Levels of windows add: {spent}. What repeats is learnt."


def streams_add(guarantee: Guarantee) -> str:
    """Say what several streams on one meter cost it; nothing where there is one."""
    epsilon = guarantee.meter_epsilon_per_day
    if epsilon is None:
        return ""
    return (
        f"Streams add too: a meter that all streams here read is charged epsilon {figures(epsilon)} per W a"
        " day (levels of different radii have no sum)."
    )


def of_curves(guarantee: Guarantee) -> str:
    """Say what a dead band or a step makes of the promise for what the home really used, if there is one."""
    terms, level = guarantee.terms, guarantee.level_of_curves
    if level is None:
        return ""
    step = f"{exact(guarantee.step)} {terms.unit}"
    why = f"The device reports on change, and lets the power go {step} from what it said last"
    if terms.kind is not Kind.POWER:
        why = f"The meter counts in steps of {step}"
    return f"{why}: for what the home really used, the factor is {odds(level)}."


def of_loads(guarantee: Guarantee) -> str:
    """Say what of the promise holds for the load itself."""
    if guarantee.unknown_of_loads:
        keys = " and ".join(guarantee.unknown_of_loads)
        return f"For the load itself that holds as far as readings follow it; {keys} would say how far."
    terms, steps = guarantee.terms, ""
    if terms.kind is not Kind.POWER and terms.dead_band:
        each = float(guarantee.level_of_step)
        steps = f" A step that it moved stays moved: each later slot may cost a level of {each:.2g}."
    return (
        f"For the load itself: what moves {energy(terms.hides_wh)} within a slot, in one go, changes the odds"
        f" by a factor of at most {odds(guarantee.level_of_loads)}.{steps}"
    )


# What it costs ------------------------------------------------------------------------------------


def within(half_width: str) -> str:
    """Say where 95 % of all numbers are."""
    return f"95 % within {half_width}"


def costs(guarantee: Guarantee) -> list[tuple[str, str, str]]:
    """Return the errors: what of, how large, and whether that is fit for use."""
    errors = [
        (label, name, guarantee.errors[name]) for name, label in _OF.items() if name in guarantee.errors
    ]
    return [(label, _size(guarantee, name), USEFUL if error.useful else "") for label, name, error in errors]


def _size(guarantee: Guarantee, name: str) -> str:
    """Say how large an error is, of a number also where 95 % are."""
    error, band = guarantee.errors[name], guarantee.errors["ci95"]
    size = amount(error.value, error.unit)
    return f"{size} ({within(amount(band.value, band.unit))})" if name == "number" else size


def summary(guarantee: Guarantee) -> str:
    """Say in a line what is hidden, and what that costs one home."""
    names = [name for name in _OF_ONE_HOME if name in guarantee.errors]
    sizes = [f"{_OF_ONE_HOME[name]} {_size(guarantee, name)}" for name in names]
    hides = f"{energy(guarantee.terms.hides_wh)} within any {slot(guarantee.terms)}"
    return f"hides {hides}; off by (one standard deviation): {', '.join(sizes)}"


# What is hidden and what is not -------------------------------------------------------------------


def guesses(percent: str = "so many") -> str:
    """Say how often whoever guesses is right."""
    return f"Whoever guesses whether it happened is right in at most {percent} of 100 guesses (50 is a coin)"


def guess_rows(guarantee: Guarantee) -> list[tuple[str, ...]]:
    """Return a row of `GUESS_COLUMNS` for each event."""
    return [
        (event.name, energy(event.energy_wh), *(str(percent.get(days, "-")) for days in REPETITIONS))
        for event, percent in guarantee.exposures
    ]


def not_hidden(guarantee: Guarantee) -> list[str]:
    """Say what is not hidden, whatever the terms."""
    terms = guarantee.terms
    return [
        f"an event that moves much more than {energy(terms.hides_wh)} within one {slot(terms)}",
        "what repeats: the levels of its windows add, and in the end it is learnt",
        "that the meter exists, and its grid in time: they are public",
        "the exact bill, if you send it elsewhere",
    ]
