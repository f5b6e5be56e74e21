"""The models of the configuration (DESIGN 5). A key's docstring is its description in the JSON Schema."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from meteragent.config.value import (
    Band,
    BandName,
    ClientId,
    Currency,
    Day,
    Days,
    Duration,
    Energy,
    GroupId,
    Length,
    LengthText,
    Moment,
    NotNegative,
    Number,
    PageUrl,
    PlainTopic,
    Positive,
    Protocol,
    ReceiverName,
    Shard,
    Size,
    SpaceName,
    Span,
    Template,
)
from meteragent.crowd.group import Group
from meteragent.decode.profile import Profile
from meteragent.domain.grid import EVERY_DAY
from meteragent.domain.identity import END, PAUSE, RESUME
from meteragent.domain.metric import Metric
from meteragent.domain.presets import DEFAULT
from meteragent.domain.terms import Clock
from meteragent.domain.units import DAY_MS, Kind


class Section(BaseModel):
    """A table of the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True)


class Broker(Section):
    """How to connect to a broker."""

    client_id: ClientId | None = None
    """The client id, for brokers that accept only certain ones. A named stream adds its name or, at a sink,
    a pseudonym. Default: an id made by the store."""
    username: str | None = None
    """The broker's user name."""
    password_file: Path | None = None
    """A file that holds the password."""
    ca_file: Path | None = None
    """A file with the certificate authority that signed the broker's certificate. Default: the system's
    authorities."""
    cert_file: Path | None = None
    """A file with the certificate that identifies the agent to the broker."""
    key_file: Path | None = None
    """A file with the private key of the certificate. Default: `cert_file`, which then holds both."""
    protocol: Protocol = "auto"
    """The MQTT version; `auto` means 5, or 3.1.1 if the broker refuses 5."""


class Receiver(Broker):
    """Somebody who gets the records of one preset; all receivers of a preset get the same bytes."""

    name: ReceiverName
    """The receiver's name, in logs and receipts."""
    preset: str = DEFAULT
    """What the receiver gets, by the name of a preset."""
    url: str | None = None
    """The receiver's broker. Default: the source's."""
    topic: Template
    """The topic of the receiver's records. `{meter}` is the meter's name or its pseudonym."""
    start: Moment | None = None
    """The start of the first slot that the receiver may get. Default: at once."""
    end: Moment | None = None
    """The end of the last slot that the receiver may get. Default: none."""
    paused: bool = Field(False, strict=True)  # names: a key, as users say it
    """Send nothing to the receiver, and withdraw its descriptors; `false` admits it again."""

    _verb: str = PrivateAttr("")

    @property
    def state(self) -> str:
        """The receiver's state: "ended" or "paused", by action or by the file, or "" if it gets numbers."""
        return "ended" if self._verb == END else "paused" if self.paused or self._verb == PAUSE else ""

    @property
    def verbs(self) -> list[str]:
        """The actions that are possible now; only the file can resume a receiver that it pauses."""
        return [] if self._verb == END else [PAUSE, END] if not self.state else [RESUME, END][self.paused :]

    def after_action(self, verb: str) -> Self:
        """Return a copy of this receiver whose last action is `verb`, which is "" if there was none."""
        receiver = self.model_copy()
        receiver._verb = verb  # noqa: SLF001 -- same class
        return receiver


class Crowd(Section):
    """A group of homes: only its total, with the noise of two operators, is known (docs/crowd.md)."""

    group: Path
    """The group's public file."""
    id: GroupId
    """The group's id (64 hex digits), which pins both operators' identities and every parameter of the noise.
    """


class Part(Section):
    """A further topic, whose readings are added to the source's, or subtracted from them.

    A key that is not set has its value in the source or, if `profile` is set, in that profile.
    """

    topic: PlainTopic
    """The topic of the part's readings."""
    sign: Literal["+", "-"] = "+"
    """Whether the readings are added or subtracted."""
    profile: str | None = None
    """`number`, `json`, or the name of a device's profile."""
    value: str | None = None
    """For `json`, the JMESPath expression that finds the value; for a device, the name of the quantity."""
    time: str | None = None
    """For `json`, the JMESPath expression that finds the time. Default: the time of arrival."""
    id: str | None = None
    """The id of the meter to read, if messages of several meters arrive on the topic."""
    scale: Positive | None = None
    """The value, in the source's unit, of a 1 in the payload."""


