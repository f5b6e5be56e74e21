"""`python -m simulators replay` in real time."""

import time

import numpy as np

from simulators.commands.replay import replay
from simulators.traces.trace import Trace
from tests.support.broker import Broker


async def test_pace(broker: Broker) -> None:
    """A factor of 16 takes a sixteenth of the time that the trace took."""
    trace = Trace(1_400_000_400_000 + 4000 * np.arange(3), np.array([1.0, 2.0, 3.0]))
    start_s = time.monotonic()
    assert await replay(trace, broker.url, "meters/{meter}/power", 1, 16.0) == 3
    assert 0.5 <= time.monotonic() - start_s < 8.0
