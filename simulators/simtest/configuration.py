"""The agent's configuration for the settings of streams, as TOML."""

import tomllib
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

from meteragent import config
from meteragent.config.tables import with_group_terms
from meteragent.crowd.group import Group
from meteragent.domain.grid import format_duration, iso_time
from simulators.simtest.judge.crowd import group_text, make_group
from simulators.simtest.model.prices import PRICE_TOPIC
from simulators.simtest.model.setting import (
    DEFAULT_PRICE_U,
    HOLIDAYS,
    KEYS,
    PART_METER,
    PAYLOAD_MAX,
    ZONE,
    Pace,
    Setting,
    counter_of,
    kind_of,
    phases_of,
)
from simulators.simtest.model.stream_spec import StreamNames, StreamSpec

_STATED_SPACES = ("peak", "profile", "bands", "curve")
"""The kinds of windows that a configuration names; the other kinds follow from other keys."""


def group_of(setting: Setting, pace: Pace) -> Group:
    """Return the group of a stream that is part of a crowd's total."""
    return make_group(setting.group_slot_s(pace), setting.group_deadline_s(pace))


def spec_of(names: StreamNames, settings: Sequence[Setting], pace: Pace) -> StreamSpec:
    """Return the model's specification of a stream of a configuration."""
    group_ids = [group_of(setting, pace).id.hex() if setting.crowd else "" for setting in settings]
    return StreamSpec.of(names, settings, pace, group_ids)


def parse(
    settings: tuple[Setting, ...], pace: Pace, keys: Path, store: Path, *, keeps_tables: bool = False
) -> config.Config:
    """Build the agent's configuration for `settings`.

    `keys` is the folder that `write_keys` filled; missing group files are written into it. `keeps_tables`
    keeps the tables of the receivers next to the streams that the receivers share.
    """
    keep = format_duration(settings[0].keep * pace.tick_ms)
    streams = "".join(_format_stream(setting, pace, keys) for setting in settings)
    for setting in settings:
        if setting.crowd and not (path := _group_path(setting, pace, keys)).exists():
            group = group_of(setting, pace)
            path.write_text(group_text(group.slot_s, group.deadline_s))
    tables = "".join(_format_receivers(setting, pace) for setting in settings)
    document = _parse_toml(f'[store]\nkeep = "{keep}"\n{streams}{tables}')
    peers = {
        stream.name: [r for r in document.receiver if r.preset == stream.name] for stream in document.stream
    }
    shared = tuple(with_group_terms(stream.with_receivers(peers[stream.name])) for stream in document.stream)
    store_table = document.store.model_copy(update={"path": store})
    tables_kept = document.receiver if keeps_tables else ()
    return document.model_copy(update={"store": store_table, "stream": shared, "receiver": tables_kept})


def write_keys(folder: Path) -> None:
    """Write the files of the pseudonym keys to a folder."""
    for number, key in enumerate(KEYS, 1):
        (folder / f"key{number}").write_bytes(key)


@lru_cache(maxsize=512)
def _parse_toml(text: str) -> config.Config:
    """Parse a configuration without `config.parse`'s refusals, which examine ten years of the calendar."""
    return config.Config.model_validate(tomllib.loads(text, parse_float=Decimal))


def _format_receivers(setting: Setting, pace: Pace) -> str:
    """Return the tables of the receivers, whose preset is the name of the stream."""
    return "".join(
        f"""
[[receiver]]
name = "{receiver.name}"
preset = "{setting.name}"
url = "mqtt://{receiver.broker}"
topic = "{receiver.sink_topic}"
paused = {str(receiver.is_paused).lower()}
{_format_moment("start", pace.time_ms(receiver.start))}
{_format_moment("end", pace.time_ms(receiver.end))}
"""
        for receiver in setting.peers
    )