class Source(Broker):
    """Where readings come from and what they mean; `kind` and `unit` have no default (law 5)."""

    url: str = "mqtt://127.0.0.1:1883"
    """The broker on which readings arrive: mqtt://host[:port], or mqtts:// for TLS."""
    topic: str
    """The topic of readings. `{meter}` is the segment that names the meter, and `{phase}` the segment that
    names a phase."""
    meter: str | None = None
    """The meter's name, if the topic contains no name or a name that must not be released."""
    shard: Shard | None = None
    """The agent's number in a fleet, counted from 0, and the number of agents, such as '2/8'. Meters are
    divided by `{shard}` in the topic or, without it, by a hash."""
    phases: tuple[str, ...] | None = Field(None, min_length=1)
    """The values of `{phase}`. Several phases are summed before noise is added; a single one is selected."""
    part: tuple[Part, ...] = ()
    """Further topics, such as an inverter's, whose readings are summed before noise is added."""
    profile: str = "number"
    """`number`, `json`, or the name of a device's profile."""
    value: str | None = None
    """For `json`, the JMESPath expression that finds the value; for a device, the name of the quantity."""
    time: str | None = None
    """For `json`, the JMESPath expression that finds the time. Default: the time of arrival."""
    timezone: str | None = None
    """The time zone of a P1 telegram's timestamp, or `arrival` to ignore the timestamp. Default: Central
    European Time."""
    id: str | None = None
    """The id of the meter to read, if messages of several meters arrive on one topic."""
    kind: Kind
    """What a number means. No default, because a kind is never guessed."""
    unit: Literal["W", "kW", "Wh", "kWh"]
    """The unit of readings that state none; it also determines the unit of released values. No default."""
    unit_topic: str | None = None
    """The topic on which a program states the unit of readings, such as Home Assistant's
    `.../{meter}/unit_of_measurement` or a sensor's discovery message. While another unit is stated, readings
    are refused. Default: the attribute next to a state of Home Assistant's mqtt_statestream."""
    scale: Positive | None = None
    """The value, in the unit, of a 1 in the payload; for pulse counters and transformers."""
    hold: Span | None = None
    """How long a power reading stands if no other follows. Default: the profile's time, or 15min."""
    interval: Span | None = None
    """For interval energies, the time that a reading covers; otherwise, the usual time between readings."""
    stamp: Literal["end", "start"] = "end"
    """For interval energies, whether a reading's timestamp is the end or the start of its interval."""
    every: Duration | None = None
    """The longest time between readings; 0s if each change is sent at once. Default: the profile's time."""
    modulus: Positive | None = None
    """The value at which a register wraps to 0, in the unit."""
    dead_band: NotNegative | None = None
    """How far the power may be from the last value sent, in the unit; for energies, the step of the count."""
    inflight: int = Field(1000, ge=1, le=30_000, strict=True)
    """The largest number of unacknowledged readings to hold."""
    acknowledge: Literal["any order", "in order"] = "any order"
    """Whether readings are acknowledged in the order of their arrival, which some brokers require. An
    acknowledgement then waits for the acknowledgement of all earlier readings, of any meter."""
    max_meters: int = Field(10_000, ge=1, strict=True)
    """The largest number of meters; further meters are refused and counted."""
    max_payload: Size = 64 * 1024
    """The largest size of a payload; larger payloads are refused and counted."""

    _profiles: Mapping[str, Profile] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Mapping[str, Profile] | None, /) -> None:
        """Keep the operator's profiles, which are passed as the validation context."""
        if context:
            self._profiles = context

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """The operator's own profiles."""
        return self._profiles


class WeekHours(Section):
    """Hours of the week in which energy has one price."""

    days: Days = EVERY_DAY
    """Days of the week, such as 'mon-fri'. A holiday is treated as a Sunday. Default: every day."""
    hours: tuple[Band, ...] = Field(min_length=1)
    """Hours of the local day, such as ['06:00/22:00']; hours over midnight lie on both days."""


