"""The configuration: what is accepted, and what it means exactly."""

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from meteragent import config
from meteragent.domain.metric import Metric
from meteragent.domain.presets import PRESETS, units_per_watt
from meteragent.domain.reading import Reading
from meteragent.domain.readings import ReadingRules
from meteragent.domain.shapes import Means
from meteragent.domain.terms import Clock, Terms
from meteragent.domain.units import MICRO, Kind
from tests.support.configurations import BUDGET, FLAT, energy, refused, settled, streams, written

HALF_HOUR_MS = 1_800_000
hundredths = st.integers(1, 10**6).map(lambda number: Fraction(number, 100))
step_minutes = st.integers(1, 240)


def decimal(number: Fraction) -> str:
    """An exact decimal, as people write it."""
    return f"{Decimal(number.numerator) / Decimal(number.denominator):f}"


# What is accepted ---------------------------------------------------------------------------------


def test_four_keys_suffice() -> None:
    """Topic, kind, unit and sink topic are all that is required; the rest is the default promise."""
    given_ = config.parse(FLAT)
    (stream,) = given_.stream
    assert (stream.name, stream.source.url, config.sink_url(stream)) == (
        "main",
        *["mqtt://127.0.0.1:1883"] * 2,
    )
    assert (stream.source.profile, stream.source.inflight, stream.source.max_meters) == (
        "number",
        1000,
        10_000,
    )
    assert (stream.source.max_payload, stream.sink.inflight, stream.sink.spread) == (65_536, 100, 0)
    assert (stream.window.ahead, stream.window.forget) == (HALF_HOUR_MS, None)
    assert config.forget_ms(stream.source, None) == 86_400_000
    assert (str(given_.store.path), given_.store.keep, given_.store.max_mb) == (
        "meteragent.db",
        2_592_000_000,
        512,
    )
    assert config.budget(stream) is None
    assert config.terms(stream) == Terms(
        shape=Means(HALF_HOUR_MS, HALF_HOUR_MS),
        readings=ReadingRules(
            kind=Kind.POWER,
            unit="W",
            interval_ms=0,
            hold_ms=900_000,
            gap_u=0,
            low_u=0,
            high_u=20_000 * MICRO,
            modulus_u=None,
            every_ms=None,
            dead_band=None,
            counters=1,
        ),
        clock=Clock.WALL,
        lateness_ms=0,
        level=Fraction(1),
        radius=Fraction(220),
        metric=Metric.LINF,
        quantum_u=MICRO,
        rounding="dithered",
        timezone=None,
        preset="appliance",
        others_per_day=Fraction(0),
    )


@pytest.mark.parametrize("key", ["source.topic", "source.kind", "source.unit", "sink.topic"])
def test_each_of_the_four_is_required(key: str) -> None:
    """What a reading is and where it goes has no default."""
    section, name = key.split(".")
    head, mark, table = FLAT.partition(f"[{section}]\n")
    text = head + mark + re.sub(rf"^{name} = .*\n", "", table, count=1, flags=re.MULTILINE)
    error = refused(lambda: config.parse(text))
    assert (error.key, error.found) == (key, "nothing")
    assert "no default" in error.expected


def test_streams_have_names_and_one_store() -> None:
    """With [[stream]] each stream has its own name, grid and promise; the store is shared."""
    text = streams(("a", "m/{meter}", "'a/{meter}'"), ("b", "m/{meter}", "'b/{meter}'"))
    found = config.parse(text + "[stream.window]\nlength = '1h'\n[store]\nmax_mb = 7")
    assert [stream.name for stream in found.stream] == ["a", "b"]
    assert [config.terms(stream).length_ms for stream in found.stream] == [HALF_HOUR_MS, 2 * HALF_HOUR_MS]
    assert found.store.max_mb == 7


def test_both_forms_mean_the_same() -> None:
    """The flat form is one stream called main."""
    text = streams(("main", "meters/{meter}/power", "'private/{meter}/power'"))
    assert config.parse(text).model_dump() == config.parse(FLAT).model_dump()


def test_the_same_bytes_may_go_to_a_second_broker() -> None:
    """Two streams may use one sink topic on different brokers, and a source's topic on another one."""
    text = streams(("a", "m/{meter}", "'x/{meter}'"), ("b", "m/{meter}", "'x/{meter}'\nurl = 'mqtt://far'"))
    assert len(config.parse(text).stream) == 2
    far = written(sink="topic = 'meters/{meter}/power'\nurl = 'mqtt://far'")
    assert config.sink_url(config.parse(far).stream[0]) == "mqtt://far"


def test_a_configuration_does_not_change() -> None:
    """What was checked cannot be changed afterwards, in any section."""
    found = config.parse(FLAT)
    (stream,) = found.stream
    for model in (found, found.store, stream, stream.source, stream.window, stream.privacy, stream.sink):
        name = next(iter(type(model).model_fields))
        with pytest.raises(ValidationError, match="frozen"):
            setattr(model, name, getattr(model, name))


