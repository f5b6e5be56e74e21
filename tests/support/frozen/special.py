"""Configurations whose output is frozen besides the kinds of windows: calendars, presets, streams, crowds."""

from dataclasses import replace

from meteragent.domain.grid import parse_time
from meteragent.domain.units import DAY_MS, HOUR_MS
from tests.support.crowd import group_text, make_group
from tests.support.frozen.cases import (
    ALL_READINGS,
    BANDS,
    ENERGY,
    KILO_REGISTER,
    LOCAL_DAY,
    POWER,
    PRICES,
    QUARTER_MS,
    REGISTER,
    ZONE,
    Case,
    Readings,
    Script,
    configuration,
)

SLOW = replace(POWER, more='hold = "7h"\n')
MONTH = 'length = "1mo"\n' + ZONE
WEEK = 'length = "1w"\n' + ZONE


def long_script(start: str, days: int, hours: int) -> Script:
    """Return a script of some days, with a reading every few hours."""
    start_ms, pace_ms = parse_time(start), hours * HOUR_MS
    end_ms = start_ms + days * DAY_MS + 2 * HOUR_MS
    return Script(start_ms, pace_ms, end_ms, end_ms + pace_ms, DAY_MS, 43)


SPRING_WEEK = long_script("2033-03-20T23:00:00Z", 7, 3)
APRIL = long_script("2033-03-31T22:00:00Z", 30, 6)
OCTOBER = long_script("2033-09-30T22:00:00Z", 31, 6)
"""The autumn's day of 25 hours is 2033-10-30."""
HOURS = Script.short(6, QUARTER_MS)


def calendars() -> list[Case]:
    """Return calendar windows of each kind, over a change of the clocks."""
    rows = [
        ("linf by the hour, a day of 23 h", LOCAL_DAY + 'step = "1h"\n', "", "", POWER, Script()),
        ("linf, days, interval energies", LOCAL_DAY, 'hide = "300Wh"\n', "", ENERGY, Script()),
        ("curve, days", LOCAL_DAY + "blocks = 4\n", 'space = "curve"\n', "", POWER, Script()),
        ("profile, a week", WEEK + "blocks = 3\n", 'space = "profile"\n', "", SLOW, SPRING_WEEK),
        ("profile in l1, a month of 31 days", MONTH, _TYPICAL, "", SLOW, OCTOBER),
        ("bands, a month, a register", MONTH + 'lateness = "0s"\n', _TARIFF, BANDS, KILO_REGISTER, OCTOBER),
        ("weighted, a week", WEEK, 'hide = "600Wh"\n', PRICES, SLOW, SPRING_WEEK),
        (
            "peak, days, parts of 30min",
            LOCAL_DAY + 'step = "30min"\n',
            'space = "peak"\n',
            "",
            POWER,
            Script(),
        ),
        ("above, days", LOCAL_DAY + "threshold = 1500\n", 'hide = "300Wh"\n', "", POWER, Script()),
    ]
    return [
        Case(name, configuration(readings, window, privacy, tables=tables), readings, script, is_told=False)
        for name, window, privacy, tables, readings, script in rows
    ]


_TYPICAL = 'preset = "typical-day"\nmetric = "l1"\n'
_TARIFF = 'preset = "tariff"\n'


def presets() -> list[Case]:
    """Return each preset as it is, with readings of power."""
    scripts = {
        "television": ("", HOURS),
        "appliance": ("", HOURS),
        "street": ("", HOURS),
        "day": (ZONE, SPRING_WEEK),
        "bill": (ZONE, APRIL),
        "typical-day": (ZONE, APRIL),
        "peak": (ZONE, APRIL),
        "tariff": (ZONE + BANDS, APRIL),
    }
    return [
        Case(
            name,
            configuration(_readings(script), window, f'preset = "{name}"\n'),
            _readings(script),
            script,
        )
        for name, (window, script) in scripts.items()
    ]


def _readings(script: Script) -> Readings:
    """Return power whose readings hold until the next one of a script."""
    return POWER if script is HOURS else SLOW


