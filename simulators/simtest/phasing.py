"""The part of the generator that draws phases: meters send each of them, and streams sum them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random

from simulators.simtest import schedule as s
from simulators.simtest.schedule import Configuration, Event

_PHASES = ("L1,L2", "L1,L2,L3", "L1,-L2", "L1,-L2,L3", "L2")
_AT_ONCE_SHARE = 0.6
"""The share of a meter's readings that become readings of all phases; the others become one of a phase."""


class Phasing:
    """The phases of a schedule, with their own random number generator."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._phases = random.choice(_PHASES)
        self._names = self._phases.replace("-", "").split(",")

    def divide(self, configurations: list[Configuration]) -> list[Configuration]:
        """Let most streams sum phases; energies of intervals become powers."""
        return [
            tuple(
                replace(setting, kind=f"power@{self._draw_phases()}")
                if self._random.random() < 0.9
                else setting
                for setting in configuration
            )
            for configuration in configurations
        ]

    def _draw_phases(self) -> str:
        return self._phases if self._random.random() < 0.9 else self._random.choice(_PHASES)

    def divide_events(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield, for each reading of a meter, readings of all phases, some ms apart, or a reading of one."""
        for event in events:
            match event:
                case s.Read():
                    is_whole = self._random.random() < _AT_ONCE_SHARE
                    for name in self._names if is_whole else [self._random.choice(self._names)]:
                        yield self._divide(event, name)
                case s.Junk():
                    yield replace(event, phase=self._random.choice(self._names))
                case _:
                    yield event

    def _divide(self, event: s.Read, phase: str) -> Event:
        apart_ms = self._random.choice([0, 0, 0, 3, 150])
        sent_ms = self._random.choice([0, 0, apart_ms])
        value_u = event.value_u * self._random.choice([0, 1, 1, 3]) // 3
        time_ms = event.time_ms + sent_ms
        return replace(event, at_ms=event.at_ms + apart_ms, time_ms=time_ms, value_u=value_u, phase=phase)
