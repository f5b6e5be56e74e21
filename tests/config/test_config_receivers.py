"""Receivers: a stream for each preset, and every setting that they rule out."""

from fractions import Fraction

import pytest

from meteragent import config
from meteragent.config.model import Config
from meteragent.domain.errors import ConfigError

BASE = """
source.topic = "meters/{meter}/power"
source.kind = "power"
source.unit = "W"
source.every = "10s"
window.timezone = "Europe/Amsterdam"
"""
TWO = """
[[receiver]]
name = "utility"
topic = "utility/{meter}/power"
[[receiver]]
name = "app"
url = "mqtts://app.example"
username = "home"
topic = "app/{meter}"
"""
STUDY = """
[[receiver]]
name = "study"
preset = "day"
topic = "study/{meter}"
"""


def refused(text: str) -> list[tuple[str, str]]:
    """Return the key and the expectation of each refusal of a configuration."""
    with pytest.raises(ConfigError) as caught:
        config.parse(text)
    errors = caught.value.errors
    assert all(error.text.startswith(f"{error.key}: ") for error in errors)
    return [(error.key, error.expected) for error in errors]


def names(settings: Config) -> dict[str, list[str]]:
    """Return the names of the receivers by stream."""
    return {stream.name: [receiver.name for receiver in stream.receivers] for stream in settings.stream}


def test_receivers_of_a_preset_share_a_stream() -> None:
    """The ledger knows a stream by its preset, whoever gets it; a second preset is a second stream."""
    settings = config.parse(BASE + TWO + STUDY)
    assert names(settings) == {"main-appliance": ["utility", "app"], "main-day": ["study"]}
    one, day = settings.stream
    assert config.terms(one).preset == "appliance"
    assert (config.terms(day).timezone, config.terms(one).timezone) == ("Europe/Amsterdam", None)
    assert names(config.parse(BASE + TWO)) == {"main-appliance": ["utility", "app"]}
    assert settings.nested_with(one) == (one,)


def test_only_another_preset_adds_to_the_charge() -> None:
    """All receivers may collude: presets add, receivers of one do not, and nobody gets what is paused."""
    alone, both = config.parse(BASE + TWO), config.parse(BASE + TWO + STUDY)
    paused = config.parse(BASE + TWO + STUDY + "paused = true\n")
    day = config.terms(both.stream[1]).epsilon_per_w_day
    charges = [
        config.other_charges_per_day(settings, settings.stream[0]) for settings in (alone, both, paused)
    ]
    assert charges == [Fraction(0), day, Fraction(0)]
    assert not paused.stream[1].is_received


def test_a_receiver_logs_in_with_its_own_name() -> None:
    """At the source's broker it logs in as the source does, unless it has a login; elsewhere never."""
    settings = config.parse(f"source.username = 'gateway'\n{BASE}{TWO}")
    [stream] = settings.stream
    links = [config.sent_to(stream, receiver) for receiver in stream.receivers]
    assert [config.sink_url(link) for link in links] == ["mqtt://127.0.0.1:1883", "mqtts://app.example"]
    assert [config.sink_broker(link).username for link in links] == ["gateway", "home"]
    assert [link.sink.topic for link in links] == ["utility/{meter}/power", "app/{meter}"]


REFUSED = {
    "sink.topic = 'x/{meter}'\n": ("sink.topic", "no topic together with [[receiver]]"),
    "sink.total = true\n": ("sink.total", "for a single sink"),
    "sink.status = 'status'\n": ("sink.status", "for a single sink"),
    "sink.url = 'mqtt://there'\n": ("sink.url", "a broker and a topic of its own"),
    "privacy.hide = '1Wh'\n": ("privacy.hide", "each receiver names its preset"),
    "privacy.budget = { level = 48, per = '1d' }\n": ("privacy.budget", "no budget together with"),
    "window.length = '1h'\n": ("window.length", "each receiver's preset sets the windows"),
    "window.clock = 'event'\n": ("window.clock", "'wall'"),
    "archive.key_file = 'k'\n": ("archive", "a file of its own"),
}


