"""Schedules: everything that a world depends on, as a list of events that can be written as text.

    at 1.250 s: read meter=1 time_ms=1190 value_u=250000000 qos=1 retain=0

The first lines give the seed of everything random in the world, the pace, the end, the network and the
configurations; the agent starts with the first configuration. Each of the other lines is an event.
"""

from dataclasses import dataclass, fields
from typing import Any

from simulators.simtest.model.setting import Setting

Configuration = tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """An event at the time `at_ms` of the loop."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Read(Event):
    """A reading that reaches the source's broker.

    `time_ms` is the time that the reading states, in wall-clock ms since the beginning of the world;
    `value_u` is its value in millionths of the unit. If `phase` is empty, the reading is of the meter itself.
    """

    meter: int
    time_ms: int
    value_u: int
    qos: int = 1
    retain: int = 0
    phase: str = ""


@dataclass(frozen=True, slots=True)
class Junk(Event):
    """A message that is not a reading: entry `kind` of `brokers.JUNK`, modulo the list's length."""

    meter: int
    kind: int
    phase: str = ""


@dataclass(frozen=True, slots=True)
class Price(Event):
    """A message with `rows` consecutive prices, each a thousandth of the unit above the price before it.

    The first price is for `from_ms` to `to_ms`, in wall-clock ms since the beginning of the world; all prices
    apply for the same length of time.
    """

    from_ms: int
    to_ms: int
    price_u: int
    rows: int = 1
    retain: int = 0


@dataclass(frozen=True, slots=True)
class PriceJunk(Event):
    """A message without prices on a price topic: entry `kind` of `brokers.PRICE_JUNK`, modulo its length."""

    kind: int


@dataclass(frozen=True, slots=True)
class Keys(Event):
    """A list of keys that an operator (`role`) of each group publishes: its serial, and its number of days.

    A forged list is signed by the other operator.
    """

    role: str
    serial: int
    days: int
    forged: int = 0


@dataclass(frozen=True, slots=True)
class Drop(Event):
    """An outage of a broker: of the source, the sink, or receivers (`side`: `source`, `sink`, `outside`).

    The source's broker may forget its sessions (`forgets`), or only the last acknowledgements (`forgets=2`),
    or redeliver in another order (`shuffles`); a sink's broker that forgets has lost what it had retained.
    """

    side: str
    down_ms: int
    forgets: int = 0
    shuffles: int = 0


@dataclass(frozen=True, slots=True)
class Stall(Event):
    """A stall of the sink's broker, which confirms nothing for `down_ms` and then loses all connections."""

    down_ms: int


@dataclass(frozen=True, slots=True)
class Refuse(Event):
    """A refusal of the next publication that the sink's broker answers."""


@dataclass(frozen=True, slots=True)
class Foreign(Event):
    """Another store's retained descriptor, for `lasts_ms`, on a receiver's topic of a meter.

    It does not appear on a topic on which the agent's store releases. In a schedule with such an event, the
    agent listens for other stores.
    """

    topic: str
    lasts_ms: int


@dataclass(frozen=True, slots=True)
class Act(Event):
    """A person's action on a receiver with `meteragent receivers`: `verb` is pause, resume or end."""

    verb: str
    name: str


@dataclass(frozen=True, slots=True)
class Clock(Event):
    """A step of the agent's wall clock, forwards or backwards."""

    jump_ms: int


@dataclass(frozen=True, slots=True)
class Resume(Event):
    """A resumption of the machine from a snapshot of this moment, after which its wall clock is corrected.

    Meanwhile, another copy of the agent may have released everything in the public schedule.
    """

    jump_ms: int


@dataclass(frozen=True, slots=True)
class Slow(Event):
    """A change in the disk's speed: from now on, a commit and its erasure take `takes_ms` each."""

    takes_ms: int


@dataclass(frozen=True, slots=True)
class Hesitate(Event):
    """A change in the scheduling: from now on, each call of the store waits for up to `most_ms` more."""

    most_ms: int


@dataclass(frozen=True, slots=True)
class Second(Event):
    """A start of a second agent on the same store, which must be refused and change nothing."""


@dataclass(frozen=True, slots=True)
class Full(Event):
    """A shortage of space: for `lasts_ms`, the whole store may take at most `room_bytes`."""

    room_bytes: int
    lasts_ms: int


@dataclass(frozen=True, slots=True)
class End(Event):
    """An end of the process; the next process starts `down_ms` later with configuration number `then`."""

    down_ms: int
    then: int


@dataclass(frozen=True, slots=True)
class Stop(End):
    """An end by SIGTERM, which is orderly; further `signals`, each `apart_ms` later, cut it short."""

    signals: int = 1
    apart_ms: int = 0


@dataclass(frozen=True, slots=True)
class Fail(End):
    """A failure of the device in the next commit or the erasure that follows, after `steps` steps of SQLite.

    With `in_call`, the device fails in the next call of the store that is not a commit; most such calls read.
    If SQLite takes fewer steps, the device does not fail.
    """

    steps: int
    in_call: int = 0


@dataclass(frozen=True, slots=True)
class Crash(End):
    """A crash or power cut when the process next reaches `where` (see `disk`).

    `part` is the progress at that place, in thousandths. `store` says what then happens to the store's file:
    nothing (if empty), damage (`damaged`), one flipped bit (`flipped`), or replacement by an earlier copy
    (`restored`).
    """

    where: str
    part: int = 0
    store: str = ""


