"""A device that sends what its own counter says, and the parts of its messages.

A writer makes the messages of a moment from the counter in Wh, the present power in W and the time. Counters
that are coarser than 1 Wh, such as an ERT meter's, show whole steps.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from meteragent.domain.grid import iso_time

Messages = list[tuple[str, bytes]]


@dataclass(frozen=True)
class Moment:
    """What a device knows at a time: its counters in Wh, its power, and when that is."""

    time_ms: int
    drawn_wh: int
    fed_wh: int
    power_w: int

    @property
    def time(self) -> str:
        """The time in RFC 3339."""
        return iso_time(self.time_ms)


@dataclass(frozen=True)
class Device:
    """A device of a family: how a stream reads it, and how it writes its messages.

    `step_wh` is the step of its counter. `keys` are further lines of its source. A stream of a power without
    times (`uses_arrival`) does not wait for late readings: a power that is sent again has a new time.
    """

    profile: str
    topic: str
    value: str
    write: Callable[[Moment], Messages]
    step_wh: Fraction = Fraction(1)
    kind: str = "register"
    keys: Mapping[str, Any] = field(default_factory=dict)
    uses_arrival: bool = False

    @property
    def name(self) -> str:
        """The name of its stream."""
        words = [self.profile, self.value, *(str(value) for value in self.keys.values())]
        return "-".join("".join(c if c.isalnum() else "-" for c in word) for word in words).strip("-")[:60]

    def counter_wh(self, wh: int) -> Fraction:
        """Return what the counter shows."""
        return wh // self.step_wh * self.step_wh

    def toml(self, url: str) -> str:
        """Return a stream that hides nothing, in quarters of a day that stay open for readings with times."""
        unit = "W" if self.kind == "power" else "Wh"
        keys = {"topic": self.topic, "meter": "home", "profile": self.profile, "value": self.value}
        keys |= {"kind": self.kind, "unit": unit, **self.keys}
        if self.kind == "power":
            keys["hold"] = "2h"
        source = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
        return f"""
[[stream]]
name = "{self.name}"
[stream.source]
url = "{url}"
{source}
[stream.window]
length = "6h"
lateness = "{"0s" if self.uses_arrival else "2h"}"
catch_up = "1s"
range = [-50000, 50000]
[stream.privacy]
level = 100000
radius = 10
quantum = 0.001
accept = ["coarse_register", "sparse_readings"]
[stream.sink]
url = "{url}"
topic = "private/{self.name}/{{meter}}"
"""


def document(topic: str, **fields: Any) -> Messages:
    """Write a message whose payload is an object."""
    return [(topic, json.dumps(fields).encode())]


def kwh(wh: int) -> str:
    """Return an energy in kWh with three decimals."""
    return f"{wh // 1000}.{wh % 1000:03d}"


def bare(topic: str, *, is_kilo: bool = False) -> Callable[[Moment], Messages]:
    """Make the writer of a bare number of the counter."""

    def write(moment: Moment) -> Messages:
        """Write the counter in Wh or kWh."""
        return [(topic, (kwh(moment.drawn_wh) if is_kilo else str(moment.drawn_wh)).encode())]

    return write


def bare_power(topic: str) -> Callable[[Moment], Messages]:
    """Make the writer of a bare number of the power, which is negative while the home feeds in."""
    return lambda moment: [(topic, str(moment.power_w).encode())]
