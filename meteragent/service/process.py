"""How a service logs, and runs until a signal stops it."""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Awaitable


def log_to_stderr(level: int) -> None:
    """Log messages of `level` and above, except other packages' debug messages, which may hold readings."""
    logging.basicConfig(level=max(level, logging.INFO), format="%(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("meteragent").setLevel(level)


async def until_signalled(work: Awaitable[object]) -> None:
    """Run a service, or other work, until it ends or SIGTERM or SIGINT stops it. Raises the work's error."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task
