"""What a stream of the simulation test is set to, and the agent's configuration that says so.

All durations are counted in ticks, so that the same schedule of troubles fits windows of seconds and days of
the local calendar: a tick is a tenth of a second of the loop's time, and `Pace.tick_ms` of the wall clock's.
"""

import tomllib
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from meteragent import config
from meteragent.domain.grid import format_duration, parse_time
from meteragent.domain.units import MINUTE_MS

TICK_S = 0.1
"""A tick by the loop's time."""

KEYS = (b"a key of one home", b"a key of another home")
"""What pseudonyms are made with, by `Setting.key` - 1."""


class Pace(NamedTuple):
    """How fast the wall clock of a world runs, and where it begins."""

    tick_ms: int
    begin_ms: int

    @property
    def per_s(self) -> int:
        """Wall-clock milliseconds in a second of the loop."""
        return round(self.tick_ms / TICK_S)


PACES = {
    "fast": Pace(100, parse_time("2026-03-02T11:59:50Z")),
    "slow": Pace(12 * MINUTE_MS, parse_time("2026-03-28T17:00:00Z")),  # a night of 23 hours comes
    "autumn": Pace(12 * MINUTE_MS, parse_time("2026-10-24T18:00:00Z")),  # and here one of 25
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One stream. Durations are in ticks; `grid` is length/step in ticks, or a unit of the calendar.

    On the calendar it is `1d`, `1d/N` with N equal slots, or `1d:bands` with hours of the day; `key` says
    which pseudonyms a meter leaves under (0: its name), `limit` a budget of so many windows a day (0: none).
    With `stamped` readings have no times of their own.
    """

    name: str = "main"
    kind: str = "power"
    clock: str = "wall"
    grid: str = "30/10"
    lateness: int = 0
    stands: int = 20
    spread: int = 0
    catch_up: int = 10
    forget: int = 10_000
    ahead: int = 20
    radius: int = 120
    gap: int = 0
    key: int = 0
    limit: int = 0
    inflight: int = 1000
    meters: int = 100
    topic: int = 0
    keep: int = 10_000
    version: int = 5
    stamped: int = 0

    @property
    def sink_topic(self) -> str:
        """Where it sends: a topic of its own."""
        return f"private/{self.name}{self.topic or ''}/{{meter}}"


def parse(settings: tuple[Setting, ...], pace: Pace, keys: Path, store: Path) -> config.Config:
    """The agent's configuration with these streams, with its key files in `keys` (see `write_keys`)."""
    keep = format_duration(settings[0].keep * pace.tick_ms)
    streams = "".join(_stream(one, pace, keys) for one in settings)
    known = _read(f'[store]\nkeep = "{keep}"\n{streams}')
    return known.model_copy(update={"store": known.store.model_copy(update={"path": store})})


def write_keys(folder: Path) -> None:
    """The files with the keys of pseudonyms."""
    for at, key in enumerate(KEYS, 1):
        (folder / f"key{at}").write_bytes(key)


@lru_cache(maxsize=512)
def _read(written: str) -> config.Config:
    """As `config.parse`, but for what it refuses: for that it goes through ten years of the calendar."""
    return config.Config.model_validate(tomllib.loads(written, parse_float=Decimal))


def _stream(one: Setting, pace: Pace, keys: Path) -> str:
    def ticks(count: int) -> str:
        return format_duration(count * pace.tick_ms)

    power = one.kind == "power"
    key = f'pseudonym_key_file = "{keys}/key{one.key}"\n' if one.key else ""
    budget = f'budget = {{ level = {one.limit}, per = "24h" }}\n' if one.limit else ""
    return f"""
[[stream]]
name = "{one.name}"
[stream.source]
url = "mqtt://source"
topic = "meters/{{meter}}/power"
profile = "json"
value = "v"
{"" if one.stamped else 'time = "t"'}
kind = "{one.kind}"
unit = "{"W" if power else "Wh"}"
{"hold" if power else "interval"} = "{ticks(one.stands)}"
inflight = {one.inflight}
max_meters = {one.meters}
max_payload = "200B"
protocol = "{"3.1.1" if one.version == 4 else "5"}"
[stream.window]
{_grid(one, pace)}
clock = "{one.clock}"
lateness = "{ticks(one.lateness)}"
ahead = "{ticks(one.ahead)}"
catch_up = "{ticks(one.catch_up)}"
forget = "{ticks(one.forget)}"
gap = {one.gap}
range = [0, {20_000 if power else 10**8}]
[stream.privacy]
level = 1
radius = {one.radius}
quantum = {"1" if power else "0.5"}
{"space = 'profile'" if ":" in one.grid else ""}
{budget}
[stream.sink]
url = "mqtt://sink"
topic = "{one.sink_topic}"
spread = "{ticks(one.spread)}"
inflight = 5
{key}
"""


def _grid(one: Setting, pace: Pace) -> str:
    if not one.grid.startswith("1d"):
        length, step = (format_duration(int(part) * pace.tick_ms) for part in one.grid.split("/"))
        return f'length = "{length}"\nstep = "{step}"'
    zone = 'length = "1d"\ntimezone = "Europe/Amsterdam"\n'
    if ":" in one.grid:
        return f"{zone}bands = [{', '.join(repr(band) for band in one.grid[3:].split(','))}]"
    return f"{zone}blocks = {one.grid.partition('/')[2] or 1}"