@pytest.mark.parametrize("setting", REFUSED)
def test_what_receivers_rule_out_is_refused(setting: str) -> None:
    """Settings of one sink, and settings that a preset makes, with the reason."""
    key, expected = REFUSED[setting]
    [(refused_key, refused_expected)] = refused(setting + BASE + TWO)
    assert refused_key == key
    assert expected in refused_expected


CHANGED = {
    ('"day"', '"dag"'): ("receiver[2].preset", "one of 'television'"),
    ('"app"', '"utility"'): ("receiver[1].name", "a different name"),
    ('"app"', '"an app"'): (
        "receiver[1].name",
        "1 to 32 letters, digits, - and _, the first a letter or digit",
    ),
    ('"study/{meter}"', '"utility/{meter}/power"'): ("receiver[2].topic", "a different topic"),
    ('"study/{meter}"', '"meters/{meter}/power"'): ("receiver[2].topic", "no source on this broker reads"),
    ('topic = "study/{meter}"', "paused = false"): ("receiver[2].topic", "where its records go"),
    ('"mqtts://app.example"', '"app.example"'): ("receiver[1].url", "mqtt://host"),
    ('preset = "day"', "start = 2027-01-01"): ("receiver[2].start", "a time with its zone"),
    ('preset = "day"', "end = 2027-01-01T00:00:00"): ("receiver[2].end", "a time with its zone"),
    ('preset = "day"', "start = 2027-01-02T00:00:00Z\nend = '2027-01-02T00:00:00Z'"): (
        *("receiver[2].end", "a time after the start"),
    ),
}


@pytest.mark.parametrize("change", CHANGED)
def test_a_receiver_that_cannot_be_is_refused(change: tuple[str, str]) -> None:
    """One refusal, under the key that the file has."""
    text = BASE + TWO + STUDY
    assert text.count(change[0]) == 1
    [(key, expected)] = refused(text.replace(*change))
    assert (key, CHANGED[change][1] in expected) == (CHANGED[change][0], True)


def test_all_errors_of_common_keys_come_once() -> None:
    """What all receivers have in common is refused once, whatever their number."""
    keys = [key for key, _ in refused((BASE + TWO + STUDY).replace('"W"', '"MW"').replace("10s", "10"))]
    assert sorted(keys) == ["source.every", "source.unit"]


def test_receivers_and_streams_exclude_each_other() -> None:
    """A file has tables of streams, one or several, or of receivers."""
    stream = "[[stream]]\n" + "\n".join(f"[stream.{t}]\n{k}" for t, k in _TABLES.items())
    assert refused(f"{stream}\n{TWO}")[0][0] == "receiver"
    assert refused(f"{stream}\n{stream.replace('private', 'second')}\n{TWO}")[0][0] == "receiver"


_TABLES = {
    "source": "topic = 'meters/{meter}/power'\nkind = 'power'\nunit = 'W'\nevery = '10s'",
    "sink": "topic = 'private/{meter}'",
}


def test_the_bands_of_a_tariff_are_those_of_its_receivers() -> None:
    """Bands in the file are those of the preset `tariff`; other presets have none."""
    bands = "window.rest = 'night'\n[[window.band]]\nname = 'day'\nhours = ['07:00/23:00']\n"
    bills = STUDY.replace('"day"', '"tariff"').replace("study", "bills")
    prices = "[[tariff]]\nname = 'flat'\nprices = { day = 0.3, night = 0.3 }\n"
    by_name = {stream.name: stream for stream in config.parse(BASE + bands + TWO + bills + prices).stream}
    assert [band.name for band in config.terms(by_name["main-tariff"]).places] == ["night", "day"]
    assert config.terms(by_name["main-appliance"]).places == ()
