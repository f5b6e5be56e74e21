"""The models of the configuration: every key, its type and its default (DESIGN 5).

The text under a key is what the JSON Schema says of it.
"""

from fractions import Fraction
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from meteragent.config.value import (
    Band,
    Duration,
    Energy,
    Length,
    NotNegative,
    Number,
    PlainTopic,
    Positive,
    Protocol,
    Shard,
    Size,
    Span,
    Template,
)
from meteragent.domain.shape import Space
from meteragent.domain.terms import Clock
from meteragent.domain.units import DAY_MS, Kind


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, use_attribute_docstrings=True
    )


class Broker(_Section):
    """How to speak to a broker."""

    username: str | None = None
    """The user's name at the broker."""
    password_file: Path | None = None
    """A file that holds the password."""
    ca_file: Path | None = None
    """The authority that signs the broker's certificate; left out: the system's."""
    cert_file: Path | None = None
    """The certificate that proves who we are."""
    key_file: Path | None = None
    """Its key; left out: it is in cert_file."""
    protocol: Protocol = "auto"
    """MQTT 5, then 3.1.1 where it is refused (auto); or one of them."""


class Source(Broker):
    """Where readings come from and what they mean; kind and unit have no default (law 5)."""

    url: str = "mqtt://127.0.0.1:1883"
    """The broker on which readings arrive: mqtt://host[:port], or mqtts:// for TLS."""
    topic: str
    """Where readings come; {meter} is the segment that names the meter, {phase} one of its phases."""
    meter: str | None = None
    """The meter's name, where the topic has none, or one that must not leave."""
    shard: Shard | None = None
    """Which agent of a fleet this is, from 0: {shard} in the topic, else by a hash of the meter's name."""
    phases: tuple[str, ...] | None = Field(None, min_length=1)
    """What stands for {phase}: these are summed into one secret; one alone is chosen."""
    profile: str = "number"
    """number, json, or a device's profile."""
    value: str | None = None
    """The JMESPath expression that finds the value (json), or the device's quantity."""
    time: str | None = None
    """The JMESPath expression that finds the time (json); left out: the arrival."""
    id: str | None = None
    """The meter that counts, where messages of several come on one topic."""
    kind: Kind
    """What a number means. No default: it is never guessed."""
    unit: Literal["W", "kW", "Wh", "kWh"]
    """The unit of what leaves. No default."""
    scale: Positive | None = None
    """What one of the payload's numbers is, in the unit: pulses, transformers."""
    hold: Span | None = None
    """A power reading stands until the next one, for at most this."""
    interval: Span | None = None
    """What an interval energy covers, ending at its time; else how far apart readings usually are."""
    every: Duration | None = None
    """How far apart readings are, at most; 0s: each change is sent at once. Left out: the device's."""
    modulus: Positive | None = None
    """Where a register begins again at 0, in the unit."""
    dead_band: NotNegative | None = None
    """How far the power may be from what was sent last, in the unit; of an energy, the step of its count."""
    inflight: int = Field(1000, ge=1, le=30_000, strict=True)
    """Readings that are held unacknowledged, at most."""
    max_meters: int = Field(10_000, ge=1, strict=True)
    """Meters, at most; further ones are refused and counted."""
    max_payload: Size = 64 * 1024
    """The largest payload; larger ones are refused and counted."""


class Window(_Section):
    """The grid and its clock; slots are `step` long, or `blocks` of a window, or `bands` of the day."""

    length: Length | None = None
    """How long a window is; left out: the preset's."""
    step: Span | None = None
    """How long a slot is; left out: the whole window."""
    blocks: int | None = Field(None, ge=1, le=100_000, strict=True)
    """Or this many equal slots in a window (of a profile: in a day)."""
    bands: tuple[Band, ...] | None = Field(None, min_length=1)
    """Or, of a profile, hours of the local day."""
    timezone: str | None = None
    """The zone of the local calendar, by which days, weeks and months are windows."""
    lateness: Duration | None = None
    """A slot closes this long after its end, so that late readings count."""
    clock: Clock = Clock.WALL
    """wall, or event: each meter's newest timestamp is the time (replays, archives)."""
    ahead: Duration = 30 * 60_000
    """A timestamp further ahead of the wall clock is refused."""
    gap: Number = Fraction(0)
    """What time without a reading counts as, in the unit."""
    range: tuple[Number, Number] = (Fraction(0), Fraction(20_000))
    """Values are clamped to this, in W, and counted."""
    forget: Span | None = None
    """A meter silent for this long, in whole windows, is forgotten; left out: 24h, 30d on change."""
    catch_up: Duration = 60_000
    """After a stop, what fell due leaves this long after the subscription."""


