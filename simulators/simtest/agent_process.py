"""A process of the agent: the unchanged `meteragent.agent` in an environment that a world observes."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Protocol

from meteragent.agent.environment import Environment
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects, Stream
from meteragent.domain.commit import Destination
from meteragent.domain.counters import Counts
from meteragent.domain.errors import StoreError
from meteragent.domain.reading import Message, Observer
from meteragent.privacy.bits import SeededBits
from meteragent.service.boot_clock import BootClock
from meteragent.store import Store
from simulators.simtest.model.other_stores import LISTEN_S
from simulators.simtest.model.stream import Model
from simulators.simtest.model.stream_spec import StreamNames
from simulators.simtest.store.disk import Disk


class ProcessWorld(Protocol):
    """The part of a world that a process needs."""

    def read_wall_ms(self) -> int:
        """Read the wall clock for the agent."""

    def make_boot_clock(self) -> BootClock:
        """Create the boot clock of this process."""

    def restore_store(self, path: Path, *, at_ms: int, now_ms: int, take_over: bool) -> None:
        """Restore the agent's store after the clock has jumped."""

    def open_store(self, path: Path, *, now_ms: int, recovery_floor_ms: int | None) -> Store:
        """Open the store of this process."""

    def make_disk(
        self, store: Store, keep_ms: int, max_bytes: int, streams: Collection[str], counts: Counts
    ) -> Disk:
        """Create the disk of this process."""

    def make_model(self, names: StreamNames) -> Model:
        """Create the model for a core; of the core's settings, it uses only names."""

    @property
    def listens(self) -> bool:
        """Whether the agent listens for other stores."""

    def check_clear(self, model: Model, destinations: Sequence[Destination]) -> None:
        """Check that no other store can release to the destinations that the agent has found free."""

    def check_feed(
        self, model: Model, batch: Sequence[Message], now_ms: int, closing_ms: int, effects: Effects
    ) -> None:
        """Compare the effects of a core's feed with the model's."""


class CheckedPipeline(Pipeline):
    """A core, together with a model that gets the same messages."""

    def __init__(self, world: ProcessWorld, stream: Stream, *arguments: Any) -> None:
        super().__init__(stream, *arguments)
        own_topic = next((item.topic for item in stream.receivers if item.queue == stream.name), "")
        names = StreamNames(stream.name, own_topic, stream.secret, stream.pseudonym_key)
        self._world, self._model = world, world.make_model(names)

    def admit_destinations(self, destinations: Iterable[Destination], now_ms: int) -> None:
        """Check the destinations that the agent has found free, and pass them on."""
        cleared = list(destinations)
        self._world.check_clear(self._model, cleared)
        super().admit_destinations(cleared, now_ms)

    def feed(
        self, batch: Sequence[Message], now_ms: int, closing_ms: int, observer: Observer | None = None
    ) -> Effects:
        """Feed the core, compare its effects with the model, and return the effects."""
        effects = super().feed(batch, now_ms, closing_ms, observer)
        self._world.check_feed(self._model, batch, now_ms, closing_ms, effects)
        return effects


def environment(world: ProcessWorld, seed: int) -> Environment:
    """Build the environment for one agent process."""
    random = Random(f"pauses {seed}")

    def entropy(size: int) -> bytes:
        """Return bytes of which the first six bits are 0: pauses are at most 1/64 of their maximum."""
        return random.getrandbits(8 * size - 6).to_bytes(size)

    return Environment(
        wall_ms=world.read_wall_ms,
        boot=world.make_boot_clock(),
        bits=SeededBits(seed),
        entropy=entropy,
        open_store=world.open_store,
        restore_store=world.restore_store,
        store_thread=world.make_disk,
        pipeline=partial(CheckedPipeline, world),
        listen_s=LISTEN_S if world.listens else 0,
    )


def is_device_failure(error: BaseException | None) -> bool:
    """Return whether an error is a StoreError, or a group that contains only StoreErrors."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_device_failure, error.exceptions))
    return isinstance(error, StoreError)


def format_error(error: BaseException | None) -> str:
    """Format an error, or all errors of a group, in one line."""
    if isinstance(error, BaseExceptionGroup):
        return ", ".join(map(format_error, error.exceptions))
    return f"{type(error).__name__}: {error}"
