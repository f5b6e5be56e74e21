"""`meteragent tap` on a topic that matches nothing."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from meteragent import config
from meteragent.cli import main
from meteragent.cli import tap as command
from meteragent.tools.lines import WIDTH
from meteragent.tools.tap import StreamView, View
from meteragent.tools.tap import view as display
from tests.support.configurations import TWO_STREAMS, written

SECOND_MS = 1000
START = 1_795_176_000_000
SILENT = (
    "stream main: no message has arrived for 20 s. Check that the meter is on, that it publishes on"
    " source.topic, and that the broker lets the agent read it: `meteragent discover` shows the messages"
    " that arrive."
)


class Terminal:
    """A view on a terminal that remembers its lines, with a clock of a test."""

    def __init__(self, text: str, meter: str | None = None) -> None:
        self.now_ms = START
        parsed = config.parse(text)
        self.streams = [StreamView(parsed, stream, None, meter) for stream in parsed.stream]
        self.written: list[str] = []
        self.view = View(self.streams, self.written.append, lambda: self.now_ms)

    def wait(self, seconds: int) -> str:
        """Let seconds pass; return the lines that were written in them, as one text."""
        self.written.clear()
        for _ in range(seconds):
            self.now_ms += SECOND_MS
            self.view.tick()
        assert all(len(text.strip("\r\n")) == WIDTH for text in self.written)
        return " ".join(text.strip() for text in self.written)


def written_here(**source: str) -> str:
    """Return a configuration whose broker is `here`."""
    return written(source="\n".join(['url = "mqtt://here"', *source.values()]))


def test_silence_is_named_once_after_20_seconds() -> None:
    """The line names the command that lists the messages; the time counts from the subscription."""
    shown = Terminal(written_here())
    assert shown.wait(60) == ""
    shown.view.note_listening(shown.streams[0])
    assert shown.wait(19) == ""
    shown.view.note_listening(shown.streams[0])  # connected again
    assert shown.wait(3) == SILENT
    assert shown.wait(600) == ""


@pytest.mark.parametrize(
    ("payload", "advice"), [(b"312", ""), (b"x", "stream main: messages arrive, but none has been accepted")]
)
def test_a_message_is_no_silence(payload: bytes, advice: str) -> None:
    """Neither is one that is refused, but then none has been accepted."""
    shown = Terminal(written_here())
    shown.view.note_listening(shown.streams[0])
    shown.view.show_source_message(shown.streams[0], "meters/m1/power", payload, retain=False)
    assert shown.wait(60).partition(": the value")[0] == advice


def test_another_meter_s_messages_are_silence() -> None:
    """With --meter nothing is shown of other meters, so the line names the option."""
    shown = Terminal(written_here(), meter="m2")
    shown.view.note_listening(shown.streams[0])
    shown.view.show_source_message(shown.streams[0], "meters/m1/power", b"312", retain=False)
    assert shown.wait(22) == f"{SILENT} Only the meter m2 is shown (--meter)."


def test_a_shard_may_be_silent() -> None:
    """An agent of a small fleet may have no meters."""
    shown = Terminal(written_here(shard='shard = "0/2"'))
    shown.streams *= 2  # as with several streams, whose lines begin with a name
    shown.view.note_listening(shown.streams[0])
    assert shown.wait(60) == ""


def test_the_silent_stream_of_several_is_named() -> None:
    """The other stream has a message, and is not named."""
    shown = Terminal(TWO_STREAMS)
    for stream in shown.streams:
        shown.view.note_listening(stream)
    shown.view.show_source_message(shown.streams[0], "meters/m1/first", b"312", retain=False)
    assert shown.wait(60).startswith("stream second: no message has arrived for 20 s.")


def test_the_command_looks_at_its_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the source's silence is named, and Ctrl-C ends the command with 0."""
    path, lines = tmp_path / "meteragent.toml", list[str]()
    path.write_text(written_here())

    async def watch(*_: Any, on_listening: Callable[[], None], **__: Any) -> NoReturn:
        """Subscribe, and receive nothing."""
        on_listening()
        await asyncio.Event().wait()
        raise AssertionError

    def write(text: str) -> None:
        """Keep the text; stop at the last line about the silence."""
        lines.append(text.strip())
        if text.rstrip().endswith("that arrive."):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("meteragent.cli.tap.watch_topics", watch)
    monkeypatch.setattr(command, "forbid_dumps", lambda: None)
    monkeypatch.setattr(command, "_write", write)
    monkeypatch.setattr(command, "TICK_S", 0.001)
    monkeypatch.setattr(display, "SILENCE_MS", 20)
    assert main(["tap", str(path)]) == 0
    text = " ".join(lines[2:])
    assert text.startswith("stream main: no message has arrived for")
    assert text.count("no message has arrived") == 1
