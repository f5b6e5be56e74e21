"""Times at which the machine stood still: what is late because of them is not the fault of the agent."""

import threading
import time
from typing import Final, Self

WAKE_S: Final = 0.01
NOTABLE_S: Final = 0.05
"""Below this, a thread that wakes late is part of the tolerance."""


class Stalls:
    """A thread that sleeps for 10 ms at a time and records when it was woken much later than that."""

    def __init__(self) -> None:
        self._stalls_ms: list[tuple[int, int]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            before_s = time.time()
            if self._ended.wait(WAKE_S):
                return
            late_s = time.time() - before_s - WAKE_S
            if late_s > NOTABLE_S:
                self._stalls_ms.append((int((before_s + WAKE_S) * 1000), int(time.time() * 1000)))

    def within_ms(self, start_ms: int, end_ms: int) -> int:
        """Return for how long the machine stood still between two times."""
        spans_ms = (min(end_ms, end) - max(start_ms, start) for start, end in self._stalls_ms)
        return sum(max(0, span_ms) for span_ms in spans_ms)
