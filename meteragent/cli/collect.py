"""The `collect` command: receive private records and keep each once in PostgreSQL or in Parquet files."""

import argparse
import asyncio
import importlib
import logging
import os
from pathlib import Path
from typing import Any

from meteragent.cli import common, exit_codes
from meteragent.collect import configuration
from meteragent.collect.sink import extra_of
from meteragent.collect.source import EXTRAS
from meteragent.domain.errors import ConfigError, LinkError
from meteragent.service import boot_clock
from meteragent.service.process import Notify, log_to_stderr, run_until_signalled


def run(options: argparse.Namespace) -> int:
    """Collect until a signal, check the configuration, or create the tables; return the exit code."""
    settings = configuration.load(options.config)
    socket = None if settings.health is None else settings.health.socket
    if socket is not None and not socket.parent.is_dir():
        raise ConfigError("health.socket", f"{socket}: its folder does not exist", "a folder that exists")
    extras = [extra_of(settings), *EXTRAS.get(settings.source.kind, ())]
    if options.check:
        print(_summary_text(settings, options.config))
    missing_count = sum(common.report_missing_extra(extra, "collect") for extra in extras)
    if options.check or missing_count:
        return exit_codes.EXIT_CRASH if missing_count else 0
    service = importlib.import_module("meteragent.collect.service")  # needs the extra
    log_to_stderr(logging.getLevelNamesMapping()[options.log_level.upper()])
    if options.create:
        return _create_tables(service, settings)
    notify = Notify.of(os.environ, os.getpid())
    collector = service.Service(settings, os.urandom, boot_clock.wall_ms, notify)
    asyncio.run(run_until_signalled(collector.run()))
    return 0


def _create_tables(service: Any, settings: configuration.Settings) -> int:
    """Create the tables unless they exist; return 0, or 1 if the connection fails."""
    try:
        is_new = asyncio.run(service.create_tables(settings))
    except LinkError as error:
        return exit_codes.fail(error)
    print("the tables are created" if is_new else "the tables exist already")
    return 0


def _summary_text(settings: configuration.Settings, path: Path) -> str:
    meters = settings.read_meters()
    hosts = [f"{server.host}:{server.port}" for server in settings.source.read_servers()]
    lines = [
        f"{path}: accepted",
        *(f"stream {stream.name}: {stream.topic}" for stream in settings.stream),
        "meters: all" if meters is None else f"meters: {len(meters)} on the list",
        f"source: {settings.source.kind} at {', '.join(hosts)} under the name {settings.source.client_id!r}",
    ]
    if settings.dataset is not None:
        lines.append(f"folder: {settings.dataset.folder}")
    if sink := settings.dataset or settings.database:
        lines.append(f"partitions: {sink.partition}")
    return "\n".join(lines)
