"""What happens to a world and when: a list of events that can be read, written as text and read back.

    at 1.250 s: read meter=1 time_ms=1190 value_u=250000000 qos=1 retain=0

A schedule's first lines say its seed (of noise, torn files and orders of redelivery), its pace, its network
and its configurations, of which the agent starts with the first; then comes an event a line.
"""

from dataclasses import dataclass, fields
from typing import Any

from simulators.simtest.setting import Setting

Configuration = tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens `at_ms` of the loop's time."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Read(Event):
    """A reading reaches the source's broker; its time is in wall-clock ms after the world's beginning."""

    meter: int
    time_ms: int
    value_u: int
    qos: int = 1
    retain: int = 0


@dataclass(frozen=True, slots=True)
class Junk(Event):
    """A message that is no reading reaches the source's broker: one of `brokers.JUNK`."""

    meter: int
    which: int


@dataclass(frozen=True, slots=True)
class Drop(Event):
    """A broker is away for a while; it may forget its sessions, or send again in another order.

    `side` is source or sink.
    """

    side: str
    down_ms: int
    forgets: int = 0
    shuffles: int = 0


@dataclass(frozen=True, slots=True)
class Stall(Event):
    """The sink's broker confirms nothing for a while, and the connection is given up."""

    down_ms: int


@dataclass(frozen=True, slots=True)
class Refuse(Event):
    """The sink's broker refuses the next publication."""


@dataclass(frozen=True, slots=True)
class Clock(Event):
    """The agent's wall clock is set, forwards or backwards."""

    jump_ms: int


@dataclass(frozen=True, slots=True)
class Resume(Event):
    """The machine is resumed from a snapshot of this moment, and its synchronised wall clock set right.

    What another life of the agent released since the snapshot is all that its schedule says.
    """

    jump_ms: int


@dataclass(frozen=True, slots=True)
class Slow(Event):
    """From now on a commit takes so long."""

    takes_ms: int


@dataclass(frozen=True, slots=True)
class Full(Event):
    """For a while the store has room for so many bytes only."""

    room_bytes: int
    lasts_ms: int


@dataclass(frozen=True, slots=True)
class End(Event):
    """Something that ends the process: it starts again `down_ms` later with the configuration `then`."""

    down_ms: int
    then: int


@dataclass(frozen=True, slots=True)
class Stop(End):
    """SIGTERM."""


@dataclass(frozen=True, slots=True)
class Fail(End):
    """The device fails in the next commit, after so many steps of SQLite's."""

    steps: int


@dataclass(frozen=True, slots=True)
class Crash(End):
    """The process or the power ends the next time that it gets to `where` (`trap.PLACES`).

    `part` (thousandths) is how far that has got; `store` is what happens to the file meanwhile: nothing,
    `damaged` or `restored` (a copy from before comes back).
    """

    where: str
    part: int = 0
    store: str = ""


@dataclass(frozen=True, slots=True)
class Network:
    """What the network and the brokers are like; the defaults are harmless.

    pieces       so many of 100 writes arrive in pieces
    late_ms      the sink's broker confirms up to so late, in any order
    keepalive_s  what MQTT 5 brokers ask of their clients; 0: nothing
    maximum      so many unanswered publications the sink's broker takes (MQTT 5); 0: any
    refuses      so many of 100 connections are refused
    silent       of so many of 100 outages nobody is told, where there is a keep-alive
    level        the newest version of MQTT that the sink's broker speaks: 5, or 4 for 3.1.1
    """

    pieces: int = 0
    late_ms: int = 0
    keepalive_s: int = 0
    maximum: int = 0
    refuses: int = 0
    silent: int = 0
    level: int = 5


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything that a world depends on."""

    seed: int
    pace: str
    configurations: tuple[Configuration, ...]
    events: tuple[Event, ...]
    end_ms: int
    network: Network = Network()


KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind
    for kind in (Read, Junk, Drop, Stall, Refuse, Clock, Resume, Slow, Full, Stop, Fail, Crash)
}


def write(schedule: Schedule) -> str:
    """The schedule as text."""
    lines = [f"seed={schedule.seed} pace={schedule.pace} end_ms={schedule.end_ms}"]
    if schedule.network != Network():
        lines.append(f"network: {_pairs(schedule.network, Network())}")
    for at, configuration in enumerate(schedule.configurations):
        lines += [f"configuration {at}: {_pairs(one, Setting())}" for one in configuration]
    for event in schedule.events:
        name = type(event).__name__.lower()
        lines.append(f"at {event.at_ms / 1000:.3f} s: {name} {_pairs(event)}".rstrip())
    return "\n".join(lines) + "\n"


def read(text: str) -> Schedule:
    """The inverse of `write`; raises ValueError for a line that it does not know."""
    configurations: dict[int, list[Setting]] = {}
    events: list[Event] = []
    head: dict[str, str] = {}
    network = Network()
    for line in filter(None, map(str.strip, text.splitlines())):
        try:
            if line.startswith("network: "):
                network = _made(Network, line.removeprefix("network: "))
            else:
                _read_line(line, head, configurations, events)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a line of a schedule: {line!r}") from error
    found = tuple(tuple(configurations[at]) for at in sorted(configurations))
    return Schedule(int(head["seed"]), head["pace"], found, tuple(events), int(head["end_ms"]), network)


def _read_line(
    line: str, head: dict[str, str], configurations: dict[int, list[Setting]], events: list[Event]
) -> None:
    place, colon, rest = line.partition(": ")
    if not colon and not line.endswith(":"):
        head |= dict(pair.split("=") for pair in line.split())
    elif place.startswith("configuration"):
        at = int(place.rstrip(":").split()[1])
        configurations.setdefault(at, []).append(_made(Setting, rest))
    else:
        name, _, pairs = rest.partition(" ")
        at_ms = round(float(place.split()[1]) * 1000)
        events.append(_made(KINDS[name], pairs, at_ms=at_ms))


def _pairs(one: Any, usual: Any = None) -> str:
    """The fields as name=value, but for those that are as usual."""
    pairs = [(field.name, getattr(one, field.name)) for field in fields(one) if field.name != "at_ms"]
    return " ".join(
        f"{name}={value}" for name, value in pairs if usual is None or value != getattr(usual, name)
    )


def _made(kind: type[Any], pairs: str, **known: int) -> Any:
    types = {field.name: field.type for field in fields(kind)}
    for pair in pairs.split():
        name, _, value = pair.partition("=")
        known[name] = int(value) if types[name] in (int, "int") else value  # type: ignore[assignment]
    return kind(**known)
