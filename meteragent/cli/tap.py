"""The `tap` command: show raw readings next to the records sent, until Ctrl-C or SIGTERM."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from meteragent import config as settings
from meteragent.agent import parts
from meteragent.cli import admission, exit_codes
from meteragent.domain.errors import LinkError
from meteragent.domain.problem import connection_advice
from meteragent.mqtt import Endpoint
from meteragent.mqtt.watch import OnMessage, watch_topics
from meteragent.service import boot_clock
from meteragent.service.process import forbid_dumps, run_until_signalled
from meteragent.tools.tap.view import StreamView, View

TICK_S = 1.0
"""The interval at which sources are checked for silence, in seconds."""

_NO_TERMINAL = (
    "tap shows raw readings, which must not end up in a file or a log: run it in a terminal.\n"
    "To print the records that were sent, use: meteragent export CONFIG"
)
_write = partial(print, end="", flush=True)


def run(options: argparse.Namespace) -> int:
    """Show each stream's source and sink until Ctrl-C or SIGTERM; return the exit code."""
    if not sys.stdout.isatty():
        return exit_codes.fail(_NO_TERMINAL)
    config = admission.load_acted(options.config, sys.stderr)
    forbid_dumps()
    try:
        asyncio.run(_show_streams(config, options.meter))
    except LinkError as error:
        print(f"\nmeteragent: {error}", file=sys.stderr)
        return 1
    print()
    return 0


async def _show_streams(config: settings.Config, meter: str | None) -> None:
    """Listen to each stream's source and sink until a signal. Raises LinkError if a connection fails."""
    streams = [StreamView(config, stream, parts.pseudonym_key(stream), meter) for stream in config.stream]
    view = View(streams, _write, boot_clock.wall_ms)
    log_lines = LogLines(view)
    logging.getLogger("meteragent").addHandler(log_lines)
    sides = [
        side
        for stream, stream_view in zip(config.stream, streams, strict=True)
        for side in _tasks(stream, stream_view, view)
    ]
    view.begin()
    try:
        await run_until_signalled(asyncio.gather(*sides, run_periodically(view.tick, TICK_S)))
    finally:
        logging.getLogger("meteragent").removeHandler(log_lines)


async def run_periodically(act: Callable[[], None], period_s: float) -> None:
    """Run a function once in each period, forever."""
    while True:
        await asyncio.sleep(period_s)
        act()


class LogLines(logging.Handler):
    """A log handler that shows warnings and errors, such as a lost connection, between the rows."""

    def __init__(self, view: View) -> None:
        super().__init__(logging.WARNING)
        self._view = view

    def emit(self, record: logging.LogRecord) -> None:
        """Show a log record."""
        self._view.write_line(record.getMessage())


def _tasks(stream: settings.Stream, stream_view: StreamView, view: View) -> list[Coroutine[Any, Any, None]]:
    """Return coroutines that listen to a stream's source and sink; the sink is silent until a slot ends."""
    source = parts.source_broker(stream)
    sink = settings.read_endpoint("sink", settings.sink_url(stream), settings.sink_broker(stream))
    source_filters, sink_filters = stream_view.filters
    raw, note = partial(view.show_source_message, stream_view), partial(view.note_listening, stream_view)
    return [
        _watch_side("source", source, source_filters, raw, note),
        _watch_side("sink", sink, sink_filters, partial(view.show_sink_message, stream_view)),
    ]


async def _watch_side(
    side: str,
    endpoint: Endpoint,
    filters: Sequence[str],
    on_message: OnMessage,
    on_listening: Callable[[], None] = lambda: None,
) -> None:
    """Listen to a broker. Raises LinkError if the connection fails; its text names the key of the address."""
    listening = partial(watch_topics, endpoint, "tap", filters, on_message, on_listening=on_listening)
    try:
        await listening(entropy=os.urandom, advice=partial(connection_advice, side=side))
    except LinkError as error:
        raise LinkError(f"{side}.url: {error}") from None
