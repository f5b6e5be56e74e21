"""The settings of a stream in the simulation test, and the corresponding configuration of the agent.

All durations are counted in ticks, so that one schedule of faults fits windows of seconds as well as local
calendar days. A tick is a tenth of a second of the loop's time, and `Pace.tick_ms` of wall-clock time.
"""

import tomllib
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from meteragent import config
from meteragent.config.crowd import counted
from meteragent.crowd.group import Group
from meteragent.domain.grid import format_duration, iso_time, parse_time
from meteragent.domain.units import MINUTE_MS
from simulators.simtest.crowd import group_text, make_group
from simulators.simtest.prices import PRICE_TOPIC
from simulators.simtest.receivers import Receiver, Share

TICK_S = 0.1
"""The length of a tick in the loop's time."""

PAYLOAD_MAX = 200
"""The largest number of bytes of a payload that is decoded."""

KEYS = (b"a key of one home", b"a key of another home")
"""Pseudonym keys; `Setting.key` - 1 is the index of a stream's key."""


class Pace(NamedTuple):
    """The speed of a world's wall clock (its ms per tick), and the time at which it starts, in Unix ms."""

    tick_ms: int
    begin_ms: int

    @property
    def per_s(self) -> int:
        """Wall-clock milliseconds per second of the loop's time."""
        return round(self.tick_ms / TICK_S)

    def time_ms(self, ticks: int | None) -> int | None:
        """Return the wall-clock time `ticks` after the beginning of the world, or None if `ticks` is None."""
        return None if ticks is None else self.begin_ms + ticks * self.tick_ms


HOLIDAYS = "2026-03-30, 2026-10-26"
"""The Mondays after the clock changes."""

