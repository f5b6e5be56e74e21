"""The output of `generate`: the series and the events of simulated homes, as tables, files and messages."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from meteragent.domain.units import DAY_MS
from simulators.homes.fleet import Day, Events, Fleet
from simulators.homes.meter import Meter
from simulators.homes.region import Region
from simulators.homes.signature import DAY_0, DAY_S
from simulators.traces.trace import writer
from simulators.wire import connect, publish

_DAY_0_MS = (DAY_0 - date(1970, 1, 1)).days * DAY_MS
_READINGS_AT_ONCE = 1 << 22
"""The largest number of a day's readings kept in memory; if a day has more, homes are simulated in parts."""

_TIME = pa.timestamp("ms", "UTC")
SERIES = pa.schema([("home", pa.uint32()), ("time", _TIME), ("watts", pa.float32())])
EVENTS = pa.schema(
    [
        ("home", pa.uint32()),
        ("appliance", pa.string()),
        ("start", _TIME),
        ("end", _TIME),
        ("watts", pa.float32()),
        ("channel", pa.int8()),
    ]
)


class Files(NamedTuple):
    """The files of the series and the events."""

    series: Path
    events: Path

    @classmethod
    def at(cls, target: Path) -> "Files":
        """Return a .parquet or .csv file and the file of its events, or the two files in a folder.

        Raises ValueError if `target` has any other ending.
        """
        if target.suffix in (".parquet", ".csv"):
            return cls(target, target.with_name(f"{target.stem}.events{target.suffix}"))
        if target.suffix:
            raise ValueError(f"{target} is neither FILE.parquet nor FILE.csv nor a folder")
        return cls(target / "series.parquet", target / "events.parquet")


@dataclass(frozen=True, slots=True)
class Plan:
    """Homes 0 .. `homes` - 1 on `days` days from day `first` on, in steps of `step_s` seconds.

    With a `region`, they have what the region's homes have today (`Fleet.of_today`).
    """

    seed: int
    homes: int
    days: int
    step_s: int
    first: int = 0
    resolution_w: float = 1.0
    region: Region | None = None

    def parts(self, homes: Sequence[int] | None = None) -> Iterator[Fleet]:
        """Yield all homes, or the homes in `homes` if given, in fleets that fit in memory."""
        selection = range(self.homes) if homes is None else homes
        at_once = max(1, _READINGS_AT_ONCE * self.step_s // DAY_S)
        for begin in range(0, len(selection), at_once):
            yield Fleet.of_today(self.seed, selection[begin : begin + at_once], self.region)

    def write(self, files: Files) -> tuple[int, int]:
        """Write the files; return the number of readings and the number of events.

        Raises ValueError if the step does not divide a day, the seed is out of range or the resolution is not
        positive, and OSError if writing fails.
        """
        readings = events = 0
        files.series.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            series, table = (
                stack.enter_context(writer(path, schema))
                for path, schema in zip(files, (SERIES, EVENTS), strict=True)
            )
            bar = stack.enter_context(tqdm(total=self.homes * self.days, unit=" home-days", disable=None))
            for fleet in self.parts():
                for day in fleet.days(self.first, self.days, self.step_s):
                    series.write_table(self.series(fleet, day))
                    table.write_table(event_table(day.events))
                    readings, events = readings + day.watts.size, events + len(day.events)
                    bar.update(len(fleet.homes))
        return readings, events

    def messages(self, topic: str) -> Iterator[tuple[str, bytes]]:
        """Yield all readings as (topic, JSON payload), in order for each meter; `{meter}` becomes m0, m1 ..

        The last message of each meter repeats the meter's last value, to show how long that value lasted.
        """
        for fleet in self.parts():
            topics = [topic.replace("{meter}", f"m{home}") for home in fleet.homes]
            for day in fleet.days(self.first, self.days, self.step_s):
                start_s = _DAY_0_MS // 1000 + day.day * DAY_S
                power_w = Meter(self.resolution_w).shown_w(day.watts)
                for index, column in enumerate(power_w.T):
                    yield from _readings(topics, start_s + index * self.step_s, column.tolist())
            yield from _readings(topics, start_s + DAY_S, power_w[:, -1].tolist())

    async def send(self, url: str, topic: str) -> int:
        """Publish all readings at QoS 1; return their number once the broker has acknowledged all of them.

        Raises MqttError if the broker cannot be reached or the connection is lost.
        """
        readings = self.homes * (self.days * DAY_S // self.step_s + 1)

        async def messages() -> AsyncIterator[tuple[str, bytes]]:
            """Yield the messages one by one."""
            for message in self.messages(topic):
                yield message

        async with connect(url) as client:
            with tqdm(total=readings, unit=" readings", disable=None) as bar:
                await publish(client, messages(), bar.update)
        return readings

    def series(self, fleet: Fleet, day: Day) -> Any:
        """Return a day of a fleet, with power as the meters show it, as an Arrow table."""
        homes, steps = day.watts.shape
        times_ms = _DAY_0_MS + day.day * DAY_MS + 1000 * self.step_s * np.arange(steps)
        columns = [
            np.repeat(np.array(fleet.homes, np.uint32), steps),
            np.tile(times_ms, homes),
            Meter(self.resolution_w).shown_w(day.watts).astype(np.float32).ravel(),
        ]
        return _table(columns, SERIES)


def _readings(topics: list[str], time_s: int, watts: list[float]) -> Iterator[tuple[str, bytes]]:
    for topic, power in zip(topics, watts, strict=True):
        yield topic, f'{{"t": {time_s}, "power": {power!r}}}'.encode()


def event_table(events: Events) -> Any:
    """Return events as an Arrow table; the channel is null except for viewings of a television."""
    channel = pa.array(events.channel.astype(np.int8), mask=events.channel < 0)
    names = pa.array(events.names).take(pa.array(events.appliance))
    start, end = (_DAY_0_MS + 1000 * seconds for seconds in (events.start_s, events.end_s))
    columns = [events.home.astype(np.uint32), names, start, end, events.watts.astype(np.float32), channel]
    return _table(columns, EVENTS)


def _table(columns: list[Any], schema: Any) -> Any:
    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    return pa.table(arrays, schema=schema)
