"""Parts: further topics of one meter, with a sign and a profile of their own, and what they refuse."""

from fractions import Fraction

import pytest

from meteragent import config
from meteragent.config.source import (
    counter_count,
    dead_band,
    every_ms,
    has_times,
    hold_ms,
    lateness_ms,
    part_decoders,
    part_sources,
    period_ms,
    reports_on_change,
)
from meteragent.domain.reading import Reading
from meteragent.domain.units import MICRO, MINUTE_MS
from meteragent.report import warn
from tests.support.configurations import refused, written
from tests.support.guarantees import facts_of, told_of

NET = "topic = 'net/power'\nmeter = 'home'\nprofile = 'json'\nvalue = 'p'\ntime = 't'"
PV = "[[source.part]]\ntopic = 'pv/power'"


def parsed(parts: str = PV, source: str = NET, **sections: str) -> config.Stream:
    """Return the stream of a home with these further topics."""
    return config.parse(written(source=source, **sections) + parts).stream[0]


def keys_refused(source: str, parts: str = PV, sink: str = "topic = 'private/{meter}/power'") -> list[str]:
    """Return the keys of all refusals of a file."""
    text = written(source=source, sink=sink) + parts
    return [error.key for error in refused(lambda: config.parse(text)).errors]


def test_a_part_has_the_keys_of_the_source_unless_it_sets_them() -> None:
    """Of value, time and scale each may be set alone; all else is the source's."""
    stream = parsed(f"{PV}\nvalue = 'watts'", source=f"{NET}\nscale = 10")
    keys = [(part.topic, part.value, part.time, part.scale) for part in part_sources(stream.source)]
    assert [*keys] == [("net/power", "p", "t", Fraction(10)), ("pv/power", "watts", "t", Fraction(10))]
    values = [decode(b'{"p": 1, "watts": 2, "t": 1}')[0] for decode in part_decoders(stream.source).values()]
    assert values == [Reading(1000, 10 * MICRO), Reading(1000, 20 * MICRO)]


def test_a_profile_of_its_own_replaces_the_source_s_keys() -> None:
    """A scale or an expression that is meant for another device would make a wrong number in silence."""
    stream = parsed(f"{PV}\nprofile = 'number'", source=f"{NET}\nscale = 1000")
    assert part_decoders(stream.source)["pv/power"](b"7") == [Reading(None, 7 * MICRO)]
    own = parsed(f"{PV}\nprofile = 'number'\nscale = 2", source=f"{NET}\nscale = 1000")
    assert part_decoders(own.source)["pv/power"](b"7") == [Reading(None, 14 * MICRO)]


def test_each_topic_is_a_phase_and_has_a_sign() -> None:
    """The topic names the part; all parts are subscribed to, and no other topic belongs to the meter."""
    topic = config.topic_of(parsed(f"{PV}\n[[source.part]]\ntopic = 'car/power'\nsign = '-'").source)
    assert topic.filters == topic.phases == ("net/power", "pv/power", "car/power")
    assert topic.subtracted == {"car/power"}
    assert topic.place_of("car/power") == ("home", "car/power")
    assert topic.place_of("sub/power") is None


def test_the_unit_topic_of_each_part_is_its_own() -> None:
    """A part with a scale of 1000 reads kW where the source reads W."""
    source = "topic = 'ha/net/state'\nmeter = 'home'\nprofile = 'homeassistant-statestream'"
    part = "[[source.part]]\ntopic = 'ha/pv/state'\nscale = 1000"
    topic = config.topic_of(parsed(part, source).source)
    assert topic.unit is not None
    assert topic.unit.filters == ("ha/net/unit_of_measurement", "ha/pv/unit_of_measurement")
    assert topic.unit.place_of("ha/pv/unit_of_measurement") == ("home", "ha/pv/state")
    assert topic.units == {"ha/net/state": ("W",), "ha/pv/state": ("kW",)}