class TariffBand(WeekHours):
    """A band of the week."""

    name: BandName
    """The band's name in records."""


class PriceHours(WeekHours):
    """Hours with a price."""

    price: Number
    """The price of each kWh in these hours."""


class Weights(Section):
    """Public prices at which energy counts; one amount is released for each window."""

    unit: Currency = "EUR"
    """The unit of amounts; prices are in this unit per kWh."""
    bound: Positive
    """The largest absolute price, with which the noise in an amount grows."""
    default: Number = Fraction(0)
    """The price during hours that have no other price."""
    price: tuple[PriceHours, ...] = ()
    """A table of hours and prices."""
    topic: PlainTopic | None = None
    """Instead of a table: a topic on the source's broker with public prices that do not depend on this
    home."""


class Window(Section):
    """The grid and its clock; slots are `step` long, or `blocks` of a window, or `bands` of the day."""

    length: Length | None = None
    """The length of a window. Default: the preset's."""
    step: Span | None = None
    """The length of a slot, or of a peak's parts. Default: the whole window, or 15min for a peak."""
    blocks: int | None = Field(None, ge=1, le=100_000, strict=True)
    """Instead of `step`: the number of equal slots in a window or, for a profile, in a day."""
    bands: tuple[Band, ...] | None = Field(None, min_length=1)
    """Instead of `step`, for a profile: each slot's hours of the local day."""
    band: tuple[TariffBand, ...] = ()
    """The bands whose energies are released (`privacy.space = 'bands'`); changes apply to new windows."""
    rest: BandName | None = None
    """The name of the band for all hours that are in no other band."""
    holidays: tuple[Day, ...] = ()
    """Days that are treated as Sundays."""
    threshold: Positive | None = None
    """A threshold in W: only the energy above it is released. For readings of power."""
    weights: Weights | None = None
    """If prices are set, the energy times its price, summed over the window, is released
    (`privacy.space = 'weighted'`)."""
    timezone: str | None = None
    """The time zone of the local calendar; its days, weeks or months are the windows."""
    lateness: Duration | None = None
    """How long a slot stays open after its end. Default: 0s for power; for energies, the time from reading to
    reading (`source.every` or the device's usual time) plus a tenth of it, or plus 10s if that is longer."""
    clock: Clock = Clock.WALL
    """`wall`; or `event`, for replays and archives, in which each meter's newest timestamp is the time."""
    ahead: Duration = 30 * 60_000
    """How far a timestamp may be ahead of the wall clock; readings further ahead are refused."""
    gap: Number = Fraction(0)
    """The value, in the unit, that is used for time without a reading."""
    range: tuple[Number, Number] = (Fraction(0), Fraction(20_000))
    """The lowest and highest values, in W; values outside this range are clamped and counted."""
    forget: Span | None = None
    """A meter that is silent for this long, in whole windows, is forgotten. Default: 24h, or 30d if readings
    are sent on change."""
    catch_up: Duration = 60_000
    """How long slots that fell due during a stop stay open for readings from the broker, counted from the
    subscription."""


class Budget(Section):
    """The privacy that a meter may spend in an aligned UTC period, over all its streams."""

    level: Positive
    """The level that may be spent in a period."""
    per: Span
    """The period, a whole number of days."""


