"""`run --rehearse`: show on this terminal what would be sent, until Ctrl-C or SIGTERM."""

import argparse
import asyncio
import logging
import os
import sys
import time
from functools import partial

from meteragent import config as settings
from meteragent.agent import parts
from meteragent.cli import admission, exit_codes
from meteragent.cli.tap import run_periodically
from meteragent.domain.errors import LinkError
from meteragent.domain.problem import connection_advice
from meteragent.mqtt.watch import watch_topics
from meteragent.privacy.sampling import SystemBits
from meteragent.service import boot_clock
from meteragent.service.process import forbid_dumps, run_until_signalled
from meteragent.tools.rehearse import Rehearsal, View

TICK_S = 0.2
"""The interval at which ended slots are shown, in seconds."""

_SHARES = (
    "there is nothing to rehearse for sink.crowd, because a home sends only shares, which are random numbers."
)
_NO_TERMINAL = (
    "a rehearsal shows raw readings, which must not end up in a file or a log: run it in a terminal."
)


def run(options: argparse.Namespace) -> int:
    """Show what would be sent, without opening the store; warn of coarse readings; return the exit code."""
    if not sys.stdout.isatty():
        return exit_codes.fail(_NO_TERMINAL)
    config = admission.load_acted(options.config, sys.stderr)
    if any(stream.group is not None for stream in config.stream):
        return exit_codes.fail(_SHARES, exit_codes.EXIT_CONFIG)
    for _, refusal in settings.reading_refusals(config):
        print(f"warning: {settings.locate_error(refusal, options.config)}", file=sys.stderr)
    forbid_dumps()
    logging.getLogger("meteragent").addHandler(logging.NullHandler())  # failures are printed below
    try:
        asyncio.run(_show_streams(config))
    except LinkError as error:
        print(f"\nmeteragent: {error}", file=sys.stderr)
        return exit_codes.EXIT_CRASH
    return 0


class _StreamDisplay:
    """One stream of the rehearsal, with its display."""

    def __init__(self, stream: settings.Stream) -> None:
        """Read the files that the stream names. Raises ConfigError if a file cannot be used."""
        self.broker, key = parts.source_broker(stream), parts.pseudonym_key(stream)
        self.rehearsal = Rehearsal(stream, key, os.urandom(32), SystemBits(), boot_clock.wall_ms())
        self.view = View(stream, self.rehearsal, partial(print, flush=True), _local_time)

    def take(self, topic: str, payload: bytes, retain: bool) -> None:
        """Process a message."""
        self.view.show(self.rehearsal.receive(topic, payload, retain, boot_clock.wall_ms()))

    def tick(self) -> None:
        """Show the slots that have ended."""
        self.view.show(self.rehearsal.advance(boot_clock.wall_ms()))

    async def listen(self) -> None:
        """Listen to the source, without a lasting session. Raises LinkError if the connection fails."""
        filters, hint = self.rehearsal.filters, partial(connection_advice, side="source")
        await watch_topics(self.broker, "rehearsal", filters, self.take, entropy=os.urandom, advice=hint)


async def _show_streams(config: settings.Config) -> None:
    """Rehearse all streams until SIGINT or SIGTERM. Raises LinkError if a connection fails."""
    stages = [_StreamDisplay(stream) for stream in config.stream]
    for stage in stages:
        stage.view.begin()
    try:
        ticks = (run_periodically(stage.tick, TICK_S) for stage in stages)
        await run_until_signalled(asyncio.gather(*(stage.listen() for stage in stages), *ticks))
    finally:
        for stage in stages:
            stage.view.end()


def _local_time(time_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time_ms / 1000))
