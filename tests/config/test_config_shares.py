"""Nested streams: what `privacy.shares` makes of a table, and what it refuses, all at once."""

from fractions import Fraction

import pytest

from meteragent import config
from meteragent.config.refuse import all_refusals
from meteragent.domain.presets import PRESETS
from meteragent.domain.terms import Terms
from meteragent.domain.units import DAY_MS, UNIT_FACTOR, Kind
from tests.support.configurations import energy, refused, streams, written

SHARES = "shares = { '30min' = 0.7, '1mo' = 0.1, '1d' = 0.2 }"
AMSTERDAM = "timezone = 'Europe/Amsterdam'"


def nested(privacy: str = SHARES, window: str = AMSTERDAM, **sections: str) -> tuple[config.Stream, ...]:
    """The streams of a flat configuration with shares."""
    return config.parse(written(privacy=privacy, window=window, **sections)).stream


def test_a_table_becomes_a_stream_for_each_share() -> None:
    """From fine to coarse, with names, topics, levels, windows and calendar; whatever the order of shares."""
    parts = nested(sink="status = 'agent/status'")
    assert [part.name for part in parts] == ["main-30min", "main-1d", "main-1mo"]
    assert [part.sink.topic for part in parts] == [
        f"private/{{meter}}/power/{length}" for length in ("30min", "1d", "1mo")
    ]
    assert [part.sink.status for part in parts] == [
        f"agent/status/{length}" for length in ("30min", "1d", "1mo")
    ]
    assert [part.privacy.level for part in parts] == [Fraction(7, 10), Fraction(1, 5), Fraction(1, 10)]
    assert [part.window.length for part in parts] == [1_800_000, "1d", "1mo"]
    assert [part.window.timezone for part in parts] == [None, "Europe/Amsterdam", "Europe/Amsterdam"]
    assert {part.source for part in parts} == {parts[0].source}
    assert {part.privacy.shares for part in parts} == {None}


def test_what_streams_have_in_common_is_that_of_the_table() -> None:
    """One lateness, gap, range, clock and what else is written, in all of them."""
    window = f"{AMSTERDAM}\nlateness = '7s'\ngap = 5\nrange = [0, 9000]\nforget = '40d'\ncatch_up = '2s'"
    parts = nested(window=window)
    common = [
        (terms.lateness_ms, terms.readings.gap_u, terms.readings.low_u, terms.readings.high_u)
        for terms in map(config.terms, parts)
    ]
    assert common == [(7000, 5_000_000, 0, 9_000_000_000)] * 3
    assert {(part.window.forget, part.window.catch_up) for part in parts} == {(40 * DAY_MS, 2000)}


def levels_per_wh(terms: list[Terms]) -> Fraction:
    """What all streams together let leak of each Wh that a change moves."""
    return sum((one.level / one.hides_wh for one in terms), Fraction(0))


@pytest.mark.parametrize("preset", ["television", "appliance", "street", "day", "bill"])
@pytest.mark.parametrize(
    "source",
    ["", "unit = 'kW'", energy("Wh", "30min"), energy("kWh", "15min"), "kind = 'register'\nunit = 'Wh'"],
)
def test_all_streams_together_keep_the_promise(preset: str, source: str) -> None:
    """Levels per Wh add up to no more than the preset's, in every month and day, and to hardly less."""
    parts = nested(f"preset = '{preset}'\n{SHARES}", source=source)
    promised = PRESETS[preset].level / PRESETS[preset].hide_wh
    for month in config.distinct_terms(parts[2]):
        for day in config.distinct_terms(parts[1]):
            total = levels_per_wh([config.terms(parts[0]), day, month])
            assert promised / Fraction(102, 100) <= total <= promised
    assert all(config.terms(part).n == 1 for part in parts)


def test_the_lattice_is_the_presets_energy() -> None:
    """Half hours of power have 1 W, as without shares; energies have 0.5 Wh at every length."""
    assert [config.terms(part).quantum for part in nested()] == [1, Fraction("0.02"), Fraction("0.0005")]
    for kind in (energy("Wh", "30min"), "kind = 'register'\nunit = 'Wh'"):
        quanta = [config.terms(part).quantum for part in nested(source=kind)]
        assert quanta == [Fraction(1, 2)] * 3
    hides = [config.terms(part).hides_wh for part in nested(source="kind = 'register'\nunit = 'kWh'")]
    assert hides == [110] * 3
    assert UNIT_FACTOR["kWh"] == 1000


