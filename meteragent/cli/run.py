"""The `run` command: run the agent until SIGTERM or SIGINT."""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable

from meteragent import config
from meteragent.agent import Agent, environment
from meteragent.agent.notify import Notify
from meteragent.cli import admission, common
from meteragent.cli.secrecy import forbid_dumps

COLLECT_AFTER = 10_000
"""Python looks for reference cycles after this many more objects are allocated than freed. Readings create no
cycles, and with many meters the search takes a long time."""


def run(options: argparse.Namespace) -> int:
    """Run the agent, or a rehearsal; return the exit code. Raises the error that ended the agent."""
    if options.rehearse:
        from meteragent.cli import rehearsal  # noqa: PLC0415  the agent itself does not need it

        return rehearsal.run(options)
    log_to_stderr(logging.getLevelNamesMapping()[options.log_level.upper()])
    settings = config.load(options.config)
    if admission.refused(options.config, settings, sys.stderr):
        return common.EXIT_CONFIG
    forbid_dumps()
    gc.set_threshold(COLLECT_AFTER)
    notify = Notify.of(os.environ, os.getpid())
    agent = Agent(settings, environment.system(common.now_ms, notify))
    asyncio.run(until_signalled(agent.run()))
    return 0


def log_to_stderr(level: int) -> None:
    """Log messages of `level` and above, except other packages' debug messages, which may hold readings."""
    logging.basicConfig(level=max(level, logging.INFO), format="%(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("meteragent").setLevel(level)


async def until_signalled(work: Awaitable[object]) -> None:
    """Run the agent, or other work, until it ends or SIGTERM or SIGINT stops it. Raises the work's error."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task
