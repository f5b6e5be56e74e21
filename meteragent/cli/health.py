"""The `health` command: show the state of the running agent, collector or operator of a crowd."""

import argparse
import json
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from meteragent import config
from meteragent.agent.watch import METERS_QUESTION
from meteragent.cli import common, exit_codes
from meteragent.collect import configuration as collector
from meteragent.core.arrivals import ArrivalRow
from meteragent.domain.counters import COUNTERS
from meteragent.domain.errors import ConfigError
from meteragent.domain.figures import count_text
from meteragent.domain.grid import duration_text, iso_time
from meteragent.domain.refusal import text_of_file
from meteragent.service.health import ask_socket, socket_path
from meteragent.service.vitals import METRICS_QUESTION
from meteragent.store.disk import DISK_FULL, has_room


def run(options: argparse.Namespace) -> int:
    """Print the service's report, unless `--quiet`; return 1 if there is a problem or no service answers."""
    service, command, path = _service_of(options.config)
    answer = ask_socket(
        path, METRICS_QUESTION if options.metrics else METERS_QUESTION if options.meters else b""
    )
    if answer is None:
        print(f"meteragent: no {service} answers at {path.absolute()}: {_why_silent(path)}.", file=sys.stderr)
        print(f"Start the {service}: meteragent {command} {options.config}", file=sys.stderr)
        return exit_codes.EXIT_CRASH
    document = json.loads(answer)
    if options.metrics:
        print(document["metrics"], end="")
    elif not options.quiet:
        print(answer if options.json else as_text(document, has_arrivals=options.meters))
    return 0 if document["healthy"] else exit_codes.EXIT_CRASH


def _why_silent(path: Path) -> str:
    """Return the probable reason why no service answers at a socket."""
    store = path.with_name(path.name.removesuffix(".health"))
    if not has_room(path):
        return DISK_FULL
    is_new = store != path and not os.access(store, os.F_OK)
    return "the store does not exist yet" if is_new else "it runs as another user, or not at all"


def _service_of(path: Path) -> tuple[str, str, Path]:
    """Return a configuration's service, the command that runs it, and its socket. Raises ConfigError."""
    try:
        keys = tomllib.loads(text_of_file(path)).keys()
    except tomllib.TOMLDecodeError:
        keys = {}.keys()
    if {"database", "dataset"} & keys:
        settings = collector.load(path)
        if settings.health is None:
            expected = "[health] with a socket, such as '/run/meteragent-collect/health'"
            raise ConfigError("health", "nothing: this collector answers nobody", expected)
        return "collector", "collect", settings.health.socket
    if "group_file" not in keys:
        return "agent", "run", socket_path(config.load(path).store.path)
    if common.report_missing_extra("crowd", "crowd"):
        raise SystemExit(exit_codes.EXIT_CRASH)
    from meteragent.operators import configuration  # noqa: PLC0415 -- it needs the extra

    # The files that the configuration names may belong to another user, and are not read.
    store = configuration.parse(text_of_file(path)).store.path
    return "operator", "crowd ROLE", socket_path(store)


def as_text(document: dict[str, Any], *, has_arrivals: bool = False) -> str:
    """Return the vitals of a service, parsed from its JSON, as text for a terminal."""
    arrivals = _arrival_lines(document) if has_arrivals else ()
    return "\n".join((*_state_lines(document), *_count_lines(document), *arrivals))


def _state_lines(document: dict[str, Any]) -> Iterator[str]:
    """Yield the lines about the problems, the agent's streams and an operator's last slots."""
    running = duration_text(round(document["running_s"]) * 1000, 2)
    yield f"meteragent {document['version']} ({document['service']}), running for {running}"
    for item, text in zip(document["problem_details"], document["problems"], strict=True):
        yield f"Problem: {text}"
        yield f"  What to do: {item['cure']} ({item['code']})"
    if document["state"] == "well":
        yield "All is well."
    elif document["state"] == "waiting":
        silent = [stream["name"] for stream in document.get("streams", ()) if stream["is_waiting"]]
        names = f" of: {', '.join(silent)}" if silent else ""
        yield f"Waiting for the first message{names}."
    yield from map(_stream_line, document.get("streams", ()))
    for slot_s, result, homes in document.get("slots", ())[-3:]:
        yield f"Slot {iso_time(slot_s * 1000)}: {result}" + (f", homes: {homes:,}" if homes else "")


def _count_lines(document: dict[str, Any]) -> Iterator[str]:
    """Yield the counts that are not 0, with their meanings, and an operator's refusals."""
    counts = document["counts"]
    if names := [name for name in dict.fromkeys((*COUNTERS, *sorted(counts))) if counts.get(name)]:
        yield "Since the start:"
    for name in names:
        meaning = COUNTERS.get(name, "") if document["service"] == "agent" else ""
        yield f"  {name:<16} {counts[name]:>10,}  {meaning}".rstrip()
    for name, count in sorted(document.get("refusals", {}).items()):
        yield f"  {f'refused: {name}':<24} {count:>10,}"


def _stream_line(stream: dict[str, Any]) -> str:
    shard = "" if stream["shard"] is None else f", shard {stream['shard']}"
    group = "" if stream["group"] is None else f", in the total of the group {stream['group']}"
    messages = count_text(stream["waiting"], "message" if stream["group"] is None else "report")
    meters = count_text(stream["meters"], "meter")
    return f"Stream {stream['name']}{shard}: {meters}{group}, {messages} waiting to be sent"


def _arrival_lines(document: dict[str, Any]) -> Iterator[str]:
    """Yield a table of what has arrived from each meter and phase, for people at the device."""
    table = "{:<24} {:<24} {:>10} {:>14} {:>14}  {}"
    for stream in document.get("streams", ()):
        yield f"Stream {stream['name']}:"
        yield table.format("meter", "phase", "messages", "last", "counted", "")
        for row in (ArrivalRow(*cells) for cells in stream["arrivals"]):
            ago = [
                "never" if ago_ms is None else duration_text(max(ago_ms, 1000) // 1000 * 1000, 2)
                for ago_ms in (row.heard_ago_ms, row.counted_ago_ms)
            ]
            yield table.format(row.meter, row.phase or "", f"{row.messages:,}", *ago, row.code or "")
