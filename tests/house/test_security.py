"""SECURITY.md: every figure in it that the library can work out, worked out again."""

import re
import tomllib
from fractions import Fraction
from math import ceil, exp
from pathlib import Path
from typing import Any

import pytest

from meteragent import config
from meteragent.config.model import Source
from meteragent.domain import loads
from meteragent.domain.presets import PRESETS
from meteragent.domain.shapes import Space
from meteragent.domain.terms import Terms
from meteragent.domain.units import HOUR_MS
from meteragent.report.format import round_up
from meteragent.report.guarantee import REPETITIONS
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.support.configurations import written
from tests.support.guarantees import facts_of

ROOT = Path(__file__).resolve().parents[2]
TEXT = " ".join((ROOT / "SECURITY.md").read_text().split())
START_MS = 1_795_176_000_000
AWAY = "8 h away"


def stream(preset: str) -> config.Stream:
    """A stream of a preset, on the local calendar where it needs one."""
    window = "timezone = 'Europe/Amsterdam'" if PRESETS[preset].has_calendar else ""
    if PRESETS[preset].space is Space.BANDS:
        window += "\nrest = 'night'\nband = [{ name = 'day', days = 'mon-fri', hours = ['07/23'] }]"
    return config.parse(written(window=window, privacy=f"preset = '{preset}'")).stream[0]


def right(preset: str) -> dict[str, dict[str, int]]:
    """How often of 100 anybody is right, by event and number of days."""
    return {row["event"]: row["right_of_100"] for row in facts_of(stream(preset))["hidden"]}


def quantum_wh(terms: Terms) -> str:
    """Return one quantum over a slot, as energy: how closely a copy and a record tell what came between."""
    return f"{float(terms.quantum * terms.slot_ms(0) / HOUR_MS):g} Wh"


def test_the_promise_in_numbers() -> None:
    """Radius, energy hidden, odds and the day's level are those of the default."""
    facts: dict[str, Any] = facts_of(stream("appliance"))
    assert f"at most {facts['radius']} W in every slot ({facts['hides_wh']} Wh over half" in TEXT
    assert (
        f"a factor of at most e^{facts['level']} = {exp(1):.2f}. For twice that difference the factor is"
        f" e^2 = {exp(2):.2f}." in TEXT
    )
    assert f"The levels of windows add up: {facts['level_per_day']} a day" in TEXT


def test_what_the_default_hides() -> None:
    """The table of events is that of `check`."""
    rows = {name: [found[str(days)] for days in REPETITIONS] for name, found in right("appliance").items()
            if len(found) == len(REPETITIONS)}  # fmt: skip
    told = re.findall(r"\| ([a-zA-Z0-9 ,]+?) \([\d,]+ Wh\) \| (\d+) \| (\d+) \| (\d+) \|", TEXT)
    assert len(told) == 5
    for name, *numbers in told:
        assert [int(one) for one in numbers] == rows[name]


LOADS = re.findall(
    r"\| (power|register) ([a-z ,]+)(\d+) (s|W|Wh) \| ([\d,]+) Wh \| ([\d.]+) \| (\d+) \|", TEXT
)


@pytest.mark.parametrize("row", LOADS, ids=" ".join)
def test_what_readings_make_of_a_kettle(row: tuple[str, ...]) -> None:
    """The table of readings is that of `check`: what 110 Wh count for, its level, and a kettle's bet."""
    kind, _, size, unit, counted, level, right_of_100 = row
    key = "every = '{}s'" if unit == "s" else "dead_band = {}"
    source = f"kind = '{kind}'\nunit = '{'W' if kind == 'power' else 'Wh'}'\n{key.format(size)}"
    found = config.parse(written(source=source)).stream[0]
    terms = config.terms(found)
    moved = loads.distance_bound(terms, terms.hides_wh)
    assert f"{float(moved * terms.step_ms / HOUR_MS if kind == 'power' else moved):,.0f}" == counted
    assert f"{float(loads.level_factor(terms)):.3g}" == level
    (kettle,) = [one for one in facts_of(found)["hidden"] if one["event"] == "a kettle"]
    assert kettle["right_of_100"]["1"] == int(right_of_100)


def test_readings_of_each_kind_are_in_the_table() -> None:
    """The table has sampled power, power on change and registers."""
    assert len(LOADS) == 8


IN_ALL = re.findall(
    r"\| (power|register) [a-z ,]+(\d+) (?:W|Wh) \| ([\d.]+) \| ([\d.]+) \| (\d+) \| (\d+) \|", TEXT
)


