"""The `redact` command: replace names and numbers in a recorded payload; report on standard error."""

import argparse
import difflib
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from meteragent.cli.exit_codes import fail
from meteragent.decode.profile import Profile
from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import FormatError, PayloadError
from meteragent.domain.figures import count_text
from meteragent.tools.redact import Redactor

LIMIT = 16 * 2**20
"""The largest size of a recording, in bytes."""
_KINDS = {
    "number": "numbers",
    "text": "texts",
    "key": "names of no built-in profile",
    "time": "times (moved)",
}
_WITH_TOPIC = re.compile(rb"([^\s{\[\"]*/[^\s{\[\"]*) (.+)", re.DOTALL)


def run(options: argparse.Namespace, entropy: Callable[[int], bytes] = os.urandom) -> int:
    """Redact a file; return 0, or 1 if the file cannot be read, is too large, or has an unknown format."""
    try:
        recording = read_recording(options.file)
    except OSError as error:
        return fail(f"{options.file}: {(error.strerror or 'an error').lower()}")
    if len(recording) > LIMIT:
        return fail(f"{options.file}: larger than {LIMIT >> 20} MiB: shorten the recording")
    redactor = Redactor(entropy, options.keep)
    try:
        redacted = _redact(recording, redactor)
    except FormatError as error:
        return fail(f"{options.file}: {error}: redact it by hand")
    sys.stdout.flush()
    if sys.stdout.isatty():
        sys.stdout.write(redacted.decode(errors="backslashreplace"))
    else:
        sys.stdout.buffer.write(redacted)
    sys.stdout.flush()
    for line in _lines(redactor, options.profile, recording, redacted):
        print(line, file=sys.stderr)
    return 0


def read_recording(name: str) -> bytes:
    """Read a recording, or standard input for `-`, at most one byte beyond `LIMIT`."""
    if name == "-":
        return sys.stdin.buffer.read(LIMIT + 1)
    with Path(name).open("rb") as file:
        return file.read(LIMIT + 1)


def _redact(recording: bytes, redactor: Redactor) -> bytes:
    """Redact a recording. Raises FormatError, which names the message, if a payload has an unknown format."""
    lines = []
    for number, (topic, payload) in enumerate(split_messages(recording), 1):
        prefix = b"" if topic is None else f"{redactor.redact_topic(topic)} ".encode()
        try:
            lines.append(prefix + redactor.redact_payload(payload))
        except FormatError as error:
            raise FormatError(f"message {number} is {error}") from None
    return lines[0] if len(lines) == 1 else b"\n".join([*lines, b""])


def parse_profile(name: str) -> Profile:
    """Parse the name of a device profile."""
    if name not in PROFILES:
        close = difflib.get_close_matches(name, PROFILES, n=1)
        hint = f"did you mean {close[0]!r}? Expected" if close else "expected"
        raise argparse.ArgumentTypeError(f"found {name!r}; {hint} one of {', '.join(PROFILES)}")
    return PROFILES[name]


def _lines(redactor: Redactor, profile: Profile | None, recording: bytes, redacted: bytes) -> list[str]:
    """Return lines about the replacements, how the profile reads the result, and what to check."""
    counts = [f"{_KINDS[kind]} {count:,}" for kind, count in sorted(redactor.replaced_counts.items())]
    lines = [f"replaced: {', '.join(counts) or 'nothing'}"]
    if redactor.replaced_counts["key"]:
        lines.append("to keep a name that identifies nobody but matters for the report, use --keep NAME")
    if profile is not None:
        lines += _comparison_lines(profile, recording, redacted)
    lines.append("Read the result before you post it: no program recognises every name.")
    return lines


def _comparison_lines(profile: Profile, recording: bytes, redacted: bytes) -> Iterator[str]:
    """Yield a line about each quantity: what is read from the result and, if different, from the original."""
    for name, quantity in profile.quantities.items():
        recorded_summary = _outcomes_text(quantity.read, split_payloads(recording))
        summary = _outcomes_text(quantity.read, split_payloads(redacted))
        difference = "as before" if recorded_summary == summary else f"before: {recorded_summary}"
        yield f"{profile.name}, {name}: {summary} ({difference})"


def split_payloads(recording: bytes) -> list[bytes]:
    """Split a recording into payloads, as `split_messages` does."""
    return [payload for _, payload in split_messages(recording)]


def split_messages(recording: bytes) -> list[tuple[str | None, bytes]]:
    """Split a recording into topics and payloads.

    Blank lines are ignored. Each line is a message if every line begins with a topic, or if there are several
    lines and each begins like a JSON object or list. In any other case, the whole recording is one payload.
    """
    lines = [line for line in recording.splitlines() if line.strip()]
    topic_matches = [_WITH_TOPIC.fullmatch(line) for line in lines]
    if lines and all(topic_matches):
        return [(match[1].decode(errors="replace"), match[2]) for match in topic_matches if match]
    is_json = len(lines) > 1 and all(line.lstrip()[:1] in (b"{", b"[") for line in lines)
    return [(None, payload) for payload in (lines if is_json else [recording])]


def _outcomes_text(read: Callable[[bytes], object], recording: list[bytes]) -> str:
    """Return the outcomes of all payloads, with counts if there are several payloads."""
    counts = Counter(outcome_text(read, payload) for payload in recording)
    if len(recording) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} x {text}" for text, count in sorted(counts.items()))


def outcome_text(read: Callable[[bytes], object], payload: bytes) -> str:
    """Return the number of readings in a payload, in words; if the payload is refused, the counter's name."""
    try:
        readings = read(payload)
    except PayloadError as error:
        return error.reason
    count = len(readings) if isinstance(readings, list | tuple) else 1
    return count_text(count, "reading")
