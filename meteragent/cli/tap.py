"""The `tap` command: show raw readings next to the records sent, until Ctrl-C or SIGTERM."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from functools import partial
from typing import Any

from meteragent import config as settings
from meteragent.cli import common
from meteragent.domain.errors import LinkError
from meteragent.domain.problem import advice
from meteragent.mqtt.watch import watch
from meteragent.service.secrecy import forbid_dumps
from meteragent.tools.tap.view import StreamView, View

TICK_S = 1.0
"""The interval at which sources are checked for silence, in seconds."""

_NO_TERMINAL = (
    "meteragent: tap shows raw readings, which must not end up in a file or a log: run it in a terminal.\n"
    "To print the records that were sent, use: meteragent export CONFIG"
)


def run(options: argparse.Namespace) -> int:
    """Show each stream's source and sink until Ctrl-C or SIGTERM; return 0.

    Return 1 if standard output is not a terminal or a connection fails. Raises ConfigError if the
    configuration or a file that it names cannot be used.
    """
    if not sys.stdout.isatty():
        print(_NO_TERMINAL, file=sys.stderr)
        return 1
    config = settings.load(options.config)
    forbid_dumps()
    try:
        asyncio.run(_show(config, options.meter))
    except LinkError as error:
        print(f"\nmeteragent: {error}", file=sys.stderr)
        return 1
    print()
    return 0


def _write(text: str) -> None:
    """Write a string to the terminal, and flush it."""
    sys.stdout.write(text)
    sys.stdout.flush()


async def _show(config: settings.Config, meter: str | None) -> None:
    """Listen to each stream's source and sink until a signal. Raises LinkError if a connection fails."""
    streams = [StreamView(config, stream, _key(stream), meter) for stream in config.stream]
    view = View(streams, _write, common.now_ms)
    log_lines = LogLines(view)
    logging.getLogger("meteragent").addHandler(log_lines)
    sides = [
        side
        for stream, stream_view in zip(config.stream, streams, strict=True)
        for side in _sides(stream, stream_view, view)
    ]
    view.begin()
    try:
        await _until_signal([*sides, _tick(view)])
    finally:
        logging.getLogger("meteragent").removeHandler(log_lines)


async def _tick(view: View) -> None:
    """Let the view check its clock every TICK_S seconds, forever."""
    while True:
        await asyncio.sleep(TICK_S)
        view.tick()


class LogLines(logging.Handler):
    """A log handler that shows warnings and errors, such as a lost connection, between the rows."""

    def __init__(self, view: View) -> None:
        super().__init__(logging.WARNING)
        self._view = view

    def emit(self, record: logging.LogRecord) -> None:
        """Show a log record."""
        self._view.say(record.getMessage())


def _key(stream: settings.Stream) -> bytes | None:
    """Return a stream's pseudonym key; None if it has none. Raises ConfigError if the key cannot be read."""
    path = stream.sink.pseudonym_key_file
    return None if path is None else settings.read_secret("sink.pseudonym_key_file", path)


def _sides(stream: settings.Stream, stream_view: StreamView, view: View) -> list[Coroutine[Any, Any, None]]:
    """Return coroutines that listen to a stream's source and sink.

    Raises ConfigError if an address or a file cannot be used.
    """
    source = settings.endpoint("source", stream.source.url, stream.source)
    sink = settings.endpoint("sink", settings.sink_url(stream), settings.sink_broker(stream))
    source_filters, sink_filters = stream_view.filters
    return [
        _watch(
            f"{side}.url",
            watch(
                endpoint,
                "tap",
                filters,
                on_message,
                entropy=os.urandom,
                on_listening=on_listening,
                advice=partial(advice, side=side),
            ),
        )
        for side, endpoint, filters, on_message, on_listening in (
            (
                "source",
                source,
                source_filters,
                partial(view.raw, stream_view),
                partial(view.listening, stream_view),
            ),
            ("sink", sink, sink_filters, partial(view.released, stream_view), _do_nothing),
        )
    ]


def _do_nothing() -> None:
    """Do nothing: a sink is normally silent until a slot ends."""


async def _watch(key: str, watching: Coroutine[Any, Any, None]) -> None:
    """Await a coroutine that listens to a broker.

    Raises LinkError if the connection fails; its text names the key of the broker's address.
    """
    try:
        await watching
    except LinkError as error:
        raise LinkError(f"{key}: {error}") from None


async def _until_signal(sides: list[Coroutine[Any, Any, None]]) -> None:
    """Run all coroutines until SIGINT or SIGTERM, or until one ends. Raises the error of one that fails."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    tasks = {asyncio.ensure_future(side) for side in sides}
    stop_task = asyncio.ensure_future(stop.wait())
    finished, pending = await asyncio.wait({*tasks, stop_task}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.wait(pending or {stop_task})
    for task in finished - {stop_task}:
        task.result()
