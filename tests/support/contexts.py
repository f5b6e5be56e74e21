"""What the streams of an agent share, over a store that a test has opened."""

from meteragent.agent.clock import SteadyClock
from meteragent.agent.environment import Context, Environment
from meteragent.agent.store_thread import StoreThread
from meteragent.agent.viewers import Viewers
from meteragent.config import Config
from meteragent.domain.counters import Counts
from meteragent.domain.problem import Alarms
from meteragent.service.boot_clock import BootClock


def context_of(config: Config, thread: StoreThread, counts: Counts, now_ms: int = 0) -> Context:
    """Return the context of an agent that listens for no other, whose clock stands."""
    boot = BootClock(lambda: 0, lambda: None)
    environment = Environment(wall_ms=lambda: now_ms, boot=boot, entropy=bytes, listen_s=0)
    clock = SteadyClock(lambda: now_ms, counts)
    if now_ms:
        clock.now_ms()
    return Context(config, environment, thread, clock, counts, Alarms(), Viewers(), {})
