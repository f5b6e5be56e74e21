"""A rehearsal: what a stream would release, shown on this machine, with slots shortened to seconds.

The agent's core runs on a clock that is faster than the wall clock. The schedule, mechanism, radius and
lattice are as configured. Power readings are unchanged, so a slot's mean is the mean over those seconds.
Energy is multiplied by the clock's speed, so that a slot shows the energy that would be used in it if the
present use continued. All other configured durations (hold, interval, lateness) are multiplied, too, and a
message's newest reading is taken as measured on arrival.

There is no store, no sink and no session: the core's commits are dropped, together with the noise, which is
drawn for intervals of a clock that no release uses. A second core, whose level is so high that its noise is
practically always zero, shows what was measured. The values therefore belong only on a terminal (law 3).
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from meteragent import config as settings
from meteragent.agent import parts
from meteragent.agent.vitals import intake_limits
from meteragent.config.source import every_ms, hold_ms, interval_ms, lateness_ms
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects
from meteragent.decode import Decoder
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.problem import Problem
from meteragent.domain.reading import Message, Reading
from meteragent.domain.terms import Clock
from meteragent.domain.units import Kind
from meteragent.privacy.bits import SecretBits

SLOT_MS = 5_000
"""The shortest time that represents a slot."""
PATIENCE_MS = 20_000
"""How long to wait for the first message before saying that none has arrived."""
_NOISELESS_LEVEL = Fraction(10_000)
"""A level so high that a slot's noise is practically always zero."""


class Row(NamedTuple):
    """A slot: its meter's public id, the time it was shown, the measured and the private value, the error."""

    meter: str
    time_ms: int
    band: str | None
    measured: float
    number: float
    sd: float
    half_width: float
    unit: str


