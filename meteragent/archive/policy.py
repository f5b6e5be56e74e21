"""The policy of an archive, read from the same kind of file as the agent's configuration.

Windows, terms and presets mean the same as in an agent's stream; topics, lateness, forget, ahead, clock and
budget do not apply. A policy holds the paths of keys, never a key, so it may be sent to other processes.
"""

import re
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from meteragent import config
from meteragent.archive.key import ledger_folder
from meteragent.archive.mapping import Mapping
from meteragent.config import Config, Stream
from meteragent.domain import grid
from meteragent.domain.errors import ConfigError
from meteragent.domain.grid import Calendar
from meteragent.domain.identity import pseudonym
from meteragent.domain.schedule import Schedule
from meteragent.domain.terms import Terms
from meteragent.domain.units import MICRO, Kind
from meteragent.wire.descriptor import TermsDescriptor, describe_terms

Integers = NDArray[np.int64]

FIRST_MS, LAST_MS = grid.FIRST_MS, grid.END_MS

ARITHMETIC = 2
"""The version of the arithmetic that turns numbers into quanta and adds noise. A change would give different
values to windows that are already released, so a run belongs to one version."""

_INT64 = 1 << 62


class Columns(NamedTuple):
    """The names of the input's columns."""

    meter: str
    time: str
    value: str


@dataclass(frozen=True)
class Policy:
    """The terms under which an archive is released, the input's columns, and the paths of key and ledger."""

    stream: Stream
    columns: Columns
    key_file: Path
    ledger: Path
    csv: Mapping | None = None

    @classmethod
    def of(cls, settings: Config) -> Self:
        """Return the policy that a configuration describes.

        Raises ConfigError if there is no [archive] or not exactly one stream; two columns have one name;
        archives do not support the stream; or the key has another ledger.
        """
        archive, streams = settings.archive, settings.stream
        if archive is None:
            raise ConfigError(
                "archive.key_file", "nothing", "the archive's key: meteragent key new FILE --tenant NAME"
            )
        if len(streams) != 1:
            raise ConfigError("stream", f"{len(streams)} streams", "one: an archive has one promise")
        _refuse_unsupported(streams[0])
        columns, csv = Mapping.read_columns(archive, streams[0].source, config.terms(streams[0]).readings)
        names = Columns(*columns)
        if len(set(names)) != len(names):
            raise ConfigError("archive.value", repr(archive.value), "three different columns")
        key_file = archive.key_file.absolute()
        ledger = _ledger(key_file, archive.ledger)
        return cls(streams[0], names, key_file, ledger, csv)

    @property
    def schedule(self) -> Schedule:
        """The starts of windows, and the terms under which each is released."""
        return _schedule(self.stream)

    @property
    def usual(self) -> Terms:
        """The terms of an ordinary window. Readings are used in the same way under all terms."""
        return self.schedule.usual

    @property
    def shapes(self) -> tuple[Terms, ...]:
        """The distinct terms of all windows (on a calendar, of ten years from 2025), rounding half up."""
        return config.distinct_terms(self.stream, "half-up")

    @property
    def scale(self) -> Fraction:
        """The factor that converts the input's numbers to millionths of the unit."""
        return (self.stream.source.scale or Fraction(1)) * MICRO

    @property
    def lead_ms(self) -> int:
        """The time in ms from the start of a reading's span to its timestamp: 0 except for energies."""
        return self.reach_ms if self.usual.readings.kind is Kind.INTERVAL_ENERGY else 0

    @property
    def reach_ms(self) -> int:
        """The longest span of a reading, in ms."""
        return self.usual.readings.reach_ms

    @cached_property
    def lattice(self) -> tuple[int, int]:
        """One quantum as (k, digits): a quantum is k / 10^digits of the unit."""
        quantum_u = self.usual.quantum_u
        digits = next(d for d in range(7) if quantum_u * 10**d % MICRO == 0)
        return quantum_u * 10**digits // MICRO, digits

    def terms(self, starts_ms: Integers) -> tuple[Integers, list[Terms]]:
        """Return, for each start, the index of its window's terms in a list, and the list of terms."""
        if self.schedule.make_terms is None:
            return np.zeros(starts_ms.size, np.int64), [self.usual]
        starts, inverse = np.unique(starts_ms, return_inverse=True)
        index_of: dict[Terms, int] = {}
        indices = [index_of.setdefault(self.schedule.terms_at(t), len(index_of)) for t in starts.tolist()]
        return np.array(indices, np.int64)[inverse], list(index_of)

    @staticmethod
    @lru_cache(maxsize=1024)
    def descriptor(terms: Terms) -> TermsDescriptor:
        """Return the descriptor of windows under these terms, with the mechanism."""
        return describe_terms(terms, is_archive=True)

    def starts(self, times_ms: Integers) -> Integers:
        """Return, for each time, the start of the window that contains it."""
        edges = self.edges(times_ms)
        if isinstance(edges, int):
            return times_ms - times_ms % edges
        return edges[np.searchsorted(edges, times_ms, side="right") - 1]

    def ends(self, starts_ms: Integers) -> Integers:
        """Return, for each start, the end of the window that begins there."""
        edges = self.edges(starts_ms)
        if isinstance(edges, int):
            return starts_ms + edges
        return edges[np.searchsorted(edges, starts_ms, side="right")]

    def edges(self, times_ms: Integers) -> Integers | int:
        """Return the starts of the calendar's windows around the times, or the fixed length in ms."""
        calendar = self.schedule.grid
        if not isinstance(calendar, Calendar):
            return self.usual.length_ms
        if not times_ms.size:
            return times_ms
        return _window_edges(calendar, int(times_ms.min()), int(times_ms.max()))

    def public_id(self, meter: str) -> str:
        """Return a meter's name or keyed pseudonym. Raises ConfigError if its key cannot be read."""
        path = self.stream.sink.pseudonym_key_file
        return meter if path is None else pseudonym(_pseudonym_key(path.absolute()), meter)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The public settings that, with the keys and the input, determine the releases, ready for JSON."""
        usual, source = self.usual, self.stream.source
        return {
            "arithmetic": ARITHMETIC,
            "descriptors": [self.descriptor(terms).id for terms in self.shapes],
            "kind": str(usual.readings.kind),
            "hold_ms": usual.readings.hold_ms,
            "interval_ms": usual.readings.interval_ms,
            "gap_u": usual.readings.gap_u,
            "range_u": [usual.readings.low_u, usual.readings.high_u],
            "scale": str(source.scale or 1),
            "columns": list(self.columns),
            "pseudonyms": self.stream.sink.pseudonym_key_file is not None,
            **({} if self.csv is None else {"csv": asdict(self.csv)}),
        }

    @property
    def secret(self) -> bytes:
        """The pseudonym key, or b"" if there is none. Releases depend on the key; use it for digests only."""
        path = self.stream.sink.pseudonym_key_file
        return b"" if path is None else _pseudonym_key(path.absolute())


def _ledger(key_file: Path, configured_ledger: Path | None) -> Path:
    """Return the ledger's folder. Raises ConfigError if another ledger lies next to the (real) key file."""
    default = ledger_folder(key_file)
    if re.search(r"(^|/)\w+:/", str(configured_ledger or "")):
        expected = "a folder on a disk; a ledger in other storage is a Delta table, see `sanitise_frame`"
        raise ConfigError("archive.ledger", repr(str(configured_ledger)), expected)
    if configured_ledger is None:
        return default
    if default.exists() and configured_ledger.resolve() != default.resolve():
        expected = f"{default}: the key has its ledger there; to keep the ledger elsewhere, move that folder"
        raise ConfigError("archive.ledger", repr(str(configured_ledger)), expected)
    return configured_ledger.absolute()