def test_hide_and_level_may_be_written() -> None:
    """They are those of all streams together."""
    parts = nested(f"{SHARES}\nhide = '1kWh'\nlevel = 2", source="kind = 'register'\nunit = 'Wh'")
    terms = list(map(config.terms, parts))
    assert [one.hides_wh for one in terms] == [1000] * 3
    assert [one.level for one in terms] == [Fraction("1.4"), Fraction("0.4"), Fraction("0.2")]
    assert terms[0].readings.kind is Kind.REGISTER


def test_a_small_energy_has_a_finer_lattice() -> None:
    """One tenth of the preset's energy is hidden to about 1 in 200, too."""
    for part in nested(f"{SHARES}\nhide = '11Wh'"):
        assert 11 <= config.terms(part).hides_wh <= Fraction(112, 10)


def test_shares_may_leave_some_of_the_level_unused() -> None:
    """Three thirds, or less: what is not shared is not spent."""
    parts = nested("shares = { '30min' = '1/3', '1d' = '1/3', '1mo' = '1/3' }")
    assert sum(part.privacy.level or 0 for part in parts) == 1
    assert len(nested("shares = { '30min' = 0.5, '1d' = 0.2 }")) == 2


def test_without_a_zone_windows_are_those_of_utc() -> None:
    """A quarter, an hour and a day of the epoch."""
    parts = nested("shares = { '15min' = 0.5, '1h' = 0.2, '1d' = 0.3 }", window="")
    assert [config.terms(part).length_ms for part in parts] == [900_000, 3_600_000, DAY_MS]
    assert all(config.terms(part).timezone is None for part in parts)


def test_other_streams_may_stand_beside() -> None:
    """Charges of all streams add up, whichever table they are from."""
    text = streams(("a", "in/{meter}", "'out/{meter}'"), ("b", "in/{meter}", "'other/{meter}'"))
    text = text.replace(
        "[stream.sink]", "privacy = { shares = { '30min' = 0.5, '1h' = 0.5 } }\n[stream.sink]", 1
    )
    settings = config.parse(text)
    assert [stream.name for stream in settings.stream] == ["a-30min", "a-1h", "b"]
    assert settings.key_prefixes == ("stream[0].", "stream[0].", "stream[1].")
    per_day = [config.terms(stream).epsilon_per_w_day for stream in settings.stream]
    assert config.other_charges_per_day(settings, settings.stream[2]) == per_day[0] + per_day[1]


# Refusals -----------------------------------------------------------------------------------------


def keys(**sections: str) -> list[tuple[str, int | None]]:
    """The keys that are refused, with their lines."""
    error = refused(lambda: config.parse(written(**sections)))
    return [(one.key, one.line) for one in error.errors]


def test_other_settings_beside_shares_are_refused_all_at_once() -> None:
    """Lengths, slots, lattices and budgets: each on its line, with the reason."""
    window = f"{AMSTERDAM}\nlength = '1d'\nstep = '1h'\nblocks = 2\nbands = ['00-24']"
    budget = "budget = { level = 9, per = '1d' }"
    privacy = f"{SHARES}\nradius = 5\nquantum = 1\nspace = 'linf'\n{budget}"
    text = written(window=window, privacy=privacy)
    error = refused(lambda: config.parse(text))
    lines = text.splitlines()
    assert {one.key for one in error.errors} == {
        *(f"window.{key}" for key in ("length", "step", "blocks", "bands")),
        *(f"privacy.{key}" for key in ("radius", "quantum", "space", "budget")),
    }
    for one in error.errors:
        key = one.key.split(".")[1]
        assert lines[(one.line or 0) - 1].startswith(f"{key} =")
        assert f"no {key} together with privacy.shares: " in str(one)