class Rehearsal:
    """One stream on a fast clock; `slot_ms` is a slot's wall-clock time, and `factor` the clock's speed."""

    def __init__(
        self, stream: settings.Stream, key: bytes | None, secret: bytes, bits: SecretBits, now_ms: int
    ) -> None:
        """Start at `now_ms`; `key` is the pseudonym key, and `secret` must be fresh."""
        schedule = settings.schedule(stream)
        self.slot_ms = SLOT_MS if stream.source.kind is Kind.POWER else max(SLOT_MS, every_ms(stream.source))
        self.factor = Fraction(schedule.usual.length_ms, schedule.usual.n * self.slot_ms)
        self.counts = Counts()
        self.filters = settings.topic_of(stream.source).filters
        self._start_ms, self._first_ms = now_ms, schedule.first_start_ms(now_ms)
        self._fed_ms = self._first_ms
        fast = self._fast_stream(stream)
        exact = _replace(fast, privacy=_replace(fast.privacy, level=_NOISELESS_LEVEL))
        self._noisy = self._pipeline(fast, key, secret, bits, self.counts)
        self._exact = self._pipeline(exact, key, secret, bits, Counts())
        self._limits = intake_limits(stream)._replace(first_ms=PATIENCE_MS)
        self._half_widths: dict[str, float] = {}

    def _pipeline(
        self, stream: settings.Stream, key: bytes | None, secret: bytes, bits: SecretBits, counts: Counts
    ) -> Pipeline:
        core = parts.core_of(stream, Fraction(0), key, secret)
        kind = stream.source.kind
        decoders = {None: core.decode} if callable(core.decode) else core.decode
        fast_decoders = {phase: self._decoder(decode, kind) for phase, decode in decoders.items()}
        fast = replace(core, decode=fast_decoders.get(None, fast_decoders))
        return Pipeline(fast, Snapshot({}, {}, {}), Spending(), bits, counts)

    def _fast_stream(self, stream: settings.Stream) -> settings.Stream:
        """Return the stream for the fast clock, without a budget; durations (except slots) are scaled."""
        source, window = stream.source, stream.window
        interval = self._scale_ms(interval_ms(source)) if source.kind is Kind.INTERVAL_ENERGY else None
        modulus = None if source.modulus is None else source.modulus * self.factor
        # The energy at a slot's end arrives with the next reading.
        shortest_ms = 0 if source.kind is Kind.POWER else self.slot_ms
        lateness = self._scale_ms(max(lateness_ms(source, window), shortest_ms))
        forget = self._scale_ms(settings.forget_ms(source, window.forget))
        fast: settings.Stream = _replace(
            stream,
            source=_replace(source, hold=self._scale_ms(hold_ms(source)), interval=interval, modulus=modulus),
            window=_replace(window, clock=Clock.WALL, lateness=lateness, forget=forget),
            privacy=_replace(stream.privacy, budget=None),
            sink=_replace(stream.sink, spread=0, total=False),
        )
        return fast

    def _scale_ms(self, duration_ms: int) -> int:
        return round(duration_ms * self.factor)

    def _decoder(self, decode: Decoder, kind: Kind) -> Decoder:
        """Return a decoder for the fast clock, which takes a message's newest reading as arriving now."""
        scale = Fraction(1) if kind is Kind.POWER else self.factor

        def decode_fast(payload: bytes) -> list[Reading]:
            """Return a payload's readings on the fast clock. Raises PayloadError as `decode` does."""
            readings = decode(payload)
            newest_ms = max((time_ms for time_ms, *_ in readings if time_ms is not None), default=0)
            fast = []
            for time_ms, value_u, _ in readings:
                before_ms = 0 if time_ms is None else self._scale_ms(newest_ms - time_ms)
                # A negative time is relative to the arrival; None stands for the arrival itself.
                fast.append(Reading(-before_ms or None, round(value_u * scale)))
            return fast

        return decode_fast

    def receive(self, topic: str, payload: bytes, retain: bool, now_ms: int) -> list[Row]:
        """Process a message; return the slots that ended."""
        rows = self.advance(now_ms)
        fast_ms = self._fast_ms(now_ms)
        message = Message(topic, payload, retain, fast_ms, None)
        return rows + self._feed([message], fast_ms, now_ms)

    def advance(self, now_ms: int) -> list[Row]:
        """Advance the clock to `now_ms`; return the slots that ended."""
        fast_ms, step_ms = self._fast_ms(now_ms), self._noisy.schedule.usual.length_ms
        rows = []
        for time_ms in (*range(self._fed_ms + step_ms, fast_ms, step_ms), fast_ms):
            rows += self._feed([], time_ms, now_ms)
        return rows

    def problems(self) -> Iterator[Problem]:
        """Yield the problems with arriving messages, as `health` of a run would report them."""
        return self._noisy.arrivals.problems(self._limits)

    def _fast_ms(self, now_ms: int) -> int:
        """Return the time of the fast clock, which never runs backwards."""
        return max(self._fed_ms, self._first_ms + round((now_ms - self._start_ms) * self.factor))

    def _feed(self, batch: list[Message], fast_ms: int, now_ms: int) -> list[Row]:
        self._fed_ms = fast_ms
        self._noisy.arrivals.advance_clock(now_ms, is_connected=True)
        exact_records = self._records(self._exact.feed(batch, fast_ms, fast_ms))
        measured = {_key(record): record["value"] for record in exact_records}
        return [
            Row(
                record["meter"],
                now_ms,
                record.get("band"),
                measured[_key(record)],
                record["value"],
                record["sd"],
                self._half_widths[record["d"]],
                record["unit"],
            )
            for record in self._records(self._noisy.feed(batch, fast_ms, fast_ms))
        ]

    def _records(self, effects: Effects) -> Iterator[dict[str, Any]]:
        """Yield the records of a feed, and store the half-width of each descriptor's 95% interval."""
        for outgoing in effects.commit.outgoing:
            content = json.loads(outgoing.payload)
            if outgoing.retain:
                self._half_widths[content["id"]] = content["ci95"]
            else:
                yield content


def _key(record: dict[str, Any]) -> tuple[str, str, str | None]:
    return record["meter"], record["t"], record.get("band")


def _replace(section: Any, **keys: Any) -> Any:
    return section.model_copy(update=keys)
