"""The command `redact`: a recorded payload to standard output, and what was done to it to standard error."""

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
    "key": "keys that are no known words",
    "time": "times (moved)",
}
_WITH_TOPIC = re.compile(rb"[^\s{\[\"]*/[^\s{\[\"]* (.+)", re.DOTALL)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `redact`."""
    parser.add_argument("file", metavar="FILE", help="the recording; - for standard input")
    parser.add_argument(
        "--profile", metavar="NAME", type=_profile, help="say also whether this profile still reads the same"
    )
    parser.add_argument(
        "--keep",
        metavar="NAME",
        action="append",
        default=[],
        help="a key or word that names nobody and stays",
    )


def run(options: argparse.Namespace, entropy: Callable[[int], bytes] = os.urandom) -> int:
    """Redact a file; returns the exit code."""
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
    if name == "-":
        return sys.stdin.buffer.read(LIMIT + 1)
    with Path(name).open("rb") as file:
        return file.read(LIMIT + 1)


def _profile(name: str) -> Profile:
    if name not in PROFILES:
        close = difflib.get_close_matches(name, PROFILES, n=1)
        right = f"{close[0]!r}? Else one" if close else "one"
        raise argparse.ArgumentTypeError(f"found {name!r}; expected {right} of {', '.join(PROFILES)}")
    return PROFILES[name]


def _report(redactor: Redactor, profile: Profile | None, recorded: bytes, redacted: bytes) -> list[str]:
    done = [f"{_KINDS[kind]} {count}" for kind, count in sorted(redactor.replaced.items())]
    lines = [f"replaced: {', '.join(done) or 'nothing'}"]
    if redactor.replaced["key"]:
        lines.append("a key that names nobody and matters for the report stays with --keep NAME")
    if profile is not None:
        lines += _compared(profile, recorded, redacted)
    lines.append("Look at it before you post it: no program knows every name.")
    return lines


def _compared(profile: Profile, recorded: bytes, redacted: bytes) -> Iterator[str]:
    """What the profile makes of both, by quantity."""
    for name, quantity in profile.quantities.items():
        before, after = (_summary(quantity.read, payloads(one)) for one in (recorded, redacted))
        same = "as before" if before == after else f"before: {before}"
        yield f"{profile.name}, {name}: {after} ({same})"


def payloads(recorded: bytes) -> list[bytes]:
    """The payloads of a recording: one a line where each is JSON or has its topic before it, else one."""
    lines = [line for line in recorded.splitlines() if line.strip()]
    with_topic = [_WITH_TOPIC.fullmatch(line) for line in lines]
    if lines and all(with_topic):
        return [found[1] for found in with_topic if found]
    return (
        lines if all(line.lstrip()[:1] in (b"{", b"[") for line in lines) and len(lines) > 1 else [recorded]
    )


def _summary(read: Callable[[bytes], object], found: list[bytes]) -> str:
    counts = Counter(outcome(read, payload) for payload in found)
    if len(found) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} x {what}" for what, count in sorted(counts.items()))


def outcome(read: Callable[[bytes], object], payload: bytes) -> str:
    """How many readings a payload holds, or the name of the counter that counts it."""
    try:
        found = read(payload)
    except PayloadError as error:
        return error.reason
    count = len(found) if isinstance(found, list | tuple) else 1
    return f"{count} reading{'s' if count != 1 else ''}"
