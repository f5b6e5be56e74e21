"""The page without an agent: its server with a real configuration and with state that a test sets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from meteragent import config
from meteragent.agent.page import history as page_history
from meteragent.agent.page import serve
from meteragent.agent.page import view as page
from meteragent.agent.viewers import Viewers
from meteragent.core.arrivals import ArrivalRow
from meteragent.core.deadlines import Upcoming
from meteragent.core.pending import Pending
from meteragent.core.timeline import Timeline
from meteragent.domain.commit import Outgoing, Receiver
from meteragent.domain.counters import Counts
from meteragent.domain.grid import Calendar
from meteragent.domain.problem import Problem
from meteragent.domain.tariff import Tariff
from meteragent.domain.units import MICRO
from meteragent.store.grants import Action
from meteragent.store.outbox import DeliveredRow
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.support.configurations import written
from tests.support.crowd import group_text, make_group

START_MS = 1_795_200_000_000
BANDS = """
[[window.band]]
name = "day"
days = "mon-fri"
hours = ["07:00/23:00"]
[[window.band]]
name = "evening"
days = "sat,sun"
hours = ["18:00/22:00"]
"""
TOKEN = b"0123456789abcdef"


def seen(stream: config.Stream) -> page.StreamView:
    """Return the page's view of a stream."""
    receiver = Receiver(stream.name, stream.sink.topic)
    return page.StreamView(stream, Fraction(0), None, list, lambda _: True, lambda _: None, receiver)


def named(view: page.StreamView, name: str) -> page.StreamView:
    """Return the view of the same stream under another name."""
    return replace(view, stream=view.stream.model_copy(update={"name": name}))


def delivered(topic: str, payload: bytes, left_ms: int) -> DeliveredRow:
    """Return a row of the stream `main` that was delivered when it was due."""
    return DeliveredRow("main", topic, payload, left_ms, left_ms)


@dataclass
class FakeView:
    """What the page can read, as `meteragent.agent.page.view.View` has it."""

    streams: Sequence[page.StreamView]
    meter_state: Callable[[str, str], Awaitable[page.MeterState]]
    latest_payloads: Callable[[str, str, int], Awaitable[Sequence[bytes]]]
    counts: Counts
    problems: Callable[[], Awaitable[Sequence[Problem]]]
    compute_history: Callable[[str, str], Awaitable[page_history.History]]
    config: config.Config
    act: Callable[[str, str, str, int], Awaitable[str | None]]
    actions: dict[str, Action] = field(default_factory=dict)


