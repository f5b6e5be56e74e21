"""The `profile` command: show what a profile reads, drops and refuses in recorded payloads."""

import argparse
import difflib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from meteragent.cli.exit_codes import fail
from meteragent.cli.redact import LIMIT, read_recording, split_messages
from meteragent.config import profiles
from meteragent.decode import PayloadNumber
from meteragent.decode.profile import Profile, Quantity
from meteragent.decode.profiles import PROFILES
from meteragent.domain.counters import COUNTERS
from meteragent.domain.errors import ConfigError, PayloadError
from meteragent.domain.figures import count_text, exact_text
from meteragent.domain.refusal import unreadable_reason
from meteragent.domain.units import Kind

_SHOWN = 3
"""The largest number of readings that are all listed; of more, the first and the last are."""
_FIELDS_SHOWN = 20
"""The largest number of fields to list."""


@dataclass
class _Outcome:
    """A quantity's outcome in a recording: its readings, and the counters for the remaining messages."""

    numbers: list[PayloadNumber] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


def run(options: argparse.Namespace) -> int:
    """Test a profile; return 0, or 1 if nothing was read. Raises ConfigError if the profile is refused."""
    profile = _find_profile(options.config)
    print(f"{profile.name}: {profile.title}")
    read_count = 0
    for file in options.payloads:
        try:
            recorded = read_recording(file)
        except OSError as error:
            return fail(f"{file}: {unreadable_reason(error)}")
        if len(recorded) > LIMIT:
            return fail(f"{file}: larger than {LIMIT >> 20} MiB")
        lines, count = _test_profile(profile, recorded)
        read_count += count
        print("\n".join([f"\n{file}", *lines]))
    if not read_count:
        print("\nNo quantity was read: compare `value` and `match` with the payload.", file=sys.stderr)
    return 0 if read_count else 1


def _find_profile(path: Path) -> Profile:
    """Return a built-in profile or a profile from a file. Raises ConfigError if neither is usable."""
    name = str(path)
    close = [] if name in PROFILES or path.exists() else difflib.get_close_matches(name, PROFILES, n=1)
    if close:
        text = f"no such file, and no built-in profile has this name; did you mean {close[0]}?"
        raise ConfigError("", "no such file", "a file or a built-in profile", meant=close[0], text=text)
    return PROFILES[name] if name in PROFILES else profiles.read_profile(path)


def _test_profile(profile: Profile, recorded: bytes) -> tuple[list[str], int]:
    """Return the lines about a recording, and the number of readings."""
    received = split_messages(recorded)
    outcomes = {name: _read_outcome(quantity, received) for name, quantity in profile.quantities.items()}
    lines = [f"  {count_text(len(received), 'message')}"]
    for name, outcome in outcomes.items():
        lines += _quantity_lines(name, profile.quantities[name], outcome)
    lines += _dropped_lines(profile, [payload for _, payload in received])
    return lines, sum(len(outcome.numbers) for outcome in outcomes.values())


def _read_outcome(quantity: Quantity, received: Sequence[tuple[str | None, bytes]]) -> _Outcome:
    """Return a quantity's outcome in all messages except those on topics of other quantities."""
    outcome = _Outcome()
    for topic, payload in received:
        if topic is not None and quantity.topic is not None and not topic.endswith(f"/{quantity.topic}"):
            continue
        try:
            outcome.numbers += quantity.read(payload)
        except PayloadError as error:
            outcome.reasons[error.reason] += 1
    return outcome


def _quantity_lines(name: str, quantity: Quantity, outcome: _Outcome) -> Iterator[str]:
    """Yield the lines about a quantity: its readings, and why other messages yield no reading."""
    direction = f", {quantity.direction}" if quantity.direction else ""
    head = f"  {name} ({quantity.kind}{direction}): "
    numbers = [_number_text(number, quantity) for number in outcome.numbers]
    if len(numbers) > _SHOWN:
        numbers = [numbers[0], f".. {len(numbers) - 2} more ..", numbers[-1]]
    reasons = [
        f"{reason}{f' x {count}' if count > 1 else ''}: {COUNTERS[reason]}"
        for reason, count in sorted(outcome.reasons.items())
    ]
    if numbers or reasons:
        first_line, *later_lines = [*numbers, *reasons]
        yield head + first_line
        yield from (f"{' ' * len(head)}{line}" for line in later_lines)


def _number_text(number: PayloadNumber, quantity: Quantity) -> str:
    """Return a reading's number in W, Wh or the configured unit, its time, and its meter, if it names one."""
    unit = "W" if quantity.kind is Kind.POWER else "Wh"
    if quantity.scale is None:
        text = f"{number.number} in the configured unit"
    else:
        text = f"{exact_text(Fraction(number.number) * quantity.scale)} {unit}"
    time_text = "on arrival"
    if number.time_ms is not None:
        time_text = f"{datetime.fromtimestamp(number.time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
    return f"{text}, {time_text}" + (f", meter {number.id}" if number.id is not None else "")


def _dropped_lines(profile: Profile, payloads: Sequence[bytes]) -> Iterator[str]:
    """Yield the lines about fields that no quantity reads, and about the profile's personal fields."""
    paths = dict[str, None]()
    for payload in payloads:
        try:
            document = json.loads(payload)
        except (ValueError, RecursionError):
            continue
        for path in _leaf_paths(document):
            paths.setdefault(path)
    unread = [path for path in paths if path.rpartition(".")[2] not in profile.fields]
    if profile.fields and unread:
        more = f" and {len(unread) - _FIELDS_SHOWN} more" if len(unread) > _FIELDS_SHOWN else ""
        yield f"  dropped: {', '.join(unread[:_FIELDS_SHOWN])}{more}"
    parts = {part for path in paths for part in path.split(".")}
    if personal_fields := [name for name in profile.personal if name in parts]:
        names = ", ".join(personal_fields)
        yield f"  according to the profile, these identify somebody: {names}"


def _leaf_paths(node: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of a document's leaves; list elements have the path of their list, if it has one."""
    if isinstance(node, dict):
        for name, child in node.items():
            yield from _leaf_paths(child, f"{path}.{name}" if path else name)
    elif isinstance(node, list):
        for child in node:
            yield from _leaf_paths(child, path)
    elif path:
        yield path
