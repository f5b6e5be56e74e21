"""The configurations whose output is frozen, and the readings that they get.

Each space is tried with each metric and with each kind and unit of readings; what a configuration refuses is
frozen as a refusal. A few further cases have what the kind of windows does not decide.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from meteragent.domain.grid import iso_time, parse_time
from meteragent.domain.reading import Message
from meteragent.domain.units import DAY_MS, HOUR_MS, MINUTE_MS

QUARTER_MS = 15 * MINUTE_MS
SPRING_MS = parse_time("2033-03-25T23:00:00Z")
"""The start of Saturday, 2033-03-26 in Amsterdam; the next day has 23 hours."""
METRICS = ("linf", "l1")
PRICE_TOPIC = "prices/day-ahead"
ZONE = 'timezone = "Europe/Amsterdam"\n'
LOCAL_DAY = f'length = "1d"\n{ZONE}lateness = "2min"\n'


@dataclass(frozen=True)
class Readings:
    """A kind and a unit of readings; a reading of 1 in this unit is `wh` Wh or W."""

    kind: str
    unit: str
    wh: int
    more: str = ""
    privacy: str = ""

    @property
    def name(self) -> str:
        """The name in the files."""
        return f"{self.kind} in {self.unit}"

    @property
    def source(self) -> str:
        """The keys of the source."""
        return f'kind = "{self.kind}"\nunit = "{self.unit}"\n{self.more}'


POWER = Readings("power", "W", 1, 'hold = "30min"\n')
KILO_POWER = Readings(
    "power",
    "kW",
    1000,
    'hold = "30min"\nevery = "15min"\ndead_band = 0.001\n',
    'accept = ["sparse_readings"]\n',
)
_LOST = 'accept = ["lost_energy"]\n'
ENERGY = Readings("interval_energy", "Wh", 1, 'interval = "15min"\n', _LOST)
KILO_ENERGY = Readings("interval_energy", "kWh", 1000, 'interval = "15min"\n', _LOST)
REGISTER = Readings("register", "Wh", 1, 'modulus = 1000000\nevery = "15min"\ndead_band = 1\n', _LOST)
KILO_REGISTER = Readings("register", "kWh", 1000)
ALL_READINGS = (POWER, KILO_POWER, ENERGY, KILO_ENERGY, REGISTER, KILO_REGISTER)


@dataclass(frozen=True)
class Script:
    """When meters report, and what goes wrong.

    Readings come every `pace_ms`, from one pace before `start_ms` to `end_ms`. The agent runs until
    `until_ms`. It stops at reading number `stop`, and starts again three readings later.
    """

    start_ms: int = SPRING_MS
    pace_ms: int = QUARTER_MS
    end_ms: int = SPRING_MS + 47 * HOUR_MS
    until_ms: int = SPRING_MS + 47 * HOUR_MS + 2 * QUARTER_MS
    turn_ms: int = 2 * HOUR_MS
    stop: int = 61

    @classmethod
    def short(cls, hours: int, pace_ms: int = 5 * MINUTE_MS) -> "Script":
        """Return a script of some hours."""
        end_ms = SPRING_MS + hours * HOUR_MS
        return cls(SPRING_MS, pace_ms, end_ms, end_ms + 2 * pace_ms, 2 * pace_ms, 19)

    @property
    def restart_ms(self) -> tuple[int, int]:
        """The times of the stop and of the start that follows, neither of them at a boundary."""
        stop_ms = self.start_ms + self.stop * self.pace_ms + self.pace_ms // 3
        return stop_ms, stop_ms + 3 * self.pace_ms


@dataclass(frozen=True)
class Case:
    """A configuration, and the readings that it gets.

    `is_alone` states whether only one meter reports; `is_told` whether the text of `check` is frozen, too.
    """

    name: str
    text: str
    readings: Readings = POWER
    script: Script = Script()
    phases: tuple[str, ...] = ()
    has_prices: bool = False
    is_alone: bool = True
    is_told: bool = True
    files: dict[str, str] = field(default_factory=dict)

    def messages(self) -> list[Message]:
        """Return all messages in order of arrival; the token is the number of the message."""
        rows = sorted(self._rows(), key=lambda row: row.received_ms)
        return [row._replace(token=number) for number, row in enumerate(rows)]

    def _rows(self) -> Iterator[Message]:
        """Yield the messages of a meter with faults, of a second meter if there is one, and of prices."""
        for phase in self.phases or ("",):
            yield from _faulty(self.readings, self.script, phase)
        later = replace(self.script, start_ms=self.script.start_ms + (4 * self.script.pace_ms))
        for number, time_ms in enumerate(() if self.is_alone else _times(later)):
            yield _message(self.readings, "m2", self.phases[:1], time_ms, number, 1)
        if self.has_prices:
            yield from _prices(self.script)


def _times(script: Script) -> range:
    """Return the times of readings."""
    return range(script.start_ms - script.pace_ms, script.end_ms + 1, script.pace_ms)


def _power_w(number: int, seed: int) -> int:
    """Return the load of a meter after a number of readings: a base, a cycle and a rare peak."""
    return 90 * seed + (number * 37 + seed * 101) % 400 + 2300 * (number * (seed + 2) % 23 < 2)


def _value(readings: Readings, script_ms: int, number: int, seed: int) -> Fraction:
    """Return the number that a meter sends: a power, the energy since the last reading, or the register."""
    if readings.kind == "power":
        return Fraction(_power_w(number, seed), readings.wh)
    hours = Fraction(QUARTER_MS if readings.kind == "interval_energy" else script_ms, HOUR_MS)
    if readings.kind == "interval_energy":
        return Fraction(int(_power_w(number, seed) * hours), readings.wh)
    used_wh = sum(int(_power_w(at, seed) * hours) for at in range(number))
    return Fraction((998_000 + used_wh) % 1_000_000 if readings.unit == "Wh" else used_wh, readings.wh)


def _message(
    readings: Readings, meter: str, phase: tuple[str, ...], time_ms: int, number: int, seed: int
) -> Message:
    """Return a reading of a meter that arrives a second after its time."""
    value = _value(readings, QUARTER_MS, number, seed)
    payload = f'{{"t":{time_ms},"value":{float(value):.10g}}}'.encode()
    topic = "/".join(("meters", meter, *phase, "load"))
    return Message(topic, payload, False, time_ms + 1000, None)


def _faulty(readings: Readings, script: Script, phase: str) -> Iterator[Message]:
    """Yield the readings of a meter, of which some are missing, late, early, repeated, or out of range."""
    for number, time_ms in enumerate(_times(script)):
        row = _message(readings, "m1", (phase,) if phase else (), time_ms, number, 2)
        if number in range(14, 18):  # an outage
            continue
        if number == 8:  # out of order
            row = row._replace(received_ms=row.received_ms + 2 * MINUTE_MS)
        if number == 9:  # later than any lateness
            row = row._replace(received_ms=row.received_ms + 2 * HOUR_MS)
        if number in (5, 6) and readings.kind != "register":  # outside the range
            value = (30_000 if number == 5 else -500) / readings.wh
            row = row._replace(payload=f'{{"t":{time_ms},"value":{value:.10g}}}'.encode())
        if number == 12:
            yield row._replace(payload=b'{"t":0}')
            yield row._replace(payload=row.payload.replace(b"%d" % time_ms, b"%d" % (time_ms + 2 * DAY_MS)))
        yield row
        if number == 14:
            yield row


def _prices(script: Script) -> Iterator[Message]:
    """Yield prices of each hour, four hours at once, of which some come too late or are beyond the bound."""
    for hour, start_ms in enumerate(range(script.start_ms, script.end_ms, 4 * HOUR_MS)):
        rows = [
            {
                "start": iso_time(start_ms + place * HOUR_MS),
                "end": iso_time(start_ms + (place + 1) * HOUR_MS),
                "price": 0.9 if hour == 2 and place == 3 else round(0.11 + 0.013 * place - 0.04 * hour, 6),
            }
            for place in range(4)
        ]
        ahead_ms = -HOUR_MS if hour == 3 else HOUR_MS
        yield Message(PRICE_TOPIC, json.dumps(rows).encode(), True, start_ms - ahead_ms, None)


# --- configurations ------------------------------------------------------------------------------


def configuration(
    readings: Readings,
    window: str = "",
    privacy: str = "",
    sink: str = "",
    tables: str = "",
    topic: str = "meters/{meter}/load",
) -> str:
    """Return the file of one stream."""
    return (
        f'[source]\ntopic = "{topic}"\nprofile = "json"\ntime = "t"\nvalue = "value"\n{readings.source}'
        f"[window]\n{window}{tables}[privacy]\n{privacy}"
        f'[sink]\ntopic = "private/{{meter}}"\n{sink}'
    )


@dataclass(frozen=True)
class Kind:
    """A kind of windows in its simplest configuration."""

    name: str
    window: str
    privacy: str
    tables: str = ""
    script: Script = Script()
    sink: str = ""
    has_prices: bool = False

    def case(self, readings: Readings, metric: str) -> Case:
        """Return the case of some readings under a metric."""
        privacy = f'{self.privacy}metric = "{metric}"\n{readings.privacy}'
        sink = f'status = "agent/status"\nhome_assistant = "homeassistant"\n{self.sink}'
        text = configuration(readings, self.window, privacy, sink, self.tables)
        return Case(f"{metric}, {readings.name}", text, readings, self.script, has_prices=self.has_prices)


BANDS = """rest = "night"
holidays = ["2033-03-26"]
[[window.band]]
name = "day"
days = "mon-sat"
hours = ["07:00/23:00"]
[[window.band]]
name = "sunday"
days = "sun"
hours = ["07:00/12:00", "17:00/02:00"]
"""
PRICES = """[window.weights]
bound = 0.5
default = 0.2
[[window.weights.price]]
hours = ["00:00/06:00"]
price = 0.12
[[window.weights.price]]
days = "sun"
hours = ["17:00/21:00"]
price = -0.05
[[window.weights.price]]
days = "sat"
hours = ["17:00/21:00"]
price = 0.43
"""
TOPIC = f'[window.weights]\nbound = 0.5\ndefault = 0.2\nunit = "SEK"\ntopic = "{PRICE_TOPIC}"\n'

DAY = 'length = "24h"\nlateness = "2min"\n'
TOTAL = "total = true\n"
PROFILE = f'{LOCAL_DAY}bands = ["22:00/06:00", "07:00/12:30", "18:00/22:00"]\n'

KINDS = (
    Kind(
        "linf",
        'length = "1h"\nstep = "30min"\nlateness = "2min"\n',
        'hide = "110Wh"\n',
        script=Script.short(6, QUARTER_MS),
        sink=f'{TOTAL}spread = "20s"\n',
    ),
    Kind(
        "curve",
        'length = "6h"\nblocks = 3\nlateness = "2min"\n',
        'space = "curve"\nhide = "300Wh"\n',
        script=Script.short(13, QUARTER_MS),
        sink=TOTAL,
    ),
    Kind("profile", PROFILE, 'space = "profile"\nhide = "600Wh"\n', sink=TOTAL),
    Kind("bands", LOCAL_DAY, 'space = "bands"\nhide = "600Wh"\n', BANDS, sink=TOTAL),
    Kind("weighted-table", LOCAL_DAY, 'hide = "600Wh"\n', PRICES),
    Kind("weighted-topic", DAY.replace("24h", "12h"), 'hide = "600Wh"\n', TOPIC, has_prices=True),
    Kind("peak", DAY, 'space = "peak"\nhide = "27.5Wh"\n'),
    Kind("above", f"{DAY}threshold = 2000\n", 'hide = "300Wh"\n'),
)


def kinds() -> dict[str, list[Case]]:
    """Return the cases of each kind of windows, by its name."""
    return {
        kind.name: [kind.case(readings, metric) for metric in METRICS for readings in ALL_READINGS]
        for kind in KINDS
    }
