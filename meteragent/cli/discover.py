"""The `discover` command: listen to a broker, then propose a configuration for each meter."""

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path

from meteragent import mqtt
from meteragent.cli import common
from meteragent.config import PROFILES_FOLDER, all_profiles, read_password
from meteragent.domain.errors import ConfigError, LinkError
from meteragent.mqtt.watch import watch
from meteragent.tools.discover import Access, Listener, progress, report

_SECONDS_MAX = 86_400
_PROGRESS_EVERY_S = 10


def _seconds(text: str) -> int:
    """Parse a number of seconds. Raises ValueError if it is not a whole number from 1 to `_SECONDS_MAX`."""
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) <= _SECONDS_MAX:
        raise ValueError(f"a whole number from 1 to {_SECONDS_MAX}")
    return int(text)


parse_seconds = common.argument(_seconds)


def run(options: argparse.Namespace) -> int:
    """Listen, and print the report; return 0, or 1 if listening fails or no message arrives."""
    logging.getLogger("meteragent").addHandler(logging.NullHandler())  # failures are printed below
    listener = Listener(lambda: time.monotonic_ns() // 1_000_000)
    try:
        endpoint, profiles = _endpoint(options), all_profiles(Path(PROFILES_FOLDER))
        print(f"Listening to {endpoint.host}:{endpoint.port} for {options.seconds} s …", file=sys.stderr)
        seconds = asyncio.run(_listen(endpoint, options, listener))
    except LinkError as error:
        return _report_failure(common.connection_failure(error))
    except (ConfigError, ValueError) as error:
        return _report_failure(str(error))
    if not listener.messages:
        return _report_failure(
            f"no message arrived in {seconds} s: does the broker let this user read {options.topic!r}, and"
            " is anything publishing? Some devices send every few minutes: --seconds 600"
        )
    print(report(listener, _access(options), seconds, profiles))
    return 0


def _report_failure(reason: str) -> int:
    """Print the reason for a failure; return the exit code."""
    print(f"meteragent: {reason}", file=sys.stderr)
    return 1


def _endpoint(options: argparse.Namespace) -> mqtt.Endpoint:
    """Return the broker to listen to. Raises ConfigError if its address or a file cannot be used."""
    password = None
    if options.password_file is not None:
        password = read_password("--password-file", options.password_file)
    try:
        return mqtt.Endpoint.parse(
            options.url,
            username=options.username,
            password=password,
            client_id=options.client_id,
            ca_file=options.ca_file,
            cert_file=options.cert_file,
            key_file=options.key_file,
        )
    except ValueError as error:
        raise ConfigError("--url", str(error), "mqtt://host[:port] or mqtts://host[:port]") from None


def _access(options: argparse.Namespace) -> Access:
    """Return the broker's address, login and TLS files for the proposed configurations."""
    names = ("client_id", "username", "password_file", "ca_file", "cert_file", "key_file")
    logins = tuple((name, str(value)) for name in names if (value := getattr(options, name)) is not None)
    return Access(options.url, logins)


async def tell(listener: Listener) -> None:
    """Write a progress line every `_PROGRESS_EVERY_S` seconds if standard error is a terminal."""
    seconds = 0
    while sys.stderr.isatty():
        await asyncio.sleep(_PROGRESS_EVERY_S)
        seconds += _PROGRESS_EVERY_S
        print(progress(listener, seconds), file=sys.stderr)


async def _listen(endpoint: mqtt.Endpoint, options: argparse.Namespace, listener: Listener) -> int:
    """Listen until the time is up or Ctrl-C is pressed; return the time spent listening, in whole seconds.

    Raises LinkError if the connection fails.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    started_s = loop.time()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    watch_task = asyncio.ensure_future(
        watch(
            endpoint,
            "discover",
            [options.topic],
            listener.on_message,
            entropy=os.urandom,
        )
    )
    stop_task = asyncio.ensure_future(stop.wait())
    progress_task = asyncio.ensure_future(tell(listener))
    await asyncio.wait({watch_task, stop_task}, timeout=options.seconds, return_when=asyncio.FIRST_COMPLETED)
    progress_task.cancel()
    listened_s = round(loop.time() - started_s)
    if not watch_task.done():
        watch_task.cancel()
        stop_task.cancel()
        await asyncio.wait({watch_task, stop_task})
        return listened_s
    stop_task.cancel()
    await asyncio.wait({stop_task})
    watch_task.result()  # raises the error that ended the task; nothing else ends it
    return listened_s