@pytest.mark.parametrize("row", IN_ALL, ids=" ".join)
def test_what_readings_make_of_110_wh_in_all(row: tuple[str, ...]) -> None:
    """The table of levels in all is that of `check`, over a day and a month."""
    kind, step, *figures = row
    every = "\nevery = '0s'" if kind == "power" else ""
    source = f"kind = '{kind}'\nunit = '{'W' if kind == 'power' else 'Wh'}'\ndead_band = {step}{every}"
    in_all = facts_of(config.parse(written(source=source)).stream[0])["loads"]["in_all"]
    assert figures == [str(period[key]) for key in ("level", "right_of_100") for period in in_all["periods"]]
    assert in_all["without_limits"] is (step == "0")


def test_what_110_wh_cost_in_all() -> None:
    """The level of 110 Wh and of a TV evening is that of the library, rounded up."""
    assert len(IN_ALL) == 5
    terms = config.terms(stream("appliance"))
    levels = [round_up(loads.level_in_all(terms, Fraction(wh), 1440)) for wh in (110, 300)]
    assert f"by a factor of at most e^{float(levels[0])}, and a TV evening" in TEXT
    assert f"over six slots changes them by at most e^{float(levels[1])} " in TEXT


@pytest.mark.parametrize("preset", PRESETS)
def test_presence(preset: str) -> None:
    """What each preset tells of an absence is what `check` says."""
    found = right(preset)
    numbers = [*found[AWAY].values(), found["a day away"]["1"], found["a week away"]["1"]]
    default = " (default)" if preset == "appliance" else ""
    assert f"| `{preset}`{default} | {' | '.join(map(str, numbers))} |" in TEXT


def test_what_a_copy_of_the_disk_tells() -> None:
    """A copy and a record tell energy to quantum times slot; with R a kettle is as well hidden on average."""
    energies = {name: quantum_wh(config.terms(stream(name))) for name in PRESETS}
    assert energies["television"] == energies["appliance"] == energies["street"]
    assert f"one quantum × slot: {energies['appliance']} (`day` {energies['day']}," in TEXT
    assert f"`typical-day` {energies['typical-day']} a band, `bill` {energies['bill']})" in TEXT
    # Noise is uniform in [-R, R] and R is Gamma(2): the mean of min(1, d / 2R) over R, for d = 1 radius.
    steps = [(at + 0.5) / 1000 for at in range(40_000)]
    apart = sum(r * exp(-r) * min(1, 1 / (2 * r)) / 1000 for r in steps)
    known = ceil(100 * (1 + apart) / 2 - 0.2)
    assert f"right about a kettle {known}% of the time" in TEXT
    assert known == right("appliance")["a kettle"]["1"]


def test_the_size_of_a_record() -> None:
    """Bytes of a record of the default with a value of three digits."""
    records = RecordFormat.of(describe_terms(config.terms(stream("appliance"))))
    assert f"A record is {len(records.encode('m1', START_MS, 0, 512))} bytes for a value" in TEXT


def test_bounds_of_a_sender() -> None:
    """The limits of a sender are the defaults of the configuration."""
    defaults = stream("appliance")
    assert f"within `range` ({int(defaults.window.range[1]):,} W)" in TEXT
    fields = Source.model_fields
    assert (
        f"accepts at most {fields['max_meters'].default:,} meters, {fields['max_payload'].default:,} bytes"
        in TEXT
    )
    assert f"{fields['inflight'].default:,} unacknowledged messages" in TEXT
    assert f"more than {defaults.window.ahead // 60_000} minutes ahead" in TEXT
    assert f"for `keep` ({config.parse(written()).store.keep // (24 * HOUR_MS)} days)" in TEXT


def test_every_dependency_is_named() -> None:
    """Each package that an installation brings for the agent or its page is in the table."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["page"]]
    names = {match[0] for line in requirements if (match := re.match(r"[\w-]+", line))}
    table = TEXT[TEXT.index("| package | for |") : TEXT.index("The agent sends no telemetry")]
    assert names <= set(re.findall(r"`([\w-]+)`", table))


def test_each_claim_names_tests_that_exist() -> None:
    """A claim that is tested lists the files of its tests, and they are there."""
    claims = tomllib.loads((ROOT / "tests" / "house" / "security.toml").read_text())
    assert "`tests/house/security.toml` lists the tests of each claim" in TEXT
    assert len(claims) >= 20
    for claim, names in claims.items():
        assert names, claim
        assert all((ROOT / "tests" / name).is_file() for name in names), claim
