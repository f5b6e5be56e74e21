"""What others wrote cannot steer a terminal: titles, the clipboard, colours, and the order of characters."""

import logging
import os
import pty
import re
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from meteragent.cli import main, schema
from meteragent.cli.outlet import LINE_MAX, EscapedStream, escape_invisible, escape_output

HOSTILE = {
    "the title": ("\x1b]0;pwned\x07", r"\x1b]0;pwned\x07"),
    "the clipboard": ("\x1b]52;c;cm0=\x07", r"\x1b]52;c;cm0=\x07"),
    "the screen": ("\x1b[2J\x1b[1;1H", r"\x1b[2J\x1b[1;1H"),
    "a sequence of one character": ("\x9b2J", r"\x9b2J"),
    "the line before": ("a\rb\b\x7f", r"a\rb\x08\x7f"),
    "the order of characters": ("a\u202eb\u2066\u200f", r"a\u202eb\u2066\u200f"),
    "what is not seen": ("a\u200b\ufeff\U000e0041", r"a\u200b\ufeff\U000e0041"),
    "half a character": ("\udc9b", r"\udc9b"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_steers_a_terminal_is_shown(what: str) -> None:
    """Control characters, marks of direction and invisible ones are written as escapes."""
    text, expected = HOSTILE[what]
    assert escape_invisible(text) == expected


def test_what_people_write_stays() -> None:
    """Tabs, lines, letters of any script, narrow spaces and emoji are written as they are."""
    text = "Zähler 1\t1\u202f024 kWh\n\u05d1\u05d9\u05ea  電気 ☀\n"
    assert escape_invisible(text) == text


def test_lines_are_bounded() -> None:
    """The end of a line that is too long is not shown; shorter ones beside it are whole."""
    assert escape_invisible("a" * 10 * LINE_MAX + "\nb\n") == "a" * LINE_MAX + " ..\nb\n"


@pytest.fixture
def screen() -> Iterator[tuple[IO[str], int]]:
    """A terminal as a stream, and the number by which what it got is read."""
    master, slave = pty.openpty()
    stream = os.fdopen(slave, "w", encoding="utf-8")
    yield stream, master
    stream.close()
    os.close(master)


def test_each_command_writes_to_a_terminal_through_an_outlet(
    screen: tuple[IO[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a command prints, its errors and its log reach the terminal as escapes, and a file as they are."""
    stream, master = screen
    hostile = "".join(text for text, _ in HOSTILE.values() if text.isascii())

    def run(_: object) -> int:
        sys.stdout.write(hostile + "\n")
        sys.stderr.write(hostile + "\n")
        logging.getLogger("meteragent").addHandler(handler := logging.StreamHandler())
        logging.getLogger("meteragent").warning("%s", hostile)
        logging.getLogger("meteragent").removeHandler(handler)
        return 0

    monkeypatch.setattr(schema, "run", run)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    assert main(["schema", "record"]) == 0
    assert (sys.stdout, sys.stderr) == (stream, stream)
    stream.flush()
    received = b""
    while received.count(b"\n") < 3 and select.select([master], [], [], 5)[0]:  # it may come in pieces
        received += os.read(master, 65_536)
    assert received.count(rb"\x1b]0;pwned\x07") == 3
    assert not set(received) & {0x1B, 0x07, 0x08, 0x7F}


def test_an_error_shows_what_is_in_a_file_s_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard error is an outlet even if it is no terminal, because logs are read on one later."""
    assert main(["check", str(tmp_path / "\x1b[2J.toml")]) == 78
    error = capsys.readouterr().err
    assert r"\x1b[2J.toml" in error
    assert "\x1b" not in error


def test_a_file_gets_every_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output that is no terminal is not an outlet."""
    with (tmp_path / "out").open("w") as file, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", file)
        with escape_output():
            sys.stdout.write("\x1b[2J\n")
    assert (tmp_path / "out").read_text() == "\x1b[2J\n"


def test_a_line_is_rewritten(screen: tuple[IO[str], int]) -> None:
    """A carriage return of ours, at the beginning, moves to the beginning of the line."""
    stream, master = screen
    EscapedStream(stream).write("\rm1 5 W\r")
    stream.flush()
    assert os.read(master, 100) == b"\rm1 5 W\\r"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Warning: x", 33),
        ("meteragent: no such file", 31),
        ("All is well.", 32),
        ("Stream main: power", None),
    ],
)
def test_a_terminal_gets_three_colours(
    screen: tuple[IO[str], int], monkeypatch: pytest.MonkeyPatch, text: str, code: int | None
) -> None:
    """Warnings, failures and good verdicts have one each, unless NO_COLOR is set or the terminal is dumb."""
    stream, master = screen
    for environment, has_colours in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        for name, value in {"NO_COLOR": "", "TERM": "xterm", **environment}.items():
            monkeypatch.setenv(name, value)
        EscapedStream(stream).write(text)
        stream.flush()
        received = os.read(master, 200).decode()
        assert (f"\x1b[{code}m" in received) is (has_colours and code is not None)
        assert re.sub(r"\x1b\[\d+m", "", received) == text
