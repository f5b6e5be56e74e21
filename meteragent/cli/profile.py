"""The `profile` command: show what a profile reads, drops and refuses in recorded payloads."""

import argparse
import difflib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
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
from meteragent.domain.grid import iso_time
from meteragent.domain.refusal import unreadable_reason
from meteragent.domain.units import Kind

_SHOWN = 3
"""Up to this number, all readings are listed; of more readings, only the first and the last."""
_FIELDS_SHOWN = 20
"""The largest number of fields to list."""


@dataclass
class _Outcome:
    """A quantity's outcome in a recording: its readings, and the counters for the remaining messages."""

    numbers: list[PayloadNumber] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Recording:
    """The result for a recording: each quantity's outcome, the fields not read, and the personal fields."""

    file: str
    message_count: int
    outcomes: Mapping[str, _Outcome]
    unread: Sequence[str]
    personal: Sequence[str]

    def lines(self, profile: Profile) -> Iterator[str]:
        """Yield the lines about the recording."""
        yield from ("", self.file, f"  {count_text(self.message_count, 'message')}")
        for name, outcome in self.outcomes.items():
            yield from _quantity_lines(name, profile.quantities[name], outcome)
        if self.unread:
            more_count = len(self.unread) - _FIELDS_SHOWN
            more = f" and {more_count} more" if more_count > 0 else ""
            yield f"  dropped: {', '.join(self.unread[:_FIELDS_SHOWN])}{more}"
        if self.personal:
            yield f"  according to the profile, these identify somebody: {', '.join(self.personal)}"

    def to_data(self, profile: Profile) -> dict[str, Any]:
        """Return the result for JSON, with all readings, and with exact numbers as strings."""
        quantities = {
            name: {
                "kind": profile.quantities[name].kind,
                "direction": profile.quantities[name].direction,
                "readings": [_number_fields(number, profile.quantities[name]) for number in outcome.numbers],
                "refused": outcome.reasons,
            }
            for name, outcome in self.outcomes.items()
        }
        fields = {"dropped": self.unread, "personal": self.personal}
        return {"file": self.file, "messages": self.message_count, "quantities": quantities, **fields}


def run(options: argparse.Namespace) -> int:
    """Test a profile; return 0, or 1 if nothing was read. Raises ConfigError if the profile is refused."""
    profile = _find_profile(options.config)
    tests = list[_Recording]()
    for file in options.payloads:
        try:
            recorded = read_recording(file)
        except OSError as error:
            return fail(f"{file}: {unreadable_reason(error)}")
        if len(recorded) > LIMIT:
            return fail(f"{file}: larger than {LIMIT >> 20} MiB")
        tests.append(_test_profile(profile, str(file), recorded))
    if options.json:
        data = {"profile": profile.name, "title": profile.title}
        print(json.dumps(data | {"recordings": [test.to_data(profile) for test in tests]}, indent=2))
    else:
        print(f"{profile.name}: {profile.title}")
        print("\n".join(line for test in tests for line in test.lines(profile)))
    if any(outcome.numbers for test in tests for outcome in test.outcomes.values()):
        return 0
    print("\nNo quantity was read: compare `value` and `match` with the payload.", file=sys.stderr)
    return 1


def _find_profile(path: Path) -> Profile:
    """Return a built-in profile or a profile from a file. Raises ConfigError if neither is usable."""
    name = str(path)
    close = [] if name in PROFILES or path.exists() else difflib.get_close_matches(name, PROFILES, n=1)
    if close:
        text = f"no such file, and no built-in profile has this name; did you mean {close[0]}?"
        raise ConfigError("", "no such file", "a file or a built-in profile", meant=close[0], text=text)
    return PROFILES[name] if name in PROFILES else profiles.read_profile(path)


def _test_profile(profile: Profile, file: str, recorded: bytes) -> _Recording:
    """Return what a profile reads in a recording, which fields no quantity reads, and the personal fields."""
    received = split_messages(recorded)
    outcomes = {name: _read_outcome(quantity, received) for name, quantity in profile.quantities.items()}
    paths = _paths_of([payload for _, payload in received])
    unread = [path for path in paths if path.rpartition(".")[2] not in profile.fields]
    parts = {part for path in paths for part in path.split(".")}
    personal = [name for name in profile.personal if name in parts]
    return _Recording(file, len(received), outcomes, unread if profile.fields else [], personal)


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
    if numbers and "refused_missing" in outcome.reasons:
        reasons.append("[match] in the profile's file can exclude other messages from refused_missing")
    if numbers or reasons:
        first_line, *later_lines = [*numbers, *reasons]
        yield head + first_line
        yield from (f"{' ' * len(head)}{line}" for line in later_lines)


def _number_fields(number: PayloadNumber, quantity: Quantity) -> dict[str, str | None]:
    """Return a reading's number, unit (W, Wh, or None for the configured unit), time and meter, if known."""
    unit = "W" if quantity.kind is Kind.POWER else "Wh"
    value = None if quantity.scale is None else exact_text(Fraction(number.number) * quantity.scale)
    time = None if number.time_ms is None else iso_time(number.time_ms)
    return {"value": value or str(number.number), "unit": value and unit, "time": time, "meter": number.id}


def _number_text(number: PayloadNumber, quantity: Quantity) -> str:
    """Return a reading in words: its number, its time and, if it names a meter, the meter."""
    value, unit, time, meter = _number_fields(number, quantity).values()
    text = f"{value} {unit or 'in the configured unit'}, {time or 'on arrival'}"
    return text + (f", meter {meter}" if meter is not None else "")


def _paths_of(payloads: Sequence[bytes]) -> list[str]:
    """Return the paths of all fields in JSON payloads, each once."""
    paths = dict[str, None]()
    for payload in payloads:
        with suppress(ValueError, RecursionError):
            paths |= dict.fromkeys(_leaf_paths(json.loads(payload)))
    return [*paths]


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
