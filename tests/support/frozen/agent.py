"""Run a configuration as the agent does: its core and a store, with fixed times, bits and secrets."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

from meteragent import config
from meteragent.agent import parts
from meteragent.agent.link import receivers
from meteragent.agent.link.outlets import presence_of
from meteragent.config.terms import _distinct_starts_ms
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Stream
from meteragent.domain.counters import Counts
from meteragent.domain.errors import ConfigError
from meteragent.domain.grid import parse_time
from meteragent.domain.reading import Message
from meteragent.privacy.bits import SeededBits
from meteragent.store import Store, grants, outbox, transaction
from meteragent.store.outbox import WaitingRow
from tests.support.frozen import crowd
from tests.support.frozen.cases import Case, Script
from tests.support.stores import in_memory, open_store

SECRET, CLAIM_KEY = bytes(range(32)), bytes(range(32, 64))
KEEP_MS = 2**40


@dataclass
class Outcome:
    """What left: rows in the order of their commits, the latest descriptor of each topic, and the counts."""

    rows: list[WaitingRow] = field(default_factory=list)
    descriptors: dict[str, bytes] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    discovery: dict[str, bytes] = field(default_factory=dict)


def written(case: Case, folder: Path) -> Path:
    """Write the files of a case to a folder; return the path of its configuration."""
    for name, text in case.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    path = folder / "meteragent.toml"
    path.write_text(case.text.replace("FOLDER", str(folder)), encoding="utf-8")
    return path


@contextmanager
def few_years() -> Iterator[None]:
    """Check two years of calendar windows instead of ten, and forget them when the block ends."""
    _distinct_starts_ms.cache_clear()
    with patch("meteragent.config.terms.SHAPES_END_MS", parse_time("2027-01-01T00:00:00Z")):
        try:
            yield
        finally:
            _distinct_starts_ms.cache_clear()


def load(case: Case, folder: Path) -> config.Config:
    """Load the configuration of a case."""
    with few_years():
        return config.load(written(case, folder))


def outcomes(case: Case) -> dict[str, Outcome] | str:
    """Run each stream of a case; return what left by the stream's name, or the text of the refusal."""
    with in_memory() as folder:
        try:
            settings = load(case, folder)
        except ConfigError as refusal:
            return "\n".join(f"{error.key}: {error.found}; {error.expected}" for error in refusal.errors)
        assert config.reading_refusals(settings) == [], f"{case.name} is refused only when it is run"
        return {
            stream.name: _run(case, settings, place, folder) for place, stream in enumerate(settings.stream)
        }


def core_of(settings: config.Config, place: int) -> Stream:
    """Return the core's settings of a stream: the one function that knows how the agent makes them."""
    stream = settings.stream[place]
    others_per_day = config.other_charges_per_day(settings, stream)
    core = parts.core_of(stream, others_per_day, parts.pseudonym_key(stream), SECRET, CLAIM_KEY)
    return core if stream.group is None else replace(core, crowd=crowd.keys())


def admitted(core: Stream, settings: config.Config, place: int, store: Store, now_ms: int) -> Stream:
    """Return the core's settings with the receivers that are admitted now, if a stream is shared."""
    stream = settings.stream[place]
    if not stream.receivers:
        return core
    receivers.apply_admissions(settings, store, now_ms)
    granted = grants.active_grants(store.connection, stream.name)
    return replace(core, receivers=tuple(grant.receiver for grant in granted))


def _run(case: Case, settings: config.Config, place: int, folder: Path) -> Outcome:
    """Run a stream with a stop in between."""
    outcome, core = Outcome(), core_of(settings, place)
    stop_ms, start_ms = case.script.restart_ms
    path, bits = folder / f"{core.name}.db", SeededBits(place)
    before, after = _split(case.messages(), stop_ms)
    with open_store(path, case.script.start_ms) as store:
        core = admitted(core, settings, place, store, case.script.start_ms - case.script.pace_ms)
        run = Run(core, store, bits, outcome)
        run.feed_all(before, case.script, stop_ms)
    with open_store(path, start_ms) as store:
        core = admitted(core, settings, place, store, start_ms)
        repeated_rows = [row for row in before if row.token in run.waiting]
        missed = [*repeated_rows, *(row for row in after if row.received_ms <= start_ms)]
        run = Run(core, store, bits, outcome)
        run.feed([row._replace(received_ms=start_ms) for row in missed], start_ms, stop_ms)
        run.feed_all([row for row in after if row.received_ms > start_ms], case.script, case.script.until_ms)
        for receiver in core.receivers:
            for item in outbox.latest_descriptors(store.connection, receiver.queue):
                outcome.descriptors[item.topic] = item.payload
    discovery = presence_of(settings.stream[place], SECRET, settings.page).discovery
    if discovery is not None:
        outcome.discovery = dict(
            discovery.message(topic, payload) for topic, payload in outcome.descriptors.items()
        )
    return outcome


def _split(messages: list[Message], stop_ms: int) -> tuple[list[Message], list[Message]]:
    """Return the messages up to a time, and the later ones."""
    return (
        [row for row in messages if row.received_ms <= stop_ms],
        [row for row in messages if row.received_ms > stop_ms],
    )


class Run:
    """A run of the core until the agent stops; `waiting` has the tokens that are not acknowledged."""

    def __init__(self, core: Stream, store: Store, bits: SeededBits, outcome: Outcome) -> None:
        self.pipeline = Pipeline(core, store.snapshot(core.name), Spending(), bits, outcome.counts)
        self.waiting = set[int]()
        self._store, self._outcome = store, outcome

    def feed(self, batch: list[Message], now_ms: int, closing_ms: int) -> None:
        """Feed a batch, and commit the step."""
        self.waiting |= {row.token for row in batch}
        effects = self.pipeline.feed(batch, now_ms, closing_ms)
        if effects.commit:
            result = transaction.commit(self._store, effects.commit, [], None, KEEP_MS)
            self._store.erase_log()
            self._outcome.rows += result.rows
        self.waiting -= set(effects.acknowledge)

    def feed_all(self, messages: list[Message], script: Script, until_ms: int) -> None:
        """Feed all messages, a turn's at once, and each deadline on time."""
        rows = list(messages)
        now_ms = min([script.start_ms - script.pace_ms, *(row.received_ms for row in rows[:1])])
        while now_ms < until_ms:
            deadline_ms = self.pipeline.deadline_ms(includes_closings=True) or until_ms
            now_ms = max(now_ms + 1, min(deadline_ms, now_ms + script.turn_ms, until_ms))
            batch = [row for row in rows if row.received_ms <= now_ms]
            rows = rows[len(batch) :]
            self.feed(batch, now_ms, now_ms)