class Privacy(Section):
    """How much is hidden: a preset, and numbers that override it."""

    preset: str = DEFAULT
    """A named set of numbers that are both private and useful; any number set explicitly overrides it."""
    level: Positive | None = None
    """A window's records change anyone's odds by a factor of at most e^level; smaller is more private."""
    hide: Energy | None = None
    """The energy by which the load may change in any slot, with the change still hidden."""
    radius: Positive | None = None
    """Instead of `hide`: the radius itself, in the unit, a multiple of `quantum`."""
    quantum: Positive | None = None
    """The step of slot values, in the unit. Default: the preset's power; for energies, the energy of
    that power over a slot."""
    space: SpaceName | None = None
    """The kind of slots: a vector, blocks of a curve, a mean day, energies of bands, an amount, a peak, or
    the energy above a threshold."""
    metric: Metric | None = None
    """`linf` hides what changes within each slot, and `l1` the sum of all changes. Default: `linf`, or `l1`
    for bands and amounts."""
    shares: dict[LengthText, Positive] | None = None
    """Each nested stream's share of the level, by window length. The shares add up to at most 1."""
    accept: tuple[Literal["coarse_register", "sparse_readings", "lost_energy"], ...] = ()
    """Accept readings in which a change in the load can count for much more than its energy."""
    budget: Budget | None = None
    """The privacy that may be spent; a window that would exceed it does not open."""


class Sink(Broker):
    """Where private records go."""

    url: str | None = None
    """The broker to which private records go. Default: the source's."""
    topic: Template
    """The topic of private records. `{meter}` is the meter's name or its pseudonym."""
    pseudonym_key_file: Path | None = None
    """A file that holds the pseudonym key. If a file is set, `{meter}` is a keyed pseudonym."""
    crowd: Crowd | None = None
    """Instead of a topic: the group in whose total the stream counts."""
    total: bool = Field(False, strict=True)
    """Also send the running total of the released values, on `<topic>/total`."""
    status: PlainTopic | None = None
    """The topic of the agent's status: `online`, sent every minute, or `offline`, sent as the last will."""
    home_assistant: PlainTopic | None = None
    """The prefix of Home Assistant's discovery topics. If a prefix is set, the private stream appears as a
    device."""
    retain: bool = Field(False, strict=True)
    """Have the broker retain the newest record of each meter, for receivers that subscribe later."""
    spread: Duration = 0
    """The longest delay of records. Each meter has a fixed delay, so that records do not come in bursts."""
    inflight: int = Field(100, ge=1, le=30_000, strict=True)
    """The largest number of records that are sent but not yet acknowledged."""


class Store(Section):
    """The one file that holds the ledger and the outbox."""

    path: Path = Path("meteragent.db")
    """The path of the file."""
    keep: Span = 30 * DAY_MS
    """How long delivered records are kept for `export`."""
    max_mb: int = Field(512, ge=1, strict=True)
    """The largest size of the file. If undelivered records fill the file, streams pause; nothing is lost."""
    flush: Duration = 0
    """How long readings are collected before they are written; a longer time saves flash if slots are
    long."""


class Page(Section):
    """The local page: where it listens, and who may see it."""

    listen: str = "127.0.0.1:8321"
    """The address and port. Without a token, only loopback is allowed."""
    token_file: Path | None = None
    """A file that holds the token for the login."""
    hosts: tuple[str, ...] = ()
    """Host names under which browsers may request the page, besides the address."""
    actions: bool | None = Field(None, strict=True)
    """Let anyone who logs in act on receivers. Default: only if no other machine can reach the page."""
    url: PageUrl | None = None
    """The page's address in a browser, to which the devices in Home Assistant link."""


class Tariff(Section):
    """A tariff. `check` states the error of a tariff's costs, and receivers compare tariffs."""

    name: BandName
    """The tariff's name."""
    prices: dict[BandName, Number] = Field(min_length=1)
    """The price per kWh for each band, such as { day = 0.34, night = 0.22 }."""
    fee: NotNegative = Fraction(0)
    """The monthly fee."""
    currency: Currency = "EUR"
    """The currency of prices and fee."""


class Archive(Section):
    """What `sanitise` needs besides a stream: the key, its ledger, and the names of the columns."""

    key_file: Path
    """The file of the noise key, as written by `meteragent key new`."""
    ledger: Path | None = None
    """The folder of the key's ledger. Default: the folder of the key file."""
    meter: str = "meter"
    """The column that names the meter."""
    time: str = "time"
    """The column of the window's start if a row is a window, and of the reading's time otherwise."""
    value: str = "value"
    """The column of values: lists if a row is a window, and numbers otherwise."""
    csv: dict[str, Any] | None = None
    """How CSV files are read (meteragent/archive/README.md). Default: the archive is Parquet."""