# What numbers mean --------------------------------------------------------------------------------


def test_decimals_are_exact() -> None:
    """A written 0.1 is one tenth: a quantum of 0.1 divides a radius of 0.3, as in decimals."""
    terms = settled(
        privacy="quantum = 0.1\nradius = 0.3\nlevel = 0.1", window="gap = 0.7\nrange = [0.1, 0.9]"
    )
    assert (terms.quantum, terms.radius, terms.epsilon) == (Fraction(1, 10), Fraction(3, 10), Fraction(1, 3))
    assert (terms.readings.gap_u, terms.readings.low_u, terms.readings.high_u) == (700_000, 100_000, 900_000)
    assert settled(privacy="level = '1/3'").level == Fraction(1, 3)


@pytest.mark.parametrize(("preset", "hides", "radius"), [("television", 20, 40), ("street", 300, 600)])
def test_presets_are_numbers(preset: str, hides: int, radius: int) -> None:
    """A preset is half an hour, one slot, level 1, a quantum of 1 W and what it hides."""
    terms = settled(privacy=f"preset = '{preset}'")
    assert [terms.hides_wh, terms.radius, terms.level, terms.quantum] == [hides, radius, 1, 1]
    assert (terms.length_ms, terms.n, terms.preset) == (HALF_HOUR_MS, 1, preset)


def test_numbers_beside_a_preset_win() -> None:
    """Each number that is written replaces the preset's and leaves the others."""
    assert settled(privacy="preset = 'street'\nlevel = 0.5").epsilon == Fraction(1, 1200)
    assert settled(privacy="preset = 'street'\nradius = 7").radius == 7
    assert settled(privacy="preset = 'street'\nhide = '0.3kWh'", window="length = '1h'").radius == 300
    assert settled(privacy="preset = 'street'\nquantum = 25").quantum == 25
    assert settled(window="length = '1h'\nstep = '10min'").n == 6


@given(hide=hundredths, minutes=step_minutes, quantum=hundredths)
def test_hide_is_a_radius_rounded_up_to_the_lattice(hide: Fraction, minutes: int, quantum: Fraction) -> None:
    """The radius is the least multiple of the quantum that hides at least `hide` within a slot."""
    privacy = f"hide = '{decimal(hide)}Wh'\nquantum = {decimal(quantum)}"
    terms = settled(privacy=privacy, window=f"length = '{minutes}min'")
    assert (terms.radius / terms.quantum).denominator == 1
    assert terms.hides_wh >= hide
    assert (terms.radius - terms.quantum) * minutes / 60 < hide


@given(hide=st.integers(1, 10**5), minutes=step_minutes)
def test_kilowatts_promise_what_watts_promise(hide: int, minutes: int) -> None:
    """In kW the radius, quantum and range are a thousandth in number; what is hidden is the same."""
    sections = {"privacy": f"hide = '{hide}Wh'", "window": f"length = '{minutes}min'\nrange = [0, 12345]"}
    watts, kilowatts = settled(**sections), settled(source="unit = 'kW'", **sections)
    assert (kilowatts.radius * 1000, kilowatts.quantum * 1000) == (watts.radius, watts.quantum)
    assert kilowatts.readings.high_u * 1000 == watts.readings.high_u == 12_345 * MICRO
    assert (kilowatts.hides_wh, kilowatts.epsilon_per_w) == (watts.hides_wh, watts.epsilon_per_w)


@given(hide=hundredths, steps=st.integers(1, 24), unit=st.sampled_from(["Wh", "kWh"]))
def test_energies_promise_what_is_hidden_itself(hide: Fraction, steps: int, unit: str) -> None:
    """For interval energy the radius is `hide` in the unit, at any slot length, rounded up to the lattice."""
    sections = {"source": energy(unit), "window": f"length = '{steps}h'"}
    terms = settled(privacy=f"hide = '{decimal(hide)}Wh'\nquantum = 0.001", **sections)
    per_wh = Fraction(1, 1000 if unit == "kWh" else 1)
    assert (terms.radius / terms.quantum).denominator == 1
    assert 0 <= terms.radius - hide * per_wh < terms.quantum
    assert terms.hides_wh == terms.radius / per_wh
    assert terms.epsilon_per_w == terms.level / (terms.radius / per_wh / steps)


@pytest.mark.parametrize(
    ("unit", "quantum", "radius", "high_u"),
    [("Wh", Fraction(1, 2), 110, 5000 * MICRO), ("kWh", Fraction(1, 2000), Fraction(11, 100), 5 * MICRO)],
)
def test_a_preset_in_energies(unit: str, quantum: Fraction, radius: Fraction, high_u: int) -> None:
    """A preset's watts become energies: over the slot for the quantum, over the interval for the range."""
    terms = settled(source=energy(unit))
    assert [terms.quantum, terms.radius, terms.hides_wh] == [quantum, radius, 110]
    assert (
        terms.readings.low_u,
        terms.readings.high_u,
        terms.readings.interval_ms,
        terms.readings.hold_ms,
    ) == (0, high_u, 900_000, 0)