def _format_stream(setting: Setting, pace: Pace, keys: Path) -> str:
    def ticks(count: int) -> str:
        """Format the duration of a number of ticks."""
        return format_duration(count * pace.tick_ms)

    power, counter = kind_of(setting) == "power", counter_of(setting)
    low_w = -setting.high_w if phases_of(setting).has_parts else 0
    key = f'pseudonym_key_file = "{keys}/key{setting.key}"\n' if setting.key else ""
    budget = f'budget = {{ level = {setting.limit}, per = "24h" }}\n' if setting.limit else ""
    return f"""
[[stream]]
name = "{setting.name}"
[stream.source]
url = "mqtt://source"
{_format_topics(setting)}
profile = "json"
value = "v"
{"" if setting.stamped else 'time = "t"'}
kind = "{kind_of(setting)}"
unit = "{"W" if power else "Wh"}"
{"hold" if power else "interval"} = "{ticks(setting.stands)}"
{f"modulus = {counter.modulus}" if counter.modulus else ""}
{f"dead_band = {counter.step}" if counter.step else ""}
{'every = "0s"' if counter.is_on_change else ""}
inflight = {setting.inflight}
max_meters = {setting.meters}
max_payload = "{PAYLOAD_MAX}B"
protocol = "{"3.1.1" if setting.version == 4 else "5"}"
{_format_parts(setting)}
[stream.window]
{_format_grid(setting, pace)}
clock = "{setting.clock}"
lateness = "{ticks(setting.lateness)}"
ahead = "{ticks(setting.ahead)}"
catch_up = "{ticks(setting.catch_up)}"
forget = "{ticks(setting.forget)}"
gap = {setting.gap}
range = [{low_w}, {setting.high_w}]
[stream.privacy]
level = 1
{_format_noise(setting)}
{_format_space(setting)}
{budget}
[stream.sink]
url = "mqtt://{setting.first_sink[0]}"
topic = "{setting.first_sink[1]}"
spread = "{ticks(setting.spread)}"
inflight = 5
{key}
{_format_crowd(setting, pace, keys)}
"""


def _format_topics(setting: Setting) -> str:
    """Return the topic of the readings, and the key `meter` or `phases` if a stream of phases needs it."""
    signs, has_parts = phases_of(setting)
    if has_parts:
        return f'topic = "meters/{PART_METER}/{signs[0][0]}/power"\nmeter = "{PART_METER}"'
    if signs:
        names = ", ".join(f'"{name}"' for name, _ in signs)
        return f'topic = "meters/{{meter}}/{{phase}}/power"\nphases = [{names}]'
    return 'topic = "meters/{meter}/power"'


def _format_parts(setting: Setting) -> str:
    signs, has_parts = phases_of(setting)
    parts = signs[1:] if has_parts else ()
    return "".join(
        f"""[[stream.source.part]]
topic = "meters/{PART_METER}/{name}/power"
sign = "{"-" if sign < 0 else "+"}"
"""
        for name, sign in parts
    )


def _group_path(setting: Setting, pace: Pace, keys: Path) -> Path:
    return keys / f"{group_of(setting, pace).name}.toml"


def _format_crowd(setting: Setting, pace: Pace, keys: Path) -> str:
    if not setting.crowd:
        return ""
    group = group_of(setting, pace)
    return f'crowd = {{ group = "{_group_path(setting, pace, keys)}", id = "{group.id.hex()}" }}\n'


def _format_moment(key: str, time_ms: int | None) -> str:
    return "" if time_ms is None else f"{key} = {iso_time(time_ms)}"


def _format_space(setting: Setting) -> str:
    return f"space = '{setting.space}'" if setting.space in _STATED_SPACES else ""


def _format_noise(setting: Setting) -> str:
    if setting.bound:
        return f'hide = "{setting.radius}Wh"\nquantum = 0.{10 * setting.bound:06d}'
    return f"radius = {setting.radius}\nquantum = {'1' if kind_of(setting) == 'power' else '0.5'}"


def _format_grid(setting: Setting, pace: Pace) -> str:
    table = (
        f'{{ bound = 0.{setting.bound:02d}, default = {DEFAULT_PRICE_U / 10**6}, topic = "{PRICE_TOPIC}" }}'
    )
    one_number = f"weights = {table}\n" if setting.bound else ""
    if setting.threshold:
        one_number = f"threshold = {setting.threshold}\n"
    if not setting.grid.startswith("1d"):
        parts = setting.grid.replace("^", "/").replace("~", "/").split("/")
        length, step = (format_duration(int(part) * pace.tick_ms) for part in parts)
        return f'length = "{length}"\n{one_number}' if one_number else f'length = "{length}"\nstep = "{step}"'
    zone = f'length = "1d"\ntimezone = "{ZONE.key}"\n'
    if "=" in setting.grid:
        band = f'{{ name = "day", days = "mon-fri", hours = ["{setting.grid[3:]}"] }}'
        return f'{zone}band = [{band}]\nrest = "night"\nholidays = [{HOLIDAYS}]'
    if "^" in setting.grid:
        return f'{zone}step = "{format_duration(int(setting.grid[3:]) * pace.tick_ms)}"'
    if ":" in setting.grid:
        return f"{zone}bands = [{', '.join(repr(band) for band in setting.grid[3:].split(','))}]"
    if one_number:
        return zone + one_number
    return f"{zone}blocks = {setting.grid.replace('~', '/').partition('/')[2] or 1}"