class PageWorld:
    """The page's view of one stream `main`, whose state a test sets."""

    def __init__(self, extra: str = "", *, text: str = "", **sections: str) -> None:
        settings = config.parse(text or written(**sections) + extra)
        self.stream = settings.stream[0]
        self.viewers = Viewers()
        self.counts = Counts()
        self.acts: list[tuple[str, str]] = []
        self.meters = ["house"]
        self.now_ms = START_MS
        self.spent = {"today": Fraction(7, 220), "month": Fraction(900, 220), "start": Fraction(9000, 220)}
        self.last: DeliveredRow | None = None
        self.history: list[bytes] = []
        self.glances = 0
        self.upcoming: Upcoming | None = None
        self.timelines: dict[str, Timeline] = {}
        self.descriptor = describe_terms(config.terms(self.stream))
        self.window_descriptors: list[bytes] = []
        self.tariffs: tuple[Tariff, ...] = ()
        self.sink_is_connected = True
        self.allowance: page.Allowance | None = None
        self.reports: page.Reports | None = None
        self.arrivals: tuple[ArrivalRow, ...] = ()
        stream_view = replace(seen(self.stream), meters=lambda: self.meters, arrivals=lambda: self.arrivals)
        self.problems: list[Problem] = []
        self.view: Any = FakeView(
            [stream_view],
            *(self._glance, self._history, self.counts, self._problems, self._past, settings, self._act),
        )

    @property
    def clock_ms(self) -> int:
        """The time in milliseconds."""
        return self.now_ms

    async def _glance(self, _stream: str, _meter: str) -> page.MeterState:
        self.glances += 1
        sides = {"source_is_connected": True, "sink_is_connected": self.sink_is_connected}
        return page.MeterState(
            self.now_ms,
            self.spent,
            self.last,
            0,
            None,
            **sides,
            upcoming=self.upcoming,
            allowance=self.allowance,
            reports=self.reports,
        )

    async def _history(self, _stream: str, _topic: str, limit: int) -> Sequence[bytes]:
        return self.history[-limit:]

    async def _past(self, _stream: str, _meter: str) -> page_history.History:
        released = page_history.TopicRecords(self.history, [], config.schedule(self.stream))
        return page_history.build_history(released, self.now_ms, self.tariffs)

    async def _act(self, verb: str, name: str, _origin: str, known_id: int) -> str | None:
        """Note an action, as the store does; the first refused name is unknown."""
        if name not in [receiver.name for receiver in self.view.config.receiver]:
            return "unknown"
        if known_id != len(self.acts):
            return "outdated"
        self.acts.append((verb, name))
        return None

    async def _problems(self) -> Sequence[Problem]:
        return self.problems

    @asynccontextmanager
    async def serving(
        self, *, port: int, routes: tuple[page.Route, ...] = (), **settings: Any
    ) -> AsyncIterator["asyncio.Task[None]"]:
        """Run the server until the block ends; it listens when the block starts."""
        page_settings = page.Settings(port=port, **settings)
        task = asyncio.create_task(serve(page_settings, self.view, self.viewers, routes))
        await asyncio.wait({task}, timeout=0)
        if task.done():
            task.result()
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})

    def read(self, watts: float, time_ms: int, meter: str = "house") -> None:
        """Show an accepted reading and its span to the page's viewers, as the core does."""
        observer, value_u = self.viewers.observer_of("main"), round(watts * MICRO)
        if observer is None:
            return
        observer.note_reading(meter, time_ms, value_u)
        terms = config.terms(self.stream)
        timeline = self.timelines.setdefault(meter, Timeline(terms, time_ms - time_ms % terms.length_ms))
        timeline.observe = partial(observer.note_span, meter)
        timeline.accept_reading(Pending(time_ms, value_u, None))
        timeline.integrate_to_watermark(time_ms)

    def record(self, start_ms: int, quanta: int, meter: str = "house") -> bytes:
        """Return a record as it leaves."""
        return RecordFormat.of(self.descriptor).encode(meter, start_ms, 0, quanta)

    def window(self, start_ms: int, *quanta: int) -> list[bytes]:
        """Return the records of a window of the local calendar, and keep its descriptor."""
        descriptor = describe_terms(config.schedule(self.stream).terms_at(start_ms))
        self.window_descriptors.append(descriptor.encode_message("house", start_ms))
        record = RecordFormat.of(descriptor).encode
        return [record("house", start_ms, index, value) for index, value in enumerate(quanta)]

    def release(self, start_ms: int, quanta: int, meter: str = "house") -> bytes:
        """Pass a committed record on to the page's viewers, as the runner does, and return it."""
        payload = self.record(start_ms, quanta, meter)
        if meter in self.timelines:
            # the core integrates up to the slot's end before it closes the slot
            self.timelines[meter].integrate_until(start_ms + config.terms(self.stream).step_ms)
        self.viewers.queue_records(
            "main", [Outgoing("main", f"private/{meter}/power", payload, start_ms, False)]
        )
        return payload


def tariff_world() -> PageWorld:
    """Return a world whose stream sends the energy of tariff bands each month, and two closed months."""
    world = PageWorld(
        BANDS,
        source="kind = 'register'\nunit = 'kWh'\nevery = '10s'\ndead_band = 0.001",
        privacy="preset = 'tariff'",
        window="length = '1mo'\ntimezone = 'Europe/Amsterdam'\nrest = 'night'",
    )
    night = Tariff("night", {"day": 0.34, "evening": 0.22, "night": 0.22}, fee=11)
    world.tariffs = Tariff("flat", {"day": 0.3, "evening": 0.3, "night": 0.3}, fee=9.5), night
    calendar = Calendar("Europe/Amsterdam", "1mo")
    month_ms = calendar.start_ms(world.now_ms)
    for quanta in ((91_000, 14_200, 70_400, 300), (98_100, 13_900, 75_000, -700)):
        month_ms = calendar.start_ms(month_ms - 1)
        world.history = world.window(month_ms, *quanta) + world.history
    start_ms, end_ms = calendar.start_ms(world.now_ms), calendar.end_ms(calendar.start_ms(world.now_ms))
    world.upcoming = Upcoming(start_ms, end_ms, end_ms + 60_000)
    return world


def crowd_world(folder: Path) -> PageWorld:
    """Return a world whose stream counts in the total of a group, with three reports sent."""
    (folder / "group.toml").write_text(group_text())
    text = f"""
[source]
topic = "meters/{{meter}}/power"
kind = "power"
unit = "W"
[sink.crowd]
group = "{folder / "group.toml"}"
id = "{make_group().id.hex()}"
"""
    world = PageWorld(text=text)
    world.reports = page.Reports(3, 1, 0, START_MS, has_keys=True)
    start_ms = world.now_ms - world.now_ms % 1_800_000
    world.upcoming = Upcoming(start_ms, start_ms + 1_800_000, start_ms + 1_800_000)
    return world