PACES = {
    "fast": Pace(100, parse_time("2026-03-02T11:59:50Z")),
    "minutes": Pace(MINUTE_MS // 10, parse_time("2026-03-02T11:59:00Z")),  # for receivers and crowds
    "slow": Pace(12 * MINUTE_MS, parse_time("2026-03-28T17:00:00Z")),  # just before a day of 23 hours
    "autumn": Pace(12 * MINUTE_MS, parse_time("2026-10-24T18:00:00Z")),  # just before a day of 25 hours
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One stream. Durations are in ticks; `grid` is length/step in ticks, or a grid of local days.

    A grid of local days is `1d`, `1d/N` with N equal slots, `1d:bands` with hours of the day, or `1d=hours`
    with energies in two bands: these hours on Mondays to Fridays except `HOLIDAYS`, and the rest. With `^`
    instead of `/`, a peak is released, and the number after `^` is the length of its parts in ticks. `key` is
    the number of the pseudonym key (0: the meter's own name is sent), and `limit` a budget in windows per day
    (0: none). With `bound`, each window is an amount at prices from a topic, each at most `bound` hundredths,
    and `radius` is the hidden energy in Wh. With `threshold`, in W, each window is the energy above that
    power. `stands` is the hold of a power reading, or the interval of an energy reading. With `stamped`,
    readings have no times of their own. `version` is the version of MQTT at the source. `receivers`,
    separated by commas, share the stream (`receivers.Receiver`). With `crowd`, the stream counts in a group
    whose deadline is `crowd` ticks later than the latest possible report.
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
    bound: int = 0
    threshold: int = 0
    receivers: str = ""
    crowd: int = 0

    @property
    def sink_topic(self) -> str:
        """The topic to which the stream publishes; no other stream shares it."""
        return f"private/{self.name}{self.topic or ''}/{{meter}}"

    def shares(self, pace: Pace) -> list[Share]:
        """Return the receivers that share the stream, in the order of `receivers`."""
        settled_ms = (self.lateness + self.spread + self.catch_up) * pace.tick_ms
        return [
            Share(
                self.name,
                receiver.name,
                receiver.sink_topic,
                pace.time_ms(receiver.start),
                pace.time_ms(receiver.end),
                settled_ms,
                receiver.is_paused,
            )
            for receiver in self._receivers
        ]

    def runs(self, pace: Pace, now_ms: int) -> bool:
        """Return whether the stream runs: it has its own sink, or a receiver that gets it, now or later."""
        return not self.receivers or any(not share.is_over(now_ms) for share in self.shares(pace))

    def group(self, pace: Pace) -> Group:
        """Return the group of a stream that counts in a crowd."""
        length = int(self.grid.split("/")[0])
        deadline = self.lateness + self.spread + self.catch_up + self.crowd
        return make_group(length * pace.tick_ms // 1000, deadline * pace.tick_ms // 1000)

    @property
    def _receivers(self) -> list[Receiver]:
        return [Receiver.parse(text) for text in self.receivers.split(",") if text]

    @property
    def first_sink(self) -> tuple[str, str]:
        """The broker and the topic of the sink or, if the stream has none, of its first receiver."""
        receiver = next(iter(self._receivers), None)
        return ("sink", self.sink_topic) if receiver is None else (receiver.broker, receiver.sink_topic)

    def tables(self, pace: Pace) -> str:
        """Return the tables of the receivers, whose preset is the name of the stream."""
        return "".join(
            f"""
[[receiver]]
name = "{receiver.name}"
preset = "{self.name}"
url = "mqtt://{receiver.broker}"
topic = "{receiver.sink_topic}"
paused = {str(receiver.is_paused).lower()}
{_format_moment("start", pace.time_ms(receiver.start))}
{_format_moment("end", pace.time_ms(receiver.end))}
"""
            for receiver in self._receivers
        )


def parse(settings: tuple[Setting, ...], pace: Pace, keys: Path, store: Path) -> config.Config:
    """Build the agent's configuration for `settings`.

    `keys` is the folder that `write_keys` filled; missing group files are written into it.
    """
    keep = format_duration(settings[0].keep * pace.tick_ms)
    streams = "".join(_format_stream(setting, pace, keys) for setting in settings)
    for setting in settings:
        if setting.crowd and not (path := _group_path(setting, pace, keys)).exists():
            group = setting.group(pace)
            path.write_text(group_text(group.slot_s, group.deadline_s))
    tables = "".join(setting.tables(pace) for setting in settings)
    document = _parse_toml(f'[store]\nkeep = "{keep}"\n{streams}{tables}')
    peers = {
        stream.name: [r for r in document.receiver if r.preset == stream.name] for stream in document.stream
    }
    shared = tuple(counted(stream.shared_by(peers[stream.name])) for stream in document.stream)
    store_table = document.store.model_copy(update={"path": store})
    return document.model_copy(update={"store": store_table, "stream": shared, "receiver": ()})


def write_keys(folder: Path) -> None:
    """Write the files of the pseudonym keys to a folder."""
    for number, key in enumerate(KEYS, 1):
        (folder / f"key{number}").write_bytes(key)


@lru_cache(maxsize=512)
def _parse_toml(text: str) -> config.Config:
    """Parse a configuration without `config.parse`'s refusals, which examine ten years of the calendar."""
    return config.Config.model_validate(tomllib.loads(text, parse_float=Decimal))


def _format_stream(setting: Setting, pace: Pace, keys: Path) -> str:
    def ticks(count: int) -> str:
        """Format the duration of a number of ticks."""
        return format_duration(count * pace.tick_ms)

    power = setting.kind == "power"
    key = f'pseudonym_key_file = "{keys}/key{setting.key}"\n' if setting.key else ""
    budget = f'budget = {{ level = {setting.limit}, per = "24h" }}\n' if setting.limit else ""
    return f"""
[[stream]]
name = "{setting.name}"
[stream.source]
url = "mqtt://source"
topic = "meters/{{meter}}/power"
profile = "json"
value = "v"
{"" if setting.stamped else 'time = "t"'}
kind = "{setting.kind}"
unit = "{"W" if power else "Wh"}"
{"hold" if power else "interval"} = "{ticks(setting.stands)}"
inflight = {setting.inflight}
max_meters = {setting.meters}
max_payload = "{PAYLOAD_MAX}B"
protocol = "{"3.1.1" if setting.version == 4 else "5"}"
[stream.window]
{_format_grid(setting, pace)}
clock = "{setting.clock}"
lateness = "{ticks(setting.lateness)}"
ahead = "{ticks(setting.ahead)}"
catch_up = "{ticks(setting.catch_up)}"
forget = "{ticks(setting.forget)}"
gap = {setting.gap}
range = [0, {20_000 if power else 10**8}]
[stream.privacy]
level = 1
{_format_noise(setting)}
{"space = 'peak'" if "^" in setting.grid else ""}
{"space = 'profile'" if ":" in setting.grid else "space = 'bands'" if "=" in setting.grid else ""}
{budget}
[stream.sink]
url = "mqtt://{setting.first_sink[0]}"
topic = "{setting.first_sink[1]}"
spread = "{ticks(setting.spread)}"
inflight = 5
{key}
{_format_crowd(setting, pace, keys)}
"""


def _group_path(setting: Setting, pace: Pace, keys: Path) -> Path:
    return keys / f"{setting.group(pace).name}.toml"


def _format_crowd(setting: Setting, pace: Pace, keys: Path) -> str:
    if not setting.crowd:
        return ""
    group = setting.group(pace)
    return f'crowd = {{ group = "{_group_path(setting, pace, keys)}", id = "{group.id.hex()}" }}\n'


def _format_moment(key: str, time_ms: int | None) -> str:
    return "" if time_ms is None else f"{key} = {iso_time(time_ms)}"


def _format_noise(setting: Setting) -> str:
    if setting.bound:
        return f'hide = "{setting.radius}Wh"'
    return f"radius = {setting.radius}\nquantum = {'1' if setting.kind == 'power' else '0.5'}"


def _format_grid(setting: Setting, pace: Pace) -> str:
    table = f'{{ bound = 0.{setting.bound:02d}, default = 0.07, topic = "{PRICE_TOPIC}" }}'
    one_number = f"weights = {table}\n" if setting.bound else ""
    if setting.threshold:
        one_number = f"threshold = {setting.threshold}\n"
    if not setting.grid.startswith("1d"):
        parts = setting.grid.replace("^", "/").split("/")
        length, step = (format_duration(int(part) * pace.tick_ms) for part in parts)
        return f'length = "{length}"\n{one_number}' if one_number else f'length = "{length}"\nstep = "{step}"'
    zone = 'length = "1d"\ntimezone = "Europe/Amsterdam"\n'
    if "=" in setting.grid:
        band = f'{{ name = "day", days = "mon-fri", hours = ["{setting.grid[3:]}"] }}'
        return f'{zone}band = [{band}]\nrest = "night"\nholidays = [{HOLIDAYS}]'
    if "^" in setting.grid:
        return f'{zone}step = "{format_duration(int(setting.grid[3:]) * pace.tick_ms)}"'
    if ":" in setting.grid:
        return f"{zone}bands = [{', '.join(repr(band) for band in setting.grid[3:].split(','))}]"
    if one_number:
        return zone + one_number
    return f"{zone}blocks = {setting.grid.partition('/')[2] or 1}"