def _refuse_unsupported(stream: Stream) -> None:
    """Raise ConfigError if archives do not support a stream."""
    source = stream.source
    if source.kind is Kind.REGISTER:
        expected = "'interval_energy': difference the registers on a grid of intervals first"
        raise ConfigError("source.kind", "'register'", expected)
    if source.stamp == "start":
        raise ConfigError(
            "source.stamp", "'start'", "no stamp: see archive.csv; in Parquet, add the interval"
        )
    if source.phases is not None:
        expected = "no phases: sum them, since a row of an archive belongs to one meter"
        raise ConfigError("source.phases", ", ".join(map(repr, source.phases)), expected)
    if source.part:
        expected = "no parts: sum them, since a row of an archive belongs to one meter"
        raise ConfigError("source.part", config.topics_formula(source), expected)
    usual = config.terms(stream)
    ratio = (source.scale or Fraction(1)) * MICRO
    largest = max(abs(usual.readings.low_u), abs(usual.readings.high_u)) + 2
    if 4 * (largest * ratio.denominator + ratio.numerator) >= _INT64:
        raise ConfigError("window.range", "values with too many digits", "a range of ordinary size")


@lru_cache(maxsize=64)
def _schedule(stream: Stream) -> Schedule:
    return config.schedule(stream, rounding="half-up")


@lru_cache(maxsize=16)
def _pseudonym_key(path: Path) -> bytes:
    """Read the pseudonym key. Raises ConfigError if the file cannot be read or holds no key."""
    return config.read_secret("sink.pseudonym_key_file", path)


@lru_cache(maxsize=256)
def _window_edges(calendar: Calendar, from_ms: int, to_ms: int) -> Integers:
    """Return the starts of all windows from the one at `from_ms` to the first that begins after `to_ms`."""
    edges = [calendar.start_ms(from_ms)]
    while edges[-1] <= to_ms:
        edges.append(calendar.end_ms(edges[-1]))
    return np.array(edges, np.int64)