def test_a_sum_is_as_slow_and_as_coarse_as_its_parts() -> None:
    """The longest hold and period count, dead bands add up, and a part that is unknown makes all unknown."""
    gen1, tasmota = "profile = 'shelly-gen1'", "profile = 'tasmota'"
    both = parsed(f"{PV}\n{tasmota}", f"topic = 'net/power'\nmeter = 'home'\n{gen1}").source
    sources = part_sources(both)
    assert [part.profile for part in sources] == ["shelly-gen1", "tasmota"]
    assert hold_ms(both) == max(map(hold_ms, sources))
    assert reports_on_change(both) == any(map(reports_on_change, sources))
    assert every_ms(both) == max(map(every_ms, sources)) > 0
    periods, bands = [period_ms(part) for part in sources], [dead_band(part) for part in sources]
    assert period_ms(both) == (None if None in periods else 0 if 0 in periods else max(filter(None, periods)))
    assert dead_band(both) == (None if None in bands else sum(band for band in bands if band is not None))
    unknown = parsed(PV, "topic = 'net/power'\nmeter = 'home'\nprofile = 'json'").source
    assert (period_ms(unknown), dead_band(unknown), every_ms(unknown)) == (None, None, 0)


def test_registers_wait_for_the_slowest_part_and_count_all_steps() -> None:
    """The default lateness is the longest period; each counter cuts off a step."""
    register = f"{NET}\nkind = 'register'\nunit = 'kWh'\nevery = '5min'\ndead_band = 0.001"
    stream = parsed(PV, register)
    assert lateness_ms(stream.source, stream.window) == 5 * MINUTE_MS + 30_000
    assert counter_count(stream.source) == 2
    assert dead_band(stream.source) == Fraction(1, 1000)


def test_a_sum_has_times_only_if_each_part_has() -> None:
    """An old count without a time would count as now."""
    assert has_times(parsed().source)
    assert not has_times(parsed(f"{PV}\nprofile = 'number'").source)


@pytest.mark.parametrize(
    ("source", "parts", "keys"),
    [
        ("topic = 'net/power'", PV, ["source.meter"]),
        ("topic = 'net/{meter}/power'", PV, ["source.topic", "source.meter"]),
        (
            "topic = 'net/{phase}'\nmeter = 'home'\nphases = ['a']\nunit_topic = 'u'",
            PV,
            ["source.phases", "source.unit_topic"],
        ),
        (f"{NET}\nshard = '0/2'", PV, ["source.shard"]),
        (
            f"{NET}\nkind = 'interval_energy'\nunit = 'Wh'\ninterval = '15min'",
            f"{PV}\n{PV}",
            ["source.kind", "source.part[1].topic"],
        ),
        (NET, "[[source.part]]\ntopic = 'net/power'", ["source.part[0].topic"]),
        (NET, f"{PV}\nprofile = 'tasmot'", ["source.part[0].profile"]),
        (NET, f"{PV}\nprofile = 'tasmota'\ntime = 't'", ["source.part[0].time"]),
        (NET, f"{PV}\nprofile = 'number'\nvalue = 'p'", ["source.part[0].value"]),
        (NET, f"{PV}\nvalue = 'p['", ["source.part[0].value"]),
        (NET, f"{PV}\nprofile = 'rtlamr'", ["source.part[0]", "source.part[0].id"]),
    ],
)
def test_what_cannot_be_summed_is_refused_at_once(source: str, parts: str, keys: list[str]) -> None:
    """Each refusal names its key, and that of a part the part."""
    assert sorted(keys_refused(source, parts)) == sorted(keys)


def test_a_part_is_not_read_from_where_the_stream_is_sent() -> None:
    """The agent would read what it wrote."""
    part = "[[source.part]]\ntopic = 'private/any/power'"
    assert keys_refused(NET, part) == ["sink.topic"]
    assert keys_refused(NET, PV, sink="topic = 'private/{meter}'\nstatus = 'pv/power'") == ["sink.status"]


def test_check_says_what_is_added_and_subtracted() -> None:
    """In the order of the file, and how often a load may count."""
    text = written(source=NET) + f"{PV}\n[[source.part]]\ntopic = 'car/power'\nsign = '-'"
    settings = config.parse(text)
    [stream] = settings.stream
    assert "  Counts the sum net/power + pv/power - car/power." in told_of(settings).splitlines()
    assert facts_of(stream)["parts"] == "net/power + pv/power - car/power"
    assert any("up to 3 times" in warning for warning in warn.stream_warnings(stream, config.terms(stream)))
    assert "parts" not in facts_of(config.parse(written()).stream[0])