def streams() -> list[Case]:
    """Return what the kind of windows does not decide."""
    event = 'length = "1h"\nclock = "event"\nlateness = "2min"\n'
    solar = 'length = "30min"\nrange = [-6000, 20000]\ngap = -50\n'
    pseudonym = 'pseudonym_key_file = "FOLDER/pseudonym.key"\nretain = true\nspread = "5min"\n'
    cases = [
        Case("event clock, power", configuration(POWER, event), POWER, HOURS),
        Case("event clock, register", configuration(REGISTER, event, sink="total = true\n"), REGISTER, HOURS),
        Case("feed-in, gap", configuration(POWER, solar), POWER, HOURS),
        Case(
            "pseudonyms, retained, delays",
            configuration(POWER, 'length = "30min"\n', sink=pseudonym),
            POWER,
            HOURS,
            files={"pseudonym.key": "a key that is fixed\n"},
        ),
        Case(
            "phases",
            configuration(
                POWER, 'length = "30min"\n', topic="meters/{meter}/{phase}/load", tables=""
            ).replace('unit = "W"', 'unit = "W"\nphases = ["a", "b", "c"]'),
            POWER,
            HOURS,
            phases=("a", "b", "c"),
        ),
        Case(
            "nested",
            configuration(ENERGY, ZONE, 'shares = { "1h" = 0.75, "1d" = 0.2 }\nhide = "300Wh"\n'),
            ENERGY,
            replace(Script.short(26, QUARTER_MS), turn_ms=HOUR_MS),
        ),
        Case("two streams of a meter", two_streams(), POWER, HOURS),
        Case("receivers", receivers(), POWER, replace(HOURS, until_ms=HOURS.until_ms + HOUR_MS)),
    ]
    of_two = ("pseudonyms, retained, delays", "receivers")
    names_told = {cases[0].name, "nested", "two streams of a meter", "receivers"}
    return [
        replace(case, is_alone=case.name not in of_two, is_told=case.name in names_told) for case in cases
    ]


def two_streams() -> str:
    """Return two streams of one meter, whose charges add up."""
    source = f'{{ topic = "meters/{{meter}}/load", profile = "json", time = "t", value = "value", {_KEYS} }}'
    return "".join(
        f'[[stream]]\nname = "{name}"\nsource = {source}\n'
        f"window = {{ {window} }}\nprivacy = {{ {privacy} }}\n"
        f'sink = {{ topic = "{name}/{{meter}}" }}\n'
        for name, window, privacy in (
            ("fine", 'length = "30min"', 'hide = "20Wh"'),
            ("shape", 'length = "2h", blocks = 2', 'space = "curve", hide = "300Wh"'),
        )
    )


_KEYS = POWER.source.strip().replace("\n", ", ")


def receivers() -> str:
    """Return a stream that receivers share; one of them comes later, and one is paused."""
    head, _ = configuration(POWER, 'lateness = "2min"\n').split("[privacy]")
    rows = [
        ("grid", "appliance", ""),
        ("app", "appliance", "start = 2033-03-26T05:35:45+01:00\n"),
        ("study", "television", "end = 2033-03-26T03:00:00+01:00\n"),
        ("pause", "day", "paused = true\n"),
    ]
    return f"{head}{ZONE}" + "".join(
        f'[[receiver]]\nname = "{name}"\npreset = "{preset}"\ntopic = "{name}/{{meter}}"\n{more}'
        for name, preset, more in rows
    )


def crowd() -> list[Case]:
    """Return the reports of homes to a group, for each kind and unit of readings."""
    return [
        Case(
            readings.name,
            home(readings),
            readings,
            HOURS,
            files={"group.toml": group_text()},
        )
        for readings in ALL_READINGS
    ]


def home(readings: Readings) -> str:
    """Return the file of a home whose readings count in the total of a group."""
    window = 'lateness = "10s"\ncatch_up = "1min"\nrange = [-5000, 18000]\n'
    head, _ = configuration(readings, window, readings.privacy).split("[sink]")
    return f'{head}[sink.crowd]\ngroup = "FOLDER/group.toml"\nid = "{GROUP.id.hex()}"\n'


GROUP = make_group()
