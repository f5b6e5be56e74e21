"""The part of the generator that adds a stream of a crowd, and the operators' lists of keys."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from meteragent.crowd.group import ROLES
from simulators.simtest import schedule as s
from simulators.simtest.model.setting import Setting
from simulators.simtest.schedule import Configuration, Event

CROWDED = {"fast": 0.03, "slow": 0.15, "autumn": 0.15}
"""The share of the schedules with a stream of a crowd, by pace.

The share is of the schedules that have neither prices nor receivers. Without the extra `crowd`, it is 0.
"""
_GRIDS = {"fast": ["10/10", "20/20", "40/40"], "slow": ["5/5", "30/30"], "autumn": ["5/5", "30/30"]}


class Crowding:
    """The crowd of a schedule, with its own random number generator."""

    def __init__(self, random: Random, pace: str, end_ms: int) -> None:
        self._random = random
        self._pace = pace
        self._end_ms = end_ms

    def join(self, configurations: list[Configuration]) -> list[Configuration]:
        """Add a crowd's stream to most configurations; if the stream's windows change, so does its group."""
        first = self._draw_stream(configurations[0][0])
        crowded = [(*configurations[0], first)]
        for configuration in configurations[1:]:
            stream = self._draw_stream(configuration[0]) if self._random.random() < 0.4 else first
            crowded.append(configuration if self._random.random() < 0.1 else (*configuration, stream))
        return crowded

    def _draw_stream(self, setting: Setting) -> Setting:
        """Draw a stream of a crowd: `setting` with another name, clock, grid and deadline.

        It has neither a threshold nor a budget.
        """
        return replace(
            setting,
            name="street",
            clock="wall",
            grid=self._random.choice(_GRIDS[self._pace]),
            threshold=0,
            limit=0,
            crowd=self._random.choice([1, 5, 20]),
        )

    def draw_keys(self) -> Iterator[Event]:
        """Yield lists of keys; some are late, replaced, repeated, too old or forged, or cover few days."""
        for role in ROLES:
            at_ms, serial = self._random.randrange(0, 2500), 1
            while at_ms < self._end_ms:
                yield s.Keys(at_ms, role, serial, self._random.choice([1, 2, 12]))
                if self._random.random() < 0.2:
                    yield s.Keys(at_ms + 300, role, serial + 7, 12, 1)
                if self._random.random() < 0.2:
                    yield s.Keys(at_ms + 600, role, max(serial - 1, 1), 1)
                at_ms, serial = at_ms + self._random.randrange(1000, 6000), serial + 1