@dataclass(frozen=True, slots=True)
class Announce(Event):
    """A descriptor that reaches a collector's broker: terms number `terms` of a meter.

    `flaw` names what is wrong with it, if anything (`collect.judge`).
    """

    meter: int
    terms: int
    flaw: str = ""


@dataclass(frozen=True, slots=True)
class Record(Event):
    """A record that reaches a collector's broker: a value in quanta for a meter's slot under its terms."""

    meter: int
    slot: int
    quanta: int
    terms: int = 0
    flaw: str = ""


@dataclass(frozen=True, slots=True)
class Trouble(Event):
    """A trouble of a collector's tables.

    fail     the next statement fails, and the connection is lost
    lose     the next transaction is committed, but its answer is lost with the connection
    hang     the next statement has no answer for a minute
    refuse   there are no connections for `lasts_ms`
    drop     a trigger drops every row for `lasts_ms`
    """

    how: str
    lasts_ms: int = 0


@dataclass(frozen=True, slots=True)
class Report(Event):
    """A home's report of a slot to a crowd's leader; the slot begins with the home's first report of it."""

    home: int
    slot: int


@dataclass(frozen=True, slots=True)
class Step(Event):
    """A step of the wall clock of one operator (0: leader, 1: helper)."""

    operator: int
    jump_ms: int


@dataclass(frozen=True, slots=True)
class Network:
    """Properties of the network and the brokers; the defaults are harmless.

    pieces       percentage of writes that arrive in pieces
    late_ms      longest delay of a broker's confirmations, which arrive in any order
    keepalive_s  keep-alive that MQTT 5 brokers impose on their clients; 0: none
    maximum      unanswered publications that a broker accepts at once (MQTT 5); 0: any number
    refuses      percentage of connections that are refused
    silent       percentage of outages, with a keep-alive, in which neither end learns of the loss
    level        newest version of MQTT at the brokers of sink and receivers: 5, or 4 for 3.1.1
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
    """Everything that a world depends on; for a service other than the agent, `pace` begins with its name."""

    seed: int
    pace: str
    configurations: tuple[Configuration, ...]
    events: tuple[Event, ...]
    end_ms: int
    network: Network = Network()


KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind
    for kind in (
        Read,
        Junk,
        Price,
        PriceJunk,
        Keys,
        Drop,
        Stall,
        Refuse,
        Foreign,
        Act,
        Clock,
        Resume,
        Slow,
        Hesitate,
        Second,
        Full,
        Stop,
        Fail,
        Crash,
        Announce,
        Record,
        Trouble,
        Report,
        Step,
    )
}


def write(schedule: Schedule) -> str:
    """Format a schedule as text."""
    lines = [f"seed={schedule.seed} pace={schedule.pace} end_ms={schedule.end_ms}"]
    if schedule.network != Network():
        lines.append(f"network: {_format_fields(schedule.network, Network())}")
    for index, configuration in enumerate(schedule.configurations):
        lines += [f"configuration {index}: {_format_fields(stream, Setting())}" for stream in configuration]
    for event in schedule.events:
        name = type(event).__name__.lower()
        lines.append(f"at {event.at_ms / 1000:.3f} s: {name} {_format_fields(event)}".rstrip())
    return "\n".join(lines) + "\n"


def read(text: str) -> Schedule:
    """Parse the text that `write` returns.

    Raises ValueError if a line is not part of a schedule, and KeyError if the seed, pace or end is missing.
    """
    configurations: dict[int, list[Setting]] = {}
    events: list[Event] = []
    head: dict[str, str] = {}
    network = Network()
    for line in filter(None, map(str.strip, text.splitlines())):
        try:
            if line.startswith("network: "):
                network = _parse_fields(Network, line.removeprefix("network: "))
            else:
                _parse_line(line, head, configurations, events)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a line of a schedule: {line!r}") from error
    ordered = tuple(tuple(configurations[index]) for index in sorted(configurations))
    return Schedule(int(head["seed"]), head["pace"], ordered, tuple(events), int(head["end_ms"]), network)


def _parse_line(
    line: str, head: dict[str, str], configurations: dict[int, list[Setting]], events: list[Event]
) -> None:
    label, colon, body = line.partition(": ")
    if not colon and not line.endswith(":"):
        head |= dict(pair.split("=") for pair in line.split())
    elif label.startswith("configuration"):
        index = int(label.rstrip(":").split()[1])
        configurations.setdefault(index, []).append(_parse_fields(Setting, body))
    else:
        name, _, pairs = body.partition(" ")
        at_ms = round(float(label.split()[1]) * 1000)
        events.append(_parse_fields(KINDS[name], pairs, at_ms=at_ms))


def _format_fields(record: Any, defaults: Any = None) -> str:
    """Format a record's fields, except `at_ms` and values that equal those in `defaults`, as name=value."""
    pairs = [(field.name, getattr(record, field.name)) for field in fields(record) if field.name != "at_ms"]
    return " ".join(
        f"{name}={value}" for name, value in pairs if defaults is None or value != getattr(defaults, name)
    )


def _parse_fields(kind: type[Any], pairs: str, **values: int) -> Any:
    types = {field.name: field.type for field in fields(kind)}
    for pair in pairs.split():
        name, _, value = pair.partition("=")
        values[name] = int(value) if types[name] in (int, "int") else value  # type: ignore[assignment]
    return kind(**values)
