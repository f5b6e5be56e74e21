"""What the streams of an agent share, over a store that a test has opened."""

from meteragent.agent.clock import SteadyClock
from meteragent.agent.environment import Context, Environment
from meteragent.agent.store_thread import StoreThread
from meteragent.agent.viewers import Viewers
from meteragent.config import Config
from meteragent.domain.counters import Counts
from meteragent.domain.problem import Alarms
from meteragent.service.boot_clock import BootClock


def context_of(config: Config, thread: StoreThread, counts: Counts) -> Context:
    """Return the context of an agent that listens for no other, at the time 0."""
    boot = BootClock(lambda: 0, lambda: None)
    environment = Environment(wall_ms=lambda: 0, boot=boot, entropy=bytes, listen_s=0)
    clock = SteadyClock(lambda: 0, counts)
    return Context(config, environment, thread, clock, counts, Alarms(), Viewers(), {})
