"""The agent's environment, and what all of its streams share while its store is open.

A simulation replaces `system_environment`, and simulates sockets and timers in the event loop.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from meteragent import config as settings
from meteragent.agent.clock import SteadyClock
from meteragent.agent.store_thread import StoreThread
from meteragent.agent.viewers import Viewers
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Stream
from meteragent.domain.commit import Snapshot
from meteragent.domain.counters import Counts
from meteragent.domain.problem import Alarms
from meteragent.privacy.bits import SecretBits
from meteragent.privacy.composition import Odometer
from meteragent.privacy.sampling import SystemBits
from meteragent.service.boot_clock import BootClock, boot_clock
from meteragent.service.process import Notify
from meteragent.store import Store, restore_at
from meteragent.store.grants import Action

LISTEN_S = 10.0
"""How long to wait for another agent's descriptor. Mosquitto sends retained messages at once, but a cluster
of brokers may take longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The parts of the outside world that an agent uses.

    wall_ms        the wall clock
    boot           the time since the machine's start; if `wall_ms` jumps ahead of it, the store may be a copy
    bits           the random bits from which noise is drawn
    entropy        random bytes for the pauses between connections
    open_store     opens the store: open_store(path, now_ms=now_ms, recovery_floor_ms=floor_ms)
    restore_store  prevents windows before `at_ms`: restore_store(path, at_ms=…, now_ms=…, take_over=…)
    store_thread   the class of the store's thread: StoreThread(store, keep_ms, max_bytes, streams, counts)
    pipeline       the class of a stream's core: Pipeline(stream, snapshot, spending, bits, counts)
    notify         the address at which systemd listens, and the interval of its watchdog
    listen_s       how long to listen for another agent's descriptor of a new meter; 0 disables this
    """

    wall_ms: Callable[[], int]
    boot: BootClock
    bits: SecretBits = field(default_factory=SystemBits)
    entropy: Callable[[int], bytes] = os.urandom
    open_store: Callable[..., Store] = Store.open
    restore_store: Callable[..., None] = restore_at
    store_thread: Callable[[Store, int, int, Collection[str], Counts], StoreThread] = StoreThread
    pipeline: Callable[[Stream, Snapshot, Spending, SecretBits, Counts], Pipeline] = Pipeline
    notify: Notify = field(default_factory=Notify)
    listen_s: float = LISTEN_S


def system_environment(wall_ms: Callable[[], int], notify: Notify) -> Environment:
    """Return the environment of the operating system: clocks, randomness and files."""
    return Environment(wall_ms=wall_ms, boot=boot_clock(), notify=notify)


@dataclass(frozen=True, slots=True)
class Context:
    """What all streams of an agent share while its store is open; `odometers` are by stream.

    `config` includes `actions`, the last action on each receiver; a newer action sets `has_acted`.
    """

    config: settings.Config
    environment: Environment
    thread: StoreThread
    clock: SteadyClock
    counts: Counts
    alarms: Alarms
    viewers: Viewers
    odometers: Mapping[str, Odometer]
    actions: Mapping[str, Action] = field(default_factory=dict)
    has_acted: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def store(self) -> Store:
        """The open store."""
        return self.thread.store