class Stream(Section):
    """One stream: a source, a grid, a promise and a sink; `name` is its key in the ledger."""

    name: str = "main"
    """The stream's key in the ledger. A new name is a new stream, whose charges add to earlier charges."""
    source: Source
    """Where readings come from and what they mean."""
    window: Window = Window()
    """The grid and its clock."""
    privacy: Privacy = Privacy()
    """How much is hidden."""
    sink: Sink
    """Where private records go."""

    _receivers: tuple[Receiver, ...] = PrivateAttr(())
    _group: Group | None = PrivateAttr(None)

    @property
    def group(self) -> Group | None:
        """The group in whose total the stream counts; None if the stream has no group."""
        return self._group

    @property
    def receivers(self) -> tuple[Receiver, ...]:
        """The receivers that share the stream; empty if all records go to one sink."""
        return self._receivers

    @property
    def is_received(self) -> bool:
        """Whether anybody may get the stream: a sink, or a receiver that is neither paused nor ended."""
        return not self._receivers or any(not receiver.state for receiver in self._receivers)

    def with_changes(self, *, group: Group | None = None, name: str | None = None, **tables: Any) -> Self:
        """Return a copy with other keys in `tables`, another name, or membership of `group`."""
        update = {table: getattr(self, table).model_copy(update=keys) for table, keys in tables.items()}
        stream = self.model_copy(update=update if name is None else {**update, "name": name})
        stream._group = group or self._group  # noqa: SLF001 -- same class
        return stream

    def with_receivers(self, receivers: Sequence[Receiver]) -> Self:
        """Return a copy of this stream that `receivers` share."""
        stream = self.model_copy()
        stream._receivers = tuple(receivers)  # noqa: SLF001 -- same class
        return stream


class Config(Section):
    """The whole file: the tables of one stream, called `main` by default, or `[[stream]]` tables."""

    stream: tuple[Stream, ...] = Field(min_length=1)
    """The streams."""
    receiver: tuple[Receiver, ...] = ()
    """Receivers, instead of a sink's topic; they may combine the records that they get."""
    store: Store = Store()
    """The one file that holds the ledger and the outbox."""
    page: Page | None = None
    """The local page, health and metrics. Default: no page."""
    tariff: tuple[Tariff, ...] = ()
    """Tariffs that price the bands of a stream (`privacy.space = 'bands'`)."""
    archive: Archive | None = None
    """Archives in Parquet, for `sanitise`; `run` does not need this table."""

    _key_prefixes: tuple[str, ...] = PrivateAttr(())
    _path: Path | None = PrivateAttr(None)

    @property
    def path(self) -> Path | None:
        """The file of the configuration; None if it was not read from one."""
        return self._path

    @property
    def key_prefixes(self) -> tuple[str, ...]:
        """What stands before the keys of each stream in the file: `stream[1].`, or "" if the file is flat."""
        return self._key_prefixes or tuple(f"stream[{number}]." for number in range(len(self.stream)))

    @property
    def prefixed_streams(self) -> list[tuple[Stream, str]]:
        """Each stream with its key prefix."""
        return list(zip(self.stream, self.key_prefixes, strict=True))

    def at(self, path: Path) -> Self:
        """Return a copy that was read from a file."""
        config = self.model_copy()
        config._path = path.absolute()  # noqa: SLF001 -- same class
        return config

    def with_streams(self, streams: Sequence[Stream], key_prefixes: Sequence[str]) -> Self:
        """Return a copy with other streams, which have these `key_prefixes`."""
        config = self.model_copy(update={"stream": tuple(streams)})
        config._key_prefixes = tuple(key_prefixes)  # noqa: SLF001 -- same class
        return config

    def nested_with(self, stream: Stream) -> tuple[Stream, ...]:
        """Return the nested streams of the table of `stream`, from fine to coarse, or only `stream`."""
        if stream.receivers:
            return (stream,)
        own_prefix = next((prefix for part, prefix in self.prefixed_streams if part is stream), None)
        return tuple(part for part, prefix in self.prefixed_streams if prefix == own_prefix)
