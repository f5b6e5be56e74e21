"""The command `redact`: print a recorded payload without names and numbers; report to standard error."""

import argparse
import difflib
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from meteragent.decode.profile import Profile
from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import PayloadError
from meteragent.tools.redact.text import Redactor

LIMIT = 16 * 2**20
"""The largest recording, in bytes."""
_KINDS = {
    "number": "numbers",
    "text": "texts",
    "key": "keys that are not known words",
    "time": "times (moved)",
}
_WITH_TOPIC = re.compile(rb"([^\s{\[\"]*/[^\s{\[\"]*) (.+)", re.DOTALL)


def run(options: argparse.Namespace, entropy: Callable[[int], bytes] = os.urandom) -> int:
    """Redact a file; return the exit code."""
    try:
        recorded = _read(options.file)
    except OSError as error:
        print(f"meteragent: {options.file}: {(error.strerror or 'an error').lower()}", file=sys.stderr)
        return 1
    if len(recorded) > LIMIT:
        print(f"meteragent: {options.file}: larger than {LIMIT >> 20} MiB: send less", file=sys.stderr)
        return 1
    redactor = Redactor(entropy, options.keep)
    redacted = redactor.payload(recorded)
    sys.stdout.flush()
    sys.stdout.buffer.write(redacted)
    sys.stdout.flush()
    for line in _report(redactor, options.profile, recorded, redacted):
        print(line, file=sys.stderr)
    return 0


def _read(name: str) -> bytes:
    """Read a recording, up to one byte beyond the limit."""
    if name == "-":
        return sys.stdin.buffer.read(LIMIT + 1)
    with Path(name).open("rb") as file:
        return file.read(LIMIT + 1)


def parse_profile(name: str) -> Profile:
    """Parse the name of a device profile."""
    if name not in PROFILES:
        close = difflib.get_close_matches(name, PROFILES, n=1)
        hint = f"did you mean {close[0]!r}? Expected" if close else "expected"
        raise argparse.ArgumentTypeError(f"found {name!r}; {hint} one of {', '.join(PROFILES)}")
    return PROFILES[name]


def _report(redactor: Redactor, profile: Profile | None, recorded: bytes, redacted: bytes) -> list[str]:
    """Return the lines on what was replaced, and on how the profile reads the result."""
    counts = [f"{_KINDS[kind]} {count:,}" for kind, count in sorted(redactor.replaced.items())]
    lines = [f"replaced: {', '.join(counts) or 'nothing'}"]
    if redactor.replaced["key"]:
        lines.append("to keep a key that names nobody and matters for the report, use --keep NAME")
    if profile is not None:
        lines += _compared(profile, recorded, redacted)
    lines.append("Read the result before you post it: no program knows every name.")
    return lines


def _compared(profile: Profile, recorded: bytes, redacted: bytes) -> Iterator[str]:
    """Yield a line on each quantity that the profile reads in the result."""
    for name, quantity in profile.quantities.items():
        recorded_summary = _summary(quantity.read, payloads(recorded))
        summary = _summary(quantity.read, payloads(redacted))
        difference = "as before" if recorded_summary == summary else f"before: {recorded_summary}"
        yield f"{profile.name}, {name}: {summary} ({difference})"


def payloads(recorded: bytes) -> list[bytes]:
    """Split a recording into payloads, as `messages`."""
    return [payload for _, payload in messages(recorded)]


def messages(recorded: bytes) -> list[tuple[str | None, bytes]]:
    """Split a recording into topics and payloads.

    A line is a message if all lines follow a topic, or if all are JSON; otherwise the whole is one payload.
    """
    lines = [line for line in recorded.splitlines() if line.strip()]
    with_topic = [_WITH_TOPIC.fullmatch(line) for line in lines]
    if lines and all(with_topic):
        return [(match[1].decode(errors="replace"), match[2]) for match in with_topic if match]
    is_json = len(lines) > 1 and all(line.lstrip()[:1] in (b"{", b"[") for line in lines)
    return [(None, payload) for payload in (lines if is_json else [recorded])]


def _summary(read: Callable[[bytes], object], recorded: list[bytes]) -> str:
    """Return the outcomes of payloads, each with its count if there are several payloads."""
    counts = Counter(outcome(read, payload) for payload in recorded)
    if len(recorded) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} x {text}" for text, count in sorted(counts.items()))


def outcome(read: Callable[[bytes], object], payload: bytes) -> str:
    """Return the number of readings in a payload as text, or the counter of its refusal."""
    try:
        readings = read(payload)
    except PayloadError as error:
        return error.reason
    count = len(readings) if isinstance(readings, list | tuple) else 1
    return f"{count} reading{'s' if count != 1 else ''}"