@pytest.mark.parametrize("kind", ["register", "interval_energy"])
@pytest.mark.parametrize("unit", ["Wh", "kWh"])
@pytest.mark.parametrize(
    ("minutes", "quantum_wh"),
    [
        (1, "0.01"),
        (5, "0.05"),
        (10, "0.1"),
        (20, "0.2"),
        (7, "0.1"),
        (15, "1/4"),
        (30, "1/2"),
        (45, "3/4"),
        (60, 1),
    ],
)
def test_energies_of_any_window_have_a_default_quantum(
    minutes: int, quantum_wh: str | int, unit: str, kind: str
) -> None:
    """1 W over the slot where that is whole millionths, else the next finer 1, 2 or 5: the same in kWh."""
    source = energy(unit).replace("interval_energy", kind)
    terms = settled(source=source, window=f"length = '{minutes}min'")
    per_wh = Fraction(1, 1000 if unit == "kWh" else 1)
    assert terms.quantum == Fraction(quantum_wh) * per_wh
    assert terms.radius == -(-110 * per_wh // terms.quantum) * terms.quantum
    assert terms.hides_wh == (110 if minutes != 45 else Fraction("110.25"))


@given(
    seconds=st.integers(1, 10**6),
    unit=st.sampled_from(["Wh", "kWh"]),
    name=st.sampled_from(["television", "appliance", "street"]),
)
def test_a_default_quantum_is_that_of_the_preset_or_the_next_finer(
    seconds: int, unit: str, name: str
) -> None:
    """The preset's power over the slot where that is whole millionths, else finer, by 2.5 at most."""
    text = written(source=energy(unit), window=f"length = '{seconds}s'", privacy=f"preset = '{name}'")
    (stream,) = config.parse(text).stream
    usual = PRESETS[name].quantum * units_per_watt(Kind.INTERVAL_ENERGY, unit, seconds * 1000)
    quantum = config.terms(stream).quantum
    if (usual * MICRO).denominator == 1:
        assert quantum == usual
    elif usual * MICRO > 1:
        assert usual * Fraction(2, 5) < quantum < usual
    else:
        assert quantum * MICRO == 1
    assert (config.terms(stream).radius / quantum).denominator == 1


def test_a_range_is_rounded_to_millionths() -> None:
    """A range that is not a whole number of millionths in the unit is rounded, half up."""
    assert settled(source=energy("Wh", "7min"), window="range = [-100, 100]").readings.high_u == 11_666_667
    assert settled(source=energy("Wh", "7min"), window="range = [-100, 100]").readings.low_u == -11_666_667
    assert settled(window="range = [-0.0000005, 0.0000005]").readings.high_u == 1
    assert settled(window="range = [-0.0000005, 0.0000005]").readings.low_u == 0


def test_a_budget_is_epsilon_per_period() -> None:
    """A budget's level is an epsilon in 1/W at the stream's radius; the exact need is enough."""
    (stream,) = config.parse(written(privacy=BUDGET % ("48.0", "24h"))).stream
    assert config.budget(stream) == Fraction(48, 220)
    (stream,) = config.parse(written(source="unit = 'kW'", privacy=BUDGET % ("48", "24h"))).stream
    assert config.budget(stream) == Fraction(48, 220)


def test_the_decoder_is_the_profile_s() -> None:
    """A bare number, or the field `power` of a document, or what the paths say."""
    keys = "profile = 'json'\nvalue = 'a.b'\ntime = 't'"
    sources = [config.parse(written(source=text)).stream[0].source for text in ("", "profile = 'json'", keys)]
    payloads = [b"5", b'{"power": 5}', b'{"a": {"b": 5}, "t": 7}']
    found = [
        [*config.build_decoder(source)(payload)] for source, payload in zip(sources, payloads, strict=True)
    ]
    assert found == [
        [Reading(None, 5 * MICRO)],
        [Reading(None, 5 * MICRO)],
        [Reading(7000, 5 * MICRO)],
    ]


def test_a_configuration_is_read_from_its_file(tmp_path: Path) -> None:
    """A file is read as UTF-8 TOML."""
    path = tmp_path / "zähler.toml"
    path.write_text(FLAT, encoding="utf-8")
    assert config.load(path).path == path
    assert config.load(path).model_dump() == config.parse(FLAT).model_dump()


def test_a_meter_that_reports_on_change_is_not_soon_forgotten() -> None:
    """Where readings come on change the end of records would tell when a device rests: 30 days by default."""
    day_ms = 86_400_000
    for source, window, days in (
        ("", "", 1),
        ("dead_band = 5", "", 30),
        ("every = '0s'", "", 30),
        ("profile = 'vzlogger'", "", 1),
        ("dead_band = 5", "forget = '2d'", 2),
        ("", "forget = '12h'", 0.5),
    ):
        (stream,) = config.parse(written(source=source, window=window)).stream
        assert config.forget_ms(stream.source, stream.window.forget) == days * day_ms
