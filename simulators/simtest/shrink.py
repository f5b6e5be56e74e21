"""The smallest schedule that still breaks the same: fewer events, plainer ones, then plainer settings."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from simulators.invariant import InvariantViolation
from simulators.simtest.runs import run
from simulators.simtest.schedule import Configuration, Crash, End, Event, Network, Schedule
from simulators.simtest.setting import Setting

_PLAIN = {"down_ms": 0, "then": 0, "part": 0, "store": "", "forgets": 0, "shuffles": 0, "retain": 0, "qos": 1}
"""What an event has when nothing is special about it."""


def invariant(plan: Schedule, where: Path, *, twin: bool) -> str | None:
    """What a schedule breaks; None: nothing."""
    try:
        run(plan, where, twin=twin)
    except InvariantViolation as violation:
        return violation.invariant
    return None


def shrink(
    plan: Schedule,
    where: Path,
    *,
    twin: bool,
    runs: int = 1000,
) -> Schedule:
    """A schedule that breaks what this one does, and from which nothing more can be left out.

    Stops after so many `runs`. What breaks nothing is returned as it is.
    """
    right = invariant(plan, where, twin=twin)
    found = [plan]
    while right is not None:
        before = len(found)
        for smaller in _smaller(lambda: found[-1]):
            if smaller == found[-1]:
                continue
            if runs == 0:
                return found[-1]
            runs -= 1
            if invariant(smaller, where, twin=twin) == right:
                found.append(smaller)
        if len(found) == before:
            break
    return found[-1]


def _smaller(now: Callable[[], Schedule]) -> Iterator[Schedule]:
    """Schedules that are smaller than the present one, which may be another after each of them."""
    yield from _without(now)
    at = 0
    while at < len(now().events):
        for event in _plainer(now().events[at]):
            events = now().events
            yield replace(now(), events=(*events[:at], event, *events[at + 1 :]))
        at += 1
    yield from _plainer_settings(now)
    for field in fields(Network):
        plain: dict[str, Any] = {field.name: field.default}
        yield replace(now(), network=replace(now().network, **plain))
    last_ms = max((event.at_ms for event in now().events), default=0)
    yield replace(now(), end_ms=last_ms + 1)


def _without(now: Callable[[], Schedule]) -> Iterator[Schedule]:
    """Half of the events are left out, or a quarter, … or one."""
    size = len(now().events) // 2
    while size:
        at = 0
        while at < len(now().events):
            before = now().events
            yield replace(now(), events=(*before[:at], *before[at + size :]))
            if now().events == before:
                at += size
        size //= 2


def _plainer(event: Event) -> Iterator[Event]:
    known: dict[str, Any] = {field.name: getattr(event, field.name) for field in fields(event)}
    for name, value in _PLAIN.items():
        if name in known and known[name] != value:
            plain: dict[str, Any] = {name: value}
            yield replace(event, **plain)
    if isinstance(event, Crash) and event.where != "now":
        yield replace(event, where="now")


def _plainer_settings(now: Callable[[], Schedule]) -> Iterator[Schedule]:
    for which in range(len(now().configurations)):
        configuration = now().configurations[which]
        for one in configuration[1:]:
            yield _with(now(), which, tuple(other for other in configuration if other is not one))
        for at in range(len(now().configurations[which])):
            for field in fields(Setting):
                present = now().configurations[which]
                if at >= len(present) or getattr(present[at], field.name) == field.default:
                    continue
                usual: dict[str, Any] = {field.name: field.default}
                yield _with(now(), which, (*present[:at], replace(present[at], **usual), *present[at + 1 :]))
    used = max((event.then for event in now().events if isinstance(event, End)), default=0)
    yield replace(now(), configurations=now().configurations[: used + 1])


def _with(plan: Schedule, which: int, configuration: Configuration) -> Schedule:
    known = plan.configurations
    return replace(plan, configurations=(*known[:which], configuration, *known[which + 1 :]))
