"""Shrinking: find a smaller schedule that violates the same invariant, with simpler events and settings."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from simulators.invariant import InvariantViolation
from simulators.simtest.model.setting import Setting
from simulators.simtest.runs import run
from simulators.simtest.schedule import Configuration, Crash, End, Event, Network, Schedule

_PLAIN = {"down_ms": 0, "then": 0, "part": 0, "store": "", "forgets": 0, "shuffles": 0, "retain": 0, "qos": 1}
"""The simplest values of an event's fields."""


def invariant(plan: Schedule, folder: Path, *, has_twin: bool) -> str | None:
    """Run a schedule; return the invariant that it violates, or None if it violates none."""
    try:
        run(plan, folder, has_twin=has_twin)
    except InvariantViolation as violation:
        return violation.invariant
    return None


def shrink(
    plan: Schedule,
    folder: Path,
    *,
    has_twin: bool,
    runs: int = 1000,
) -> Schedule:
    """Return the smallest schedule found that violates the same invariant.

    The search ends early after `runs` runs. A schedule that violates no invariant is returned unchanged.
    """
    violated = invariant(plan, folder, has_twin=has_twin)
    steps = [plan]
    while violated is not None:
        step_count = len(steps)
        for candidate in _candidates(lambda: steps[-1]):
            if candidate == steps[-1]:
                continue
            if runs == 0:
                return steps[-1]
            runs -= 1
            if invariant(candidate, folder, has_twin=has_twin) == violated:
                steps.append(candidate)
        if len(steps) == step_count:
            break
    return steps[-1]


def _candidates(current: Callable[[], Schedule]) -> Iterator[Schedule]:
    """Yield smaller or simpler variants of the current schedule, which the caller may replace at any time."""
    yield from _remove_events(current)
    index = 0
    while index < len(current().events):
        for event in _simplify_event(current().events[index]):
            events = current().events
            yield replace(current(), events=(*events[:index], event, *events[index + 1 :]))
        index += 1
    yield from _simplify_settings(current)
    for field in fields(Network):
        plain: dict[str, Any] = {field.name: field.default}
        yield replace(current(), network=replace(current().network, **plain))
    last_ms = max((event.at_ms for event in current().events), default=0)
    yield replace(current(), end_ms=last_ms + 1)


def _remove_events(current: Callable[[], Schedule]) -> Iterator[Schedule]:
    """Yield schedules without half of the events, then without a quarter, … then without single events."""
    size = len(current().events) // 2
    while size:
        begin = 0
        while begin < len(current().events):
            events = current().events
            yield replace(current(), events=(*events[:begin], *events[begin + size :]))
            if current().events == events:
                begin += size
        size //= 2


def _simplify_event(event: Event) -> Iterator[Event]:
    values: dict[str, Any] = {field.name: getattr(event, field.name) for field in fields(event)}
    for name, value in _PLAIN.items():
        if name in values and values[name] != value:
            plain: dict[str, Any] = {name: value}
            yield replace(event, **plain)
    if isinstance(event, Crash) and event.where != "now":
        yield replace(event, where="now")


def _simplify_settings(current: Callable[[], Schedule]) -> Iterator[Schedule]:
    for number in range(len(current().configurations)):
        configuration = current().configurations[number]
        for stream in configuration[1:]:
            yield _replace_configuration(
                current(), number, tuple(setting for setting in configuration if setting is not stream)
            )
        for index in range(len(current().configurations[number])):
            for field in fields(Setting):
                settings = current().configurations[number]
                if index >= len(settings) or getattr(settings[index], field.name) == field.default:
                    continue
                defaults: dict[str, Any] = {field.name: field.default}
                yield _replace_configuration(
                    current(),
                    number,
                    (*settings[:index], replace(settings[index], **defaults), *settings[index + 1 :]),
                )
    last_number = max((event.then for event in current().events if isinstance(event, End)), default=0)
    yield replace(current(), configurations=current().configurations[: last_number + 1])


def _replace_configuration(plan: Schedule, number: int, configuration: Configuration) -> Schedule:
    configurations = plan.configurations
    return replace(
        plan, configurations=(*configurations[:number], configuration, *configurations[number + 1 :])
    )
