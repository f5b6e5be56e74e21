"""Waiting for a real system, which reports nothing itself: its state is read again and again."""

import time
from collections.abc import Callable

POLL_S = 0.2


def wait_until(is_true: Callable[[], object], limit_s: float, poll_s: float = POLL_S) -> bool:
    """Wait until a condition holds; return False if it does not within `limit_s`."""
    end_s = time.monotonic() + limit_s
    while not is_true():
        if time.monotonic() > end_s:
            return False
        time.sleep(poll_s)
    return True