@pytest.mark.parametrize(
    ("shares", "window", "text"),
    [
        ("'30min' = 0.7, '1d' = 0.4", "", "found a sum of 1.1; expected shares that add up to at most 1"),
        ("'30min' = 0.7", "", "found 1 share; expected two or more"),
        ("", "", "found 0 shares; expected two or more"),
        ("'30min' = 0.7, '1d' = 0", "", "privacy.shares.1d: found 0; expected"),
        ("'30min' = 0.7, '1d' = 'x'", "", "privacy.shares.1d: found 'x'; expected a finite number"),
        ("'30min' = 0.7, '1y' = 0.1", "", "privacy.shares.1y: found '1y'; expected a whole number and"),
        ("'30min' = 0.7, '1800s' = 0.1", "", "together with one of '1800s'; expected lengths that differ"),
        (
            "'7min' = 0.7, '30min' = 0.1",
            "",
            "privacy.shares.7min: found a share of '7min' together with one of '30min'",
        ),
        ("'30min' = 0.7, '1mo' = 0.1", "", "window.timezone: found nothing; expected a time zone"),
        (
            "'30min' = 0.7, '1h' = 0.1",
            AMSTERDAM,
            "window.timezone: found 'Europe/Amsterdam'; expected no time zone",
        ),
        ("'30min' = 0.7, '1d' = 0.1", "timezone = 'Mars'", "window.timezone: found 'Mars'"),
        (
            "'1w' = 0.7, '1mo' = 0.1",
            AMSTERDAM,
            "privacy.shares.1w: found a share of '1w' together with one of '1mo'",
        ),
        (
            "'1d' = 0.7, '48h' = 0.1",
            AMSTERDAM,
            "privacy.shares.48h: found a share of '1d' together with one of '48h'",
        ),
        ("'2h' = 0.7, '1d' = 0.1", AMSTERDAM, "fills every '1d' of Europe/Amsterdam, such as '1h'"),
        ("'30min' = 0.7, '1d' = 0.1", "timezone = 'Asia/Kathmandu'", "of Asia/Kathmandu, such as '15min'"),
        ("'1h' = 0.7, '1d' = 0.1", "timezone = 'Asia/Kolkata'", "of Asia/Kolkata, such as '30min'"),
        (
            "'1h' = 0.7, '1d' = 0.1",
            "timezone = 'Australia/Lord_Howe'",
            "of Australia/Lord_Howe, such as '30min'",
        ),
    ],
)
def test_shares_that_do_not_nest_are_refused(shares: str, window: str, text: str) -> None:
    """More than all, fewer than two, lengths that do not fill one another, calendars of odd offsets."""
    document = written(privacy=f"shares = {{ {shares} }}", window=window)
    error = refused(lambda: config.parse(document))
    assert len(error.errors) == 1
    assert text in str(error)
    assert error.line is not None


@pytest.mark.parametrize(
    "zone", ["Europe/Amsterdam", "Asia/Kolkata", "Australia/Lord_Howe", "America/Havana"]
)
def test_half_hours_fill_days_of_all_these_zones(zone: str) -> None:
    """Offsets of whole half hours, changes of clock of an hour or half of one."""
    assert len(nested(window=f"timezone = '{zone}'")) == 3


def test_a_preset_with_bands_is_refused() -> None:
    """Shares are of windows of one slot."""
    assert keys(privacy=f"preset = 'typical-day'\n{SHARES}", window=AMSTERDAM) == [("privacy.preset", 9)]


def test_other_errors_are_found_beside() -> None:
    """A wrong kind, range and name of the table are refused with its shares, once each."""
    sections = {"source": "kind = 'register'", "window": f"{AMSTERDAM}\nrange = [5, 5]", "privacy": SHARES}
    assert [key for key, _ in keys(**sections)] == ["source.unit", "window.range"]
    sections["privacy"] = "shares = { '30min' = 0.7, '1d' = 0.9 }\nradius = 4"
    assert {key for key, _ in keys(**sections)} == {
        *("source.unit", "window.range", "privacy.radius", "privacy.shares"),
    }


def test_streams_of_other_tables_may_not_have_the_names_or_topics_of_a_part() -> None:
    """`a-1h` is a stream of `a`, and so is what it writes."""
    text = streams(("a", "in/{meter}", "'out/{meter}'"), ("a-1h", "in/{meter}", "'out/{meter}/1h'"))
    text = text.replace(
        "[stream.sink]", "privacy = { shares = { '30min' = 0.5, '1h' = 0.5 } }\n[stream.sink]", 1
    )
    error = refused(lambda: config.parse(text))
    assert [one.key for one in error.errors] == ["stream[1].name", "stream[1].sink.topic"]


COARSE = "kind = 'register'\nunit = 'kWh'\nevery = '1h'\ndead_band = 1"


def test_what_readings_cost_is_refused_once() -> None:
    """Of three streams with a coarse register the table is refused once, with its own key."""
    settings = config.parse(written(source=COARSE, privacy=SHARES, window=AMSTERDAM))
    assert [error.key for _, error in config.reading_refusals(settings)] == ["privacy.hide"]
    accepted = nested(f"{SHARES}\naccept = ['coarse_register']", source=COARSE)
    assert len(accepted) == 3


def test_expanded_streams_are_accepted_as_streams() -> None:
    """The streams of a table pass every check of streams that are written out."""
    assert not [*all_refusals(config.parse(written(privacy=SHARES, window=AMSTERDAM)))]
