"""The `discover` command: listen to a broker, then propose a configuration for each meter."""

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from meteragent import mqtt
from meteragent.cli import common, exit_codes
from meteragent.config import PROFILES_FOLDER, all_profiles, read_password
from meteragent.domain.errors import ConfigError, LinkError
from meteragent.mqtt.watch import watch_topics
from meteragent.tools.discover import Access, Listener, find_meters, progress_line, report_text

_SECONDS_MAX = 86_400
_PROGRESS_EVERY_S = 10


@common.argument
def parse_seconds(text: str) -> int:
    """Parse a number of seconds. Raises ValueError if it is not a whole number from 1 to `_SECONDS_MAX`."""
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) <= _SECONDS_MAX:
        raise ValueError(f"a whole number from 1 to {_SECONDS_MAX}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Listen, and print the report; return 0, or 1 if listening fails or no message arrives."""
    logging.getLogger("meteragent").addHandler(logging.NullHandler())  # failures are printed below
    listener = Listener(lambda: time.monotonic_ns() // 1_000_000)
    try:
        access = Access.of(options.url, vars(options))
        endpoint, profiles = _endpoint(access, options.password_file), all_profiles(Path(PROFILES_FOLDER))
        print(f"Listening to {endpoint.host}:{endpoint.port} for {options.seconds} s …", file=sys.stderr)
        seconds = asyncio.run(_listen(endpoint, options, listener))
    except LinkError as error:
        return exit_codes.fail(common.connection_failure(error))
    except (ConfigError, ValueError) as error:
        return exit_codes.fail(error)
    if not listener.message_count:
        return exit_codes.fail(silence_advice(seconds, f" {options.topic!r}"))
    text = report_text(listener, access, seconds, profiles)
    print(find_meters(listener, profiles).to_json(access) if options.json else text)
    return 0


def _endpoint(access: Access, password_file: Path | None) -> mqtt.Endpoint:
    """Return the broker to listen to. Raises ConfigError if its address or a file cannot be used."""
    password = None if password_file is None else read_password("--password-file", password_file)
    try:
        return access.endpoint(password)
    except ValueError as error:
        raise ConfigError("--url", str(error), "mqtt://host[:port] or mqtts://host[:port]") from None


def silence_advice(seconds: int, topic: str = "") -> str:
    """Return what to do if no message arrived."""
    return (
        f"no message arrived in {seconds} s: does the broker let this user read{topic}, and is anything"
        " publishing? Some devices send every few minutes: --seconds 600"
    )


async def listen(endpoint: mqtt.Endpoint, name: str, topic: str, seconds: float, listener: Listener) -> None:
    """Listen until the time is up. Raises LinkError if the connection fails."""
    watching = watch_topics(endpoint, name, [topic], listener.on_message, entropy=os.urandom)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(watching, _show_progress(listener))


async def _show_progress(listener: Listener) -> None:
    """Write a progress line every `_PROGRESS_EVERY_S` seconds if standard error is a terminal."""
    seconds = 0
    while sys.stderr.isatty():
        await asyncio.sleep(_PROGRESS_EVERY_S)
        seconds += _PROGRESS_EVERY_S
        print(progress_line(listener, seconds), file=sys.stderr)


async def _listen(endpoint: mqtt.Endpoint, options: argparse.Namespace, listener: Listener) -> int:
    """Listen until the time is up or Ctrl-C is pressed; return the time spent listening, in whole seconds."""
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    task = asyncio.ensure_future(listen(endpoint, "discover", options.topic, options.seconds, listener))
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    with suppress(asyncio.CancelledError):
        await task
    return round(loop.time() - started_s)