class Budget(_Section):
    """At most this level per aligned UTC period, over all streams of a meter."""

    level: Positive
    """The level that may be spent in a period."""
    per: Span
    """The period: whole days."""


class Privacy(_Section):
    """How much is hidden: a preset, or the numbers themselves (they win)."""

    preset: str = "appliance"
    """A name for numbers that are both private and useful; numbers beside it win."""
    level: Positive | None = None
    """What leaves in a window changes the odds by a factor of e^level at most; smaller is more private."""
    hide: Energy | None = None
    """The energy moved within a slot that is hidden."""
    radius: Positive | None = None
    """Or the radius itself, in the unit, a multiple of quantum."""
    quantum: Positive | None = None
    """The lattice of slot values, in the unit; left out: the preset's, of energies over a slot."""
    space: Space | None = None
    """What the slots are: a vector, the blocks of a curve, or the bands of a mean day."""
    accept: tuple[Literal["coarse_register", "sparse_readings"], ...] = ()
    """Accept readings that make a change of the load count for much more than it is."""
    budget: Budget | None = None
    """What may be spent; a window that would exceed it does not open."""


class Sink(Broker):
    """Where private records go."""

    url: str | None = None
    """The broker to which private records go; left out: the source's."""
    topic: Template
    """Where they go; {meter} is the meter's name or its pseudonym."""
    format: Literal["json", "senml"] = "json"
    """json, or senml (RFC 8428)."""
    pseudonym_key_file: Path | None = None
    """A file that holds a key: {meter} becomes a keyed pseudonym."""
    total: bool = Field(False, strict=True)
    """Also send the running total of what left, on <topic>/total."""
    status: PlainTopic | None = None
    """A topic that says online every minute, and offline by last will."""
    home_assistant: PlainTopic | None = None
    """The prefix of Home Assistant's discovery: the private stream becomes a device."""
    spread: Duration = 0
    """A fixed delay per meter, up to this, against bursts at the boundary."""
    inflight: int = Field(100, ge=1, le=30_000, strict=True)
    """Records sent and not yet acknowledged, at most."""


class Store(_Section):
    """The one file that holds ledger and outbox."""

    path: Path = Path("meteragent.db")
    """The file."""
    keep: Span = 30 * DAY_MS
    """How long delivered records stay, for export."""
    max_mb: int = Field(512, ge=1, strict=True)
    """Its size, at most; when it is full of undelivered records the streams pause and nothing is lost."""
    flush: Duration = 0
    """Collect readings for this long before they are written, which saves flash when slots are long."""


class Page(_Section):
    """The local page: where it listens, and who may look."""

    listen: str = "127.0.0.1:8321"
    """The address and port; loopback, unless there is a token."""
    token_file: Path | None = None
    """A file that holds the token for the login."""
    hosts: tuple[str, ...] = ()
    """Names under which the page may be asked for, beside the address."""


class Archive(_Section):
    """What `sanitise` needs beside a stream: the key, its ledger, and the names of the columns."""

    key_file: Path
    """The key of keyed noise, as made by `meteragent key new`."""
    ledger: Path | None = None
    """The folder of the key's ledger; left out: beside the key."""
    meter: str = "meter"
    """The column that names the meter."""
    time: str = "time"
    """The column of a window's start (a row is a window) or of a reading's time."""
    value: str = "value"
    """The column of values: a list in each row (a row is a window), or a number."""


class Stream(_Section):
    """One stream: a source, a grid, a promise and a sink; `name` is its key in the ledger."""

    name: str = "main"
    """The stream's key in the ledger: a new name on a meter is a new stream, and adds."""
    source: Source
    """Where readings come from and what they mean."""
    window: Window = Window()
    """The grid and its clock."""
    privacy: Privacy = Privacy()
    """How much is hidden."""
    sink: Sink
    """Where private records go."""


class Config(_Section):
    """The whole file: flat (one stream called `main`) or with `[[stream]]`."""

    stream: tuple[Stream, ...] = Field(min_length=1)
    """The streams."""
    store: Store = Store()
    """The one file that holds ledger and outbox."""
    page: Page | None = None
    """The local page, health and metrics; left out: none."""
    archive: Archive | None = None
    """Archives in Parquet, for `sanitise`; `run` does not need it."""
