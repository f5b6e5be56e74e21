"""What a configuration is refused for: the key, what was found and what would be right."""

from functools import partial

import pytest

from meteragent import config
from tests.support.configurations import BUDGET, FLAT, energy, refused, streams, written

SECRET = "open-sesame"

REFUSED: dict[str, tuple[str, str, str, str]] = {
    # what: its section's keys, the key refused, what was found, a part of what is expected
    "kind": ("kind = 'energy'", "source.kind", "'energy'", "'power', 'interval_energy' or 'register'"),
    "power unit for a register": ("kind = 'register'", "source.unit", "'W'", "'Wh' or 'kWh' for kind"),
    "modulus of power": ("modulus = 9", "source.modulus", "9", "no modulus, or kind = 'register'"),
    "id of a format": ("id = '7'", "source.id", "'7'", "a profile of a device"),
    "a name next to {meter}": (
        "meter = 'home'",
        "source.topic",
        "'meters/{meter}",
        "source.meter names the meter",
    ),
    "phases without {phase}": (
        "phases = ['a', 'b']",
        "source.topic",
        "'meters/{meter}",
        "one segment {phase}",
    ),
    "{phase} without phases": (
        "topic = '{meter}/{phase}'",
        "source.topic",
        "'{meter}/{phase}'",
        "no {phase}",
    ),
    "unit": ("unit = 'MW'", "source.unit", "'MW'", "'kWh'"),
    "energy unit for power": ("unit = 'Wh'", "source.unit", "'Wh'", "'W' or 'kW' for kind 'power'"),
    "power unit for energy": (energy("W"), "source.unit", "'W'", "'Wh' or 'kWh' for kind 'interval_energy'"),
    "no interval": (
        "kind = 'interval_energy'\nunit = 'Wh'",
        *("source.interval", "nothing", "the time that a reading covers, such as '15min'"),
    ),
    "the start of no interval": (
        "profile = 'json'\ntime = 't'\nstamp = 'start'",
        *("source.stamp", "'start'", "kind = 'interval_energy', or no stamp"),
    ),
    "the start without a time": (
        energy("Wh") + "\nprofile = 'json'\nstamp = 'start'",
        *("source.stamp", "'start'", "source.time as well"),
    ),
    "stamp": (energy("Wh") + "\nstamp = 'begin'", "source.stamp", "'begin'", "'end' or 'start'"),
    "value of a number": ("value = 'p'", "source.value", "'p'", "profile = 'json'"),
    "time of a number": ("time = 't'", "source.time", "'t'", "profile = 'json'"),
    "value path": ("profile = 'json'\nvalue = 'a['", "source.value", "'a['", "a JMESPath expression ("),
    "time path": ("profile = 'json'\ntime = 'a..b'", "source.time", "'a..b'", "a JMESPath expression ("),
    "empty value path": ("profile = 'json'\nvalue = ''", "source.value", "''", "cannot be empty"),
    "empty time path": ("profile = 'json'\ntime = ''", "source.time", "''", "cannot be empty"),
    "profile": ("profile = 'xml'", "source.profile", "'xml'", "'number' or 'json'"),
    "no meter": ("topic = 'm/power'", "source.topic", "'m/power'", "one segment {meter}"),
    "wildcard": ("topic = 'm/{meter}/#'", "source.topic", "'m/{meter}/#'", "without the wildcards"),
    "a name that no topic holds": (
        "topic = 'meters/power'\nmeter = '$home'",
        *("source.meter", "'$home'", "a name without /, $, +, # or control characters"),
    ),
    "a name of two segments": (
        "topic = 'meters/power'\nmeter = 'a/b'",
        *("source.meter", "'a/b'", "a name without /, $, +, # or control characters"),
    ),
    "topic 3": ("topic = 3", "source.topic", "3", "a string"),
    "hold 0": ("hold = '0s'", "source.hold", "'0s'", "greater than 0"),
    "hold without unit": ("hold = 900", "source.hold", "900", "a string with a unit"),
    "hold 1.5 h": ("hold = '1.5h'", "source.hold", "'1.5h'", "a whole number and ms, s, min, h or d"),
    "inflight 0": ("inflight = 0", "source.inflight", "0", "greater than or equal to 1"),
    "inflight true": ("inflight = true", "source.inflight", "True", "a whole number"),
    "inflight 1.5": ("inflight = 1.5", "source.inflight", "1.5", "a whole number"),
    "inflight text": ("inflight = '5'", "source.inflight", "'5'", "a whole number"),
    "payload": ("max_payload = '64'", "source.max_payload", "'64'", "a size such as '64KiB'"),
    "protocol": ("protocol = '4'", "source.protocol", "'4'", "'3.1.1'"),
    "port": ("url = 'mqtt://h:x'", "source.url", "a port that is not a number", "mqtt://host[:port]"),
    "no name": (
        "password_file = 'p'",
        "source.password_file",
        "a password without a user name",
        "source.username",
    ),
    "ca without TLS": (
        "ca_file = 'ca.pem'",
        "source.url",
        "mqtt:// with a ca_file, cert_file or key_file, which need mqtts",
        "",
    ),
    "key without cert": (
        "url = 'mqtts://h'\nkey_file = 'k'",
        *("source.url", "a key_file without a cert_file", "mqtts://host[:port] with its files"),
    ),
    "source typo": (
        "max_meter = 3",
        "source.max_meter",
        "an unknown key",
        "max_meters",
    ),
    "uneven step": (
        "step = '7min'",
        "window.step",
        "'7min'",
        "divides window.length = '30min', such as '450s' or",
    ),
    "long step": ("step = '1h'", "window.step", "'1h'", "divides window.length = '30min', such as '30min'"),
    "step 0": ("step = '0s'", "window.step", "'0s'", "greater than 0"),
    "month": ("length = '1mo'", "window.timezone", "nothing", "such as 'Europe/Amsterdam' or 'UTC'"),
    "zone": (
        "length = '1d'\ntimezone = 'Europe/Amstrdam'",
        "window.timezone",
        "'Europe/Amstrdam'",
        "a time zone such as 'Europe/Ams",
    ),
    "zone path": ("length = '1d'\ntimezone = '../etc'", "window.timezone", "'../etc'", "a time zone such as"),
    "zone without a calendar": (
        "length = '2h'\ntimezone = 'UTC'",
        "window.length",
        "'2h'",
        "one of '1d', '1w'",
    ),
    "length": ("length = '1 mo'", "window.length", "'1 mo'", "or, with window.timezone, '1d', '1w' or '1mo'"),
    "step of a day with 23 hours": (
        "length = '1d'\nstep = '2h'\ntimezone = 'Europe/Amsterdam'",
        *("window.step", "'2h'", "a step that divides window.length = '23h', such as"),
    ),
    "blocks of a day with 23 hours": (
        "length = '1d'\nblocks = 7\ntimezone = 'Europe/Amsterdam'",
        *("window.blocks", "7", "a number that divides every window, including windows of '1d'"),
    ),
    "two ways": (
        "step = '15min'\nblocks = 2",
        "window.blocks",
        "a second definition",
        "only one of window.step and",
    ),
    "no blocks": ("blocks = 0", "window.blocks", "0", "greater than or equal to 1"),
    "bands without a profile": (
        "bands = ['00-07']",
        "window.bands",
        "a value",
        "privacy.preset = 'typical-day' or privacy.space = 'profile', or no bands",
    ),
    "empty range": ("range = [5, 5.0]", "window.range", "[5, 5]", "[lowest, highest] in W"),
    "range upside down": ("range = [1.5, -1]", "window.range", "[1.5, -1]", "[lowest, highest] in W"),
    "range of three": ("range = [1, 2, 3]", "window.range", "[1, 2, 3]", "at most 2"),
    "range in text": ("range = '0..5'", "window.range", "'0..5'", "a list"),
    "low gap": ("gap = -0.5", "window.gap", "-0.5", "inside window.range = [0, 20000] W"),
    "high gap": ("range = [0, 9]\ngap = 9.1", "window.gap", "9.1", "inside window.range = [0, 9] W"),
    "gap nan": ("gap = nan", "window.gap", "NaN", "a finite number"),
    "clock": ("clock = 'sun'", "window.clock", "'sun'", "'wall' or 'event'"),
    "radius off lattice": (
        "radius = 220.5",
        *("privacy.radius", "220.5", "a multiple of privacy.quantum = 1, such as 220 or 221"),
    ),
    "radius off fine lattice": (
        "radius = 0.25\nquantum = 0.1",
        "privacy.radius",
        "0.25",
        "= 0.1, such as 0.2 or 0.3",
    ),
    "radius below lattice": ("radius = 0.5", "privacy.radius", "0.5", "such as 1"),
    "radius with a unit": ("radius = '200W'", "privacy.radius", "'200W'", "without the unit (source.unit)"),
    "radius 0": ("radius = 0", "privacy.radius", "0", "greater than 0"),
    "radius infinite": ("radius = inf", "privacy.radius", "Infinity", "a finite number"),
    "radius beyond use": ("radius = 1e99999999", "privacy.radius", "1E+99999999", "of ordinary size"),
    "hide and radius": ("hide = '110Wh'\nradius = 220", "privacy.radius", "220", "only one of privacy.hide"),
    "hide 0": ("hide = '0Wh'", "privacy.hide", "'0Wh'", "greater than 0"),
    "hide in W": ("hide = '220W'", "privacy.hide", "'220W'", "an energy such as '110Wh'"),
    "hide bare": ("hide = 110", "privacy.hide", "110", "an energy such as '110Wh'"),
    "level 0": ("level = 0.0", "privacy.level", "0.0", "greater than 0"),
    "level below 0": ("level = -1", "privacy.level", "-1", "greater than 0"),
    "level true": ("level = true", "privacy.level", "True", "a decimal number"),
    "level over zero": ("level = '1/0'", "privacy.level", "'1/0'", "a finite number"),
    "quantum too fine": ("quantum = 0.0000001", "privacy.quantum", "0.0000001", "a multiple of 0.000001"),
    "quantum a third": ("quantum = '1/3'", "privacy.quantum", "1/3", "a multiple of 0.000001 of the unit"),
    "too many quanta": (
        "quantum = 0.000001\nradius = 35184372.088832",
        *("privacy.quantum", "0.000001", "a coarser quantum: n / (epsilon * quantum) is 3.52e+13"),
    ),
    "preset": ("preset = 'best'", "privacy.preset", "'best'", "one of 'television', 'appliance', 'street'"),
    "space": (
        "space = 'l2'",
        "privacy.space",
        "'l2'",
        "'linf', 'curve', 'profile', 'bands', 'weighted', 'peak' or 'above'",
    ),
    "budget": (
        BUDGET % (47.5, "24h"),
        "privacy.budget.level",
        "47.5",
        "at least 48, for windows of 30min at level 1 over 1d",
    ),
    "budget of a month": (BUDGET % (1439, "30d"), "privacy.budget.level", "1439", "at least 1440"),
    "budget period": (BUDGET % (99, "36h"), "privacy.budget.per", "'36h'", "whole days, such as '24h'"),
    "budget without period": ("budget = { level = 1 }", "privacy.budget.per", "nothing", "no default"),
    "budget typo": (
        "budget = { level = 48, per = '1d', pr = 1 }",
        "privacy.budget.pr",
        "an unknown key",
        "per",
    ),
    "budget bare": ("budget = 48", "privacy.budget", "48", "a table"),
    "privacy typo": ("radios = 5", "privacy.radios", "an unknown key", "radius"),
    "sink without meter": ("topic = 'p'", "sink.topic", "'p'", "one segment {meter}"),
    "spread": ("spread = '-5s'", "sink.spread", "'-5s'", "a whole number and"),
    "sink typo": (
        "pseudonym = 'k'",
        "sink.pseudonym",
        "an unknown key",
        "pseudonym_key_file",
    ),
    "loop": (
        "topic = 'meters/{meter}/power'",
        "sink.topic",
        "'meters/{meter}/power'",
        "no source on this broker",
    ),
    "more slots than receivers accept": (
        "length = '1h'\nstep = '1ms'",
        *("window.step", "n = 3600000", "n from 1 to 50000, which is what receivers accept"),
    ),
    "a window that is longer than receivers accept": (
        "length = '401d'",
        *("window.length", "length = 34646400000", "which is what receivers accept"),
    ),
    "max_mb 0": ("max_mb = 0", "store.max_mb", "0", "greater than or equal to 1"),
    "store typo": ("keeps = '1d'", "store.keeps", "an unknown key", "keep"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_keep_the_promise_is_refused(what: str) -> None:
    """The text names the key, the value as people write it, and the expected value."""
    keys, key, found, expected = REFUSED[what]
    error = refused(lambda: config.parse(written(**{key.partition(".")[0]: keys})))
    assert error.key == key
    assert error.found.startswith(found)
    assert expected in error.expected


@pytest.mark.parametrize(
    ("privacy", "window"),
    [
        ("quantum = 0.000001\nradius = 35184372.088831", ""),
        (BUDGET % (48, "24h"), ""),
        (BUDGET % (4, "24h"), "length = '7h'"),
        (BUDGET % (1, "24h"), "length = '30d'"),
        ("radius = 1", ""),
        ("", "gap = 20000"),
        ("", "range = [-5, 0]"),
        ("", "step = '30min'"),
    ],
)
def test_the_last_that_can_is_accepted(privacy: str, window: str) -> None:
    """The bounds themselves are accepted: below 2**45 quanta, a budget that is just enough."""
    assert len(config.parse(written(privacy=privacy, window=window)).stream) == 1


def test_a_budget_counts_the_windows_that_can_start_in_its_period() -> None:
    """Of windows that do not divide a day, one more than fits can start in it."""
    text = written(privacy=BUDGET % ("3.9", "24h"), window="length = '7h'")
    assert "at least 4, for windows of 7h" in refused(lambda: config.parse(text)).expected


# Several streams, and brokers ---------------------------------------------------------------------

LOOPS = [
    "",
    "mqtt://localhost",
    "mqtt://[::1]:1883",
    "mqtt://127.0.0.1",
    "mqtt://LOCALHOST:1883",
    "mqtt://127.0.1.1",
]


@pytest.mark.parametrize("url", LOOPS)
@pytest.mark.parametrize(
    "source", ["private/{meter}/power", "private/{meter}/power/privacy", "{meter}/m1/power"]
)
def test_what_the_source_would_read_back_is_refused(source: str, url: str) -> None:
    """No record or descriptor goes where the source reads from the same broker, however spelled."""
    text = written(source=f"topic = '{source}'", sink=f"url = '{url}'" if url else "")
    error = refused(lambda: config.parse(text))
    assert (error.key, error.found) == ("sink.topic", "'private/{meter}/power'")
    assert "no source on this broker reads" in error.expected


def test_what_another_stream_would_read_is_refused() -> None:
    """What one stream sends must not be what another reads: noise is not a reading."""
    text = streams(("a", "m/{meter}", "'x/{meter}'"), ("b", "x/{meter}", "'y/{meter}'"))
    error = refused(lambda: config.parse(text))
    assert (error.key, error.found) == ("stream[0].sink.topic", "'x/{meter}'")


@pytest.mark.parametrize(
    "topics", [("x/{meter}",) * 2, ("x/{meter}", "{meter}/y"), ("x/{meter}", "x/{meter}/privacy")]
)
def test_streams_that_would_mix_are_refused(topics: tuple[str, str]) -> None:
    """Records and descriptors of two streams never share a topic, in whichever order they stand."""
    for one, other in (topics, topics[::-1]):
        text = streams(("a", "m/raw/{meter}/w", f"'{one}'"), ("b", "m/raw/{meter}/w", f"'{other}'"))
        error = refused(partial(config.parse, text))
        assert (error.key, error.found) == ("stream[1].sink.topic", repr(other))
        assert "would mix" in error.expected


def test_streams_have_names_of_their_own() -> None:
    """The name is the ledger's channel: two streams cannot share it, and it is a plain word."""
    same = streams(("a", "m/{meter}", "'x/{meter}'"), ("a", "m/{meter}", "'y/{meter}'"))
    assert refused(lambda: config.parse(same)).key == "stream[1].name"
    for name in ("", "a b", "-a", "a.b", "ä", "a" * 65):
        error = refused(partial(config.parse, streams((name, "m/{meter}", "'x/{meter}'"))))
        assert (error.key, error.found) == ("stream[0].name", repr(name))
        assert error.expected == "1 to 64 letters, digits, - and _, the first a letter or digit"


def test_keys_of_streams_are_found_by_their_place() -> None:
    """In the other form a key is named with its stream, and a section that belongs to one is not lost."""
    two = streams(("a", "m/{meter}", "'x/{meter}'"), ("b", "m/{meter}", "'y/{meter}'"))
    error = refused(lambda: config.parse(two + "[stream.privacy]\nradius = 0.5"))
    assert (error.key, error.found) == ("stream[1].privacy.radius", "0.5")
    error = refused(lambda: config.parse(two + "[window]\nlength = '1h'"))
    assert (error.key, error.expected) == ("window", "stream.window")
    error = refused(lambda: config.parse(two.replace("name", "nam")))
    assert (error.key, error.expected) == ("stream[0].nam", "name")
    error = refused(lambda: config.parse(FLAT.replace("[store]", "[stoer]\nkeep = '1d'")))
    assert (error.key, error.expected) == ("stoer", "store")


@pytest.mark.parametrize(
    "text",
    [
        written(source=f"url = 'mqtt://user:{SECRET}@host'"),
        written(source=f"url = 'mqtt://user:{SECRET}@host:99999'"),
        written(source=f"url = 'http://{SECRET}@host'"),
        written(source=f"url = ['mqtt://user:{SECRET}@host']"),
        written(sink=f"url = 'mqtt://host/{SECRET}'"),
        written(sink=f"url = 'mqtt://host:{SECRET}'"),
        f"source = 'mqtt://user:{SECRET}@host'",
        f"[stream.source]\nurl = 'mqtt://user:{SECRET}@host'",
        written(sink=f"topic = 'mqtt://user:{SECRET}@host'"),
    ],
)
def test_an_address_is_never_repeated(text: str) -> None:
    """Somebody may have put a password into an address: no text, argument or cause holds it."""
    error = refused(lambda: config.parse(text))
    assert SECRET not in f"{error} {error!r} {error.args} {error.__cause__}"
    assert error.__suppress_context__


@pytest.mark.parametrize(
    ("privacy", "key", "expected"),
    [
        ("preset = 'day'", "window.timezone", "windows of '1d' need"),
        ("preset = 'typical-day'", "window.timezone", "windows of '1mo' need"),
        (
            "space = 'profile'",
            "window.length",
            "'1mo', '1w' or '1d' with window.timezone: hours are those of local days",
        ),
    ],
)
def test_what_a_preset_or_a_space_needs_of_the_window(privacy: str, key: str, expected: str) -> None:
    """A preset of the calendar needs a time zone, a mean day needs days: the error names the window's key."""
    error = refused(lambda: config.parse(written(privacy=privacy)))
    assert error.key == key
    assert expected in error.expected


@pytest.mark.parametrize(
    ("window", "key", "expected"),
    [
        ("bands = ['00-07', '06-12']", "window.bands", "hours that do not overlap"),
        ("bands = ['22-06', '05-22']", "window.bands", "hours that do not overlap"),
        ("bands = ['7-9']", "window.bands[0]", "hours of the local day such as '00-07'"),
        ("bands = ['07:60-09']", "window.bands[0]", "hours between 00:00 and 24:00"),
        ("bands = ['07-07']", "window.bands[0]", "hours between 00:00 and 24:00"),
        ("bands = ['07-25']", "window.bands[0]", "hours between 00:00 and 24:00"),
        ("bands = []", "window.bands", "at least 1"),
        ("blocks = 7", "window.blocks", "divides 1440"),
        ("step = '1h'", "window.step", "window.bands or window.blocks"),
    ],
)
def test_what_are_no_bands_of_a_day(window: str, key: str, expected: str) -> None:
    """Bands of a profile are hours of the day, whole minutes, that do not overlap."""
    month = "length = '1mo'\ntimezone = 'UTC'\n"
    error = refused(lambda: config.parse(written(window=month + window, privacy="space = 'profile'")))
    assert error.key == key
    assert expected in error.expected
