"""The settings of a stream in the simulation test; `configuration` writes them as the agent's configuration.

All durations are counted in ticks, so that one schedule of faults fits windows of seconds as well as local
calendar days. A tick is a tenth of a second of the loop's time, and `Pace.tick_ms` of wall-clock time.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple
from zoneinfo import ZoneInfo

from meteragent.domain.units import MINUTE_MS
from simulators.simtest.model.clock_text import parse_time
from simulators.simtest.model.receivers import Receiver

PART_METER = "m1"
"""The meter of a stream whose phases are parts, each with a topic of its own."""

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


ZONE = ZoneInfo("Europe/Amsterdam")
"""The time zone of local days."""

HOLIDAYS = "2026-03-30, 2026-10-26"
"""The Mondays after the clock changes."""

DEFAULT_PRICE_U = 70_000
"""The price of a quarter hour for which none has arrived, in millionths of EUR per kWh."""

GROUP_QUANTUM_U, GROUP_HIDE_WH = 500_000, 110
"""One quantum of a group's totals, in millionths of Wh, and the energy that they hide."""

PACES = {
    "fast": Pace(100, parse_time("2026-03-02T11:59:50Z")),
    "minutes": Pace(MINUTE_MS // 10, parse_time("2026-03-02T11:59:00Z")),  # for receivers and crowds
    "homes": Pace(MINUTE_MS, parse_time("2026-01-04T23:50:00Z")),  # just before a Monday
    "slow": Pace(12 * MINUTE_MS, parse_time("2026-03-28T17:00:00Z")),  # just before a day of 23 hours
    "autumn": Pace(12 * MINUTE_MS, parse_time("2026-10-24T18:00:00Z")),  # just before a day of 25 hours
}


class Counter(NamedTuple):
    """What a configuration states about a register, in Wh: its modulus and its step; 0 if not stated.

    `is_on_change` says that the register is sent on change.
    """

    modulus: int
    step: int
    is_on_change: bool


class Phases(NamedTuple):
    """The phases that are summed, if any, each with its sign, and whether they are parts."""

    signs: tuple[tuple[str, int], ...]
    has_parts: bool


@dataclass(frozen=True, slots=True)
class Setting:
    """One stream. Durations are in ticks; `grid` is length/step in ticks, or a grid of local days.

    A grid of local days is `1d`, `1d/N` with N equal slots, `1d:bands` with hours of the day, or `1d=hours`
    with energies in two bands: these hours on Mondays to Fridays except `HOLIDAYS`, and the rest. With `~`
    instead of `/`, the slots are blocks of a curve. With `^`, a peak is released, and the number after `^` is
    the length of its parts in ticks. `key` is the number of the pseudonym key (0: the meter's own name is
    sent), and `limit` a budget in windows per day (0: none). With `bound`, each window is an amount at prices
    from a topic, each at most `bound` hundredths, and `radius` is the hidden energy in Wh. With `threshold`,
    in W, each window is the energy above that power. `stands` is the hold of a power reading, or the interval
    of energies. With `stamped`, readings have no times of their own. `version` is the version of MQTT at the
    source. `receivers`, separated by commas, share the stream (`receivers.Receiver`). With `crowd`, the
    stream is part of a group whose deadline is `crowd` ticks after the latest possible report.
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

    @property
    def space(self) -> str:
        """The kind of window, as configurations and descriptors name it."""
        if self.crowd:
            return "share"
        for sign, space in {"^": "peak", ":": "profile", "=": "bands"}.items():
            if sign in self.grid:
                return space
        if self.bound or self.threshold:
            return "weighted" if self.bound else "above"
        return "curve" if "~" in self.grid else "linf"

    @property
    def high_w(self) -> int:
        """The upper limit of the range of readings, in W."""
        return {"power": 20_000, "interval_energy": 10**8, "register": 10**6}[kind_of(self)]

    def group_slot_s(self, pace: Pace) -> int:
        """Return the length of the slots of the group whose total includes the stream."""
        return int(self.grid.split("/")[0]) * pace.tick_ms // 1000

    def group_deadline_s(self, pace: Pace) -> int:
        """Return how long after a slot's end the group's reports must have been sent."""
        deadline = self.lateness + self.spread + self.catch_up + self.crowd
        return deadline * pace.tick_ms // 1000

    @property
    def is_received(self) -> bool:
        """Whether anybody may get the stream: its own sink, or a receiver that is not paused."""
        return not self.receivers or any(not receiver.is_paused for receiver in self.peers)

    @property
    def peers(self) -> list[Receiver]:
        """The receivers that share the stream."""
        return [Receiver.parse(text) for text in self.receivers.split(",") if text]

    @property
    def first_sink(self) -> tuple[str, str]:
        """The broker and the topic of the sink or, if the stream has none, of its first receiver."""
        receiver = next(iter(self.peers), None)
        return ("sink", self.sink_topic) if receiver is None else (receiver.broker, receiver.sink_topic)


def kind_of(setting: Setting) -> str:
    """Return what a stream's readings are: `power`, `interval_energy` or `register`."""
    return re.split("[:@]", setting.kind)[0]


def counter_of(setting: Setting) -> Counter:
    """Return what is stated of a register whose kind is `register:MODULUS/STEP`, perhaps with phases.

    If the step ends with `!`, each change is sent.
    """
    modulus, _, step = setting.kind.partition("@")[0].partition(":")[2].partition("/")
    return Counter(int(modulus or 0), int(step.removesuffix("!") or 0), step.endswith("!"))


def phases_of(setting: Setting) -> Phases:
    """Return the phases of a stream whose kind ends with `@` and their names, separated by commas.

    If a name begins with `-`, the phase is subtracted, and all phases are parts with topics of their own.
    """
    names = filter(None, setting.kind.partition("@")[2].split(","))
    signs = tuple((name.removeprefix("-"), -1 if name.startswith("-") else 1) for name in names)
    return Phases(signs, has_parts=any(sign < 0 for _, sign in signs))


def reads(setting: Setting, meter: str, phase: str) -> bool:
    """Return whether a stream reads the topic of a meter's phase or, if `phase` is empty, of the meter."""
    signs, has_parts = phases_of(setting)
    is_named = phase in dict(signs) if signs else not phase
    return is_named and (meter == PART_METER or not has_parts)
