"""The part of the generator that draws registers: meters send them, and most streams read them as such."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from meteragent.domain.units import MICRO
from simulators.simtest import schedule as s
from simulators.simtest.model.setting import Setting, kind_of
from simulators.simtest.schedule import Configuration, Event

ON_CHANGE_SHARE = 0.3
"""The share of the schedules with registers in which registers are sent on change."""


def count(
    seed: int, configurations: Sequence[Configuration], events: Sequence[Event]
) -> tuple[list[Configuration], list[Event]]:
    """Return the configurations, most streams of which read registers, and the events with registers."""
    random = Random(f"registers of {seed}")
    registers = [_with_registers(random, settings) for settings in configurations]
    rising = _accumulate(random, events)
    random = Random(f"counters of {seed}")
    modulus, step = random.choice([0, 0, 500, 4000, 60_000]), random.choice([0, 0, 1, 100, 1000])
    on_change = "!" * (Random(f"on change {seed}").random() < ON_CHANGE_SHARE)
    counters = [_with_counters(random, settings, modulus, step, on_change) for settings in registers]
    return counters, _count_off(rising, modulus, step)


def _with_registers(random: Random, configuration: Configuration) -> Configuration:
    """Let most streams read registers; each stream is drawn separately."""
    return tuple(
        replace(setting, kind=f"register{_phases(setting)}", gap=0)
        if setting.space != "above" and random.random() < 0.8
        else setting
        for setting in configuration
    )


def _with_counters(
    random: Random, configuration: Configuration, modulus: int, step: int, on_change: str
) -> Configuration:
    """Let most streams of registers state a modulus and a step, in Wh."""
    return tuple(
        replace(
            setting,
            kind=f"register:{modulus * (random.random() < 0.8)}/{step * (random.random() < 0.8)}"
            + on_change
            + _phases(setting),
        )
        if kind_of(setting) == "register"
        else setting
        for setting in configuration
    )


def _phases(setting: Setting) -> str:
    return "".join(setting.kind.partition("@")[1:])


def _count_off(events: Sequence[Event], modulus: int, step: int) -> list[Event]:
    """Return the events with readings rounded down to a step, modulo `modulus`, both in Wh."""
    return [
        replace(event, value_u=_counted_u(event.value_u, modulus * MICRO, step * MICRO))
        if isinstance(event, s.Read)
        else event
        for event in events
    ]


def _counted_u(value_u: int, modulus_u: int, step_u: int) -> int:
    value_u = value_u // step_u * step_u if step_u else value_u
    return value_u % modulus_u if modulus_u else value_u


def _accumulate(random: Random, events: Sequence[Event]) -> list[Event]:
    """Return the events, with readings of registers at different speeds, with resets, jumps and glitches."""
    readings = [event for event in events if isinstance(event, s.Read)]
    former_u = {_place(event): event.value_u for event in reversed(readings)}
    registers_u, register_u = dict[tuple[int, str, int], int](), 0
    for place in sorted(former_u):
        step_u = random.randrange(random.choice([2, 10**6, 10**9]))
        register_u = 0 if random.random() < 0.03 else register_u + step_u
        registers_u[place] = register_u
    for place, value_u in registers_u.items():  # wrong readings, and jumps that all later readings keep
        if (chance := random.random()) < 0.08:
            registers_u[place] = random.choice([0, 0, value_u // 2, value_u + 10**9, 10**15])
        elif chance < 0.09:
            registers_u |= {later: u + 10**14 for later, u in registers_u.items() if later >= place}
    return [
        replace(event, value_u=registers_u[place] + event.value_u - former_u[place])
        if isinstance(event, s.Read) and (place := _place(event))
        else event
        for event in events
    ]


def _place(event: s.Read) -> tuple[int, str, int]:
    return event.meter, event.phase, event.time_ms
