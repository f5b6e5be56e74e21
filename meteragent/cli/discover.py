"""The command `discover`: listen, then say what was found."""

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path

from meteragent import mqtt
from meteragent.config import read_secret
from meteragent.domain.errors import ConfigError, LinkError
from meteragent.tools.discover.heard import Listener
from meteragent.tools.discover.propose import Access, report

_SECONDS_MAX = 86_400


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `discover`."""
    parser.add_argument("--url", required=True, help="the broker: mqtt://host[:1883] or mqtts://host[:8883]")
    parser.add_argument(
        "--seconds", type=_seconds, default=60, metavar="N", help="default 60; Ctrl-C ends early"
    )
    parser.add_argument(
        "--topic", default="#", metavar="FILTER", help="what to listen to; default '#', everything"
    )
    parser.add_argument("--username", metavar="NAME")
    parser.add_argument("--password-file", metavar="FILE", type=Path, help="a file that holds the password")
    for flag in ("--ca-file", "--cert-file", "--key-file"):
        parser.add_argument(flag, metavar="FILE", type=Path, help="for mqtts://")


def _seconds(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) <= _SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"a whole number from 1 to {_SECONDS_MAX}, not {text!r}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Listen and report; returns the exit code."""
    logging.getLogger("meteragent").addHandler(logging.NullHandler())  # what fails is said below
    listener = Listener(lambda: time.monotonic_ns() // 1_000_000)
    try:
        endpoint = _endpoint(options)
        print(f"Listening on {endpoint.host}:{endpoint.port} for {options.seconds} s ..", file=sys.stderr)
        seconds = asyncio.run(_listen(endpoint, options, listener))
    except LinkError as error:
        hint = "; --topic with what this user may read?" if "subscription" in str(error) else ""
        return _failed(f"{error}{hint}")
    except (ConfigError, ValueError) as error:
        return _failed(str(error))
    if not listener.messages:
        return _failed(
            f"nothing was heard in {seconds} s: does the broker let this user read {options.topic!r}, and"
            " does anything send? Some devices send every few minutes: --seconds 600"
        )
    print(report(listener, _access(options), seconds))
    return 0


def _failed(why: str) -> int:
    print(f"meteragent: {why}", file=sys.stderr)
    return 1


def _endpoint(options: argparse.Namespace) -> mqtt.Endpoint:
    """Raises ValueError for an address that makes no sense, ConfigError for a file that cannot be read."""
    password = None
    if options.password_file is not None:
        password = read_secret("--password-file", options.password_file).decode()
    return mqtt.Endpoint.parse(
        options.url,
        username=options.username,
        password=password,
        ca_file=options.ca_file,
        cert_file=options.cert_file,
        key_file=options.key_file,
    )


def _access(options: argparse.Namespace) -> Access:
    names = ("username", "password_file", "ca_file", "cert_file", "key_file")
    given = tuple((name, str(value)) for name in names if (value := getattr(options, name)) is not None)
    return Access(options.url, given)


async def _listen(endpoint: mqtt.Endpoint, options: argparse.Namespace, listener: Listener) -> int:
    """Listen for so long, or until Ctrl-C; returns for how many seconds. Raises LinkError."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    started_s = loop.time()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    watching = asyncio.ensure_future(
        mqtt.watch(endpoint, "discover", [options.topic], listener.on_message, entropy=os.urandom)
    )
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait({watching, stopped}, timeout=options.seconds, return_when=asyncio.FIRST_COMPLETED)
    listened_s = round(loop.time() - started_s)
    if not watching.done():
        watching.cancel()
        stopped.cancel()
        await asyncio.wait({watching, stopped})
        return listened_s
    stopped.cancel()
    await asyncio.wait({stopped})
    watching.result()  # it never returns: this raises why it ended
    return listened_s
