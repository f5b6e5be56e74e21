"""A life of the agent: `meteragent.agent` as it is, with links, disk and core that a world watches."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Protocol

from meteragent import config as settings
from meteragent.agent import Agent
from meteragent.agent.clock import BootClock, SteadyClock
from meteragent.agent.runner import StoreThread
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Effects
from meteragent.domain.errors import StoreError
from meteragent.domain.reading import Message
from meteragent.privacy.bits import SeededBits
from meteragent.store import Store
from simulators.ordeal.disk import Disk
from simulators.ordeal.model import Line, Model


class Around(Protocol):
    """What a life needs of its world."""

    wall_ms: Callable[[], int]

    def boot_clock(self) -> BootClock:
        """The boot clock of this life."""

    def resumed(self, restore: Callable[[], None]) -> None:
        """The clock has jumped: the agent restores its store by this."""

    def opened(self, open_store: Callable[[], Store], now_ms: int) -> Store:
        """The store, opened by this."""

    def begun(self, thread: StoreThread, clock: SteadyClock) -> Disk:
        """The disk of this life."""

    def beside(self, line: Line, stream: settings.Stream) -> Model:
        """The model that stands beside a core."""

    def fed(
        self, model: Model, batch: Sequence[Message], now_ms: int, closing_ms: int, effects: Effects
    ) -> None:
        """The core was fed."""

    async def serve_source(self, unit: Any, version: int) -> NoReturn:
        """Be the source's broker."""

    async def serve_sink(self, unit: Any, count: Callable[[str], None]) -> NoReturn:
        """Be the sink's broker."""


class Watched:
    """The core, with the model beside it: both are told the same."""

    def __init__(self, world: Around, pipeline: Pipeline, model: Model) -> None:
        self._world = world
        self._pipeline = pipeline
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipeline, name)

    def feed(self, batch: Sequence[Message], now_ms: int, closing_ms: int, *more: Any) -> Effects:
        """As the core's, and compared."""
        effects = self._pipeline.feed(batch, now_ms, closing_ms, *more)
        self._world.fed(self._model, batch, now_ms, closing_ms, effects)
        return effects


class Life(Agent):
    """The agent alone, with simulated links and disk; nobody asks it how it is."""

    AGAIN_S = 0.0

    def __init__(self, world: Around, config: settings.Config, bits: SeededBits) -> None:
        boot = world.boot_clock()
        super().__init__(config, wall_ms=world.wall_ms, boot=boot, bits=bits, listen_s=0)
        self._world = world

    def _open(self, now_ms: int) -> Store:
        return self._world.opened(partial(super()._open, now_ms), now_ms)

    def _restore(self, jumped_ms: int) -> None:
        self._world.resumed(partial(super()._restore, jumped_ms))

    def _assemble(self, stream: settings.Stream, links: Any, thread: Any, clock: Any, odometers: Any) -> Any:
        disk = self._world.begun(thread, clock)
        unit = super()._assemble(stream, links, disk, clock, odometers)
        line = _line(stream, self._config, thread.store, links.pseudonym_key)
        model = self._world.beside(line, stream)
        pipeline: Any = Watched(self._world, unit.runner.pipeline, model)
        return unit._replace(runner=replace(unit.runner, pipeline=pipeline))

    async def _serve(self, units: Any, serving: Any) -> None:
        for other in serving:
            other.close()
        await super()._serve(units, [])

    async def _keep_source(self, unit: Any) -> None:
        [version] = {one.source.protocol for one in self._config.stream if one.name == unit.name}
        await self._world.serve_source(unit, 4 if version == "3.1.1" else 5)

    async def _keep_sink(self, unit: Any) -> None:
        await self._world.serve_sink(unit, self.counts.add)


def _line(stream: settings.Stream, config: settings.Config, store: Store, key: bytes | None) -> Line:
    """What the model is told of a stream."""
    return Line(
        name=stream.name,
        sink_topic=stream.sink.topic,
        schedule=settings.schedule(stream, settings.others_per_day(config, stream)),
        ahead_ms=stream.window.ahead,
        forget_ms=settings.forget_ms(stream.source, stream.window.forget),
        spread_ms=stream.sink.spread,
        catch_up_ms=stream.window.catch_up,
        max_meters=stream.source.max_meters,
        secret=store.secret,
        pseudonym_key=key,
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
