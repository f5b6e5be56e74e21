"""A process of the agent: `meteragent.agent` as it is, in an environment that a world watches."""

from collections.abc import Collection, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Protocol

from meteragent import config as settings
from meteragent.agent.clock import BootClock
from meteragent.agent.environment import Environment
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects, Stream
from meteragent.domain.counters import Counts
from meteragent.domain.errors import StoreError
from meteragent.domain.reading import Message, Observer
from meteragent.privacy.bits import SeededBits
from meteragent.store import Store
from simulators.simtest.disk import Disk
from simulators.simtest.model import Model, StreamSpec


class ProcessWorld(Protocol):
    """What a process needs of its world."""

    def read_wall_ms(self) -> int:
        """The wall clock, read by the agent."""

    def boot_clock(self) -> BootClock:
        """The boot clock of this process."""

    def restored(self, path: Path, *, at_ms: int, now_ms: int, take_over: bool) -> None:
        """The clock has jumped: the agent restores its store."""

    def opened(self, path: Path, *, now_ms: int, recovery_floor_ms: int | None) -> Store:
        """The store, opened."""

    def begun(
        self, store: Store, keep_ms: int, max_bytes: int, channels: Collection[str], counts: Counts
    ) -> Disk:
        """The disk of this process."""

    def make_model(self, spec: StreamSpec, limit: Fraction | None) -> Model:
        """The model that stands beside a core."""

    def fed(
        self, model: Model, batch: Sequence[Message], now_ms: int, closing_ms: int, effects: Effects
    ) -> None:
        """The core was fed."""


class CheckedPipeline(Pipeline):
    """The core, with the model beside it: both are told the same."""

    def __init__(self, world: ProcessWorld, config: settings.Config, stream: Stream, *more: Any) -> None:
        super().__init__(stream, *more)
        [written] = [one for one in config.stream if one.name == stream.name]
        self._world = world
        self._model = world.make_model(_spec(written, config, stream), settings.budget(written))

    def feed(
        self, batch: Sequence[Message], now_ms: int, closing_ms: int, observer: Observer | None = None
    ) -> Effects:
        """As the core's, and compared."""
        effects = super().feed(batch, now_ms, closing_ms, observer)
        self._world.fed(self._model, batch, now_ms, closing_ms, effects)
        return effects


def environment(world: ProcessWorld, config: settings.Config, seed: int) -> Environment:
    """Return what one process of the agent stands on."""
    random = Random(f"pauses {seed}")

    def short(size: int) -> bytes:
        """Pauses between connections of a 64th of what they are at most."""
        return random.getrandbits(8 * size - 6).to_bytes(size)

    return Environment(
        wall_ms=world.read_wall_ms,
        boot=world.boot_clock(),
        bits=SeededBits(seed),
        entropy=short,
        open_store=world.opened,
        restore_store=world.restored,
        store_thread=world.begun,
        pipeline=partial(CheckedPipeline, world, config),
        listen_s=0,
    )


def _spec(stream: settings.Stream, config: settings.Config, core: Stream) -> StreamSpec:
    """What the model is told of a stream."""
    return StreamSpec(
        name=stream.name,
        sink_topic=stream.sink.topic,
        schedule=settings.schedule(stream, settings.others_per_day(config, stream)),
        ahead_ms=stream.window.ahead,
        forget_ms=settings.forget_ms(stream.source, stream.window.forget),
        spread_ms=stream.sink.spread,
        catch_up_ms=stream.window.catch_up,
        max_meters=stream.source.max_meters,
        secret=core.secret,
        pseudonym_key=core.pseudonym_key,
        stamped=not settings.has_times(stream.source),
    )


def is_of_the_device(error: BaseException | None) -> bool:
    """Whether only the store's device has failed."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_of_the_device, error.exceptions))
    return isinstance(error, StoreError)


def named(error: BaseException | None) -> str:
    """An error, or all of a group, in one line."""
    if isinstance(error, BaseExceptionGroup):
        return ", ".join(map(named, error.exceptions))
    return f"{type(error).__name__}: {error}"
