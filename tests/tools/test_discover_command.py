"""The `discover` command: its options, its refusals, its progress, and what it leaves behind."""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meteragent import config, mqtt
from meteragent.cli import discover, main
from meteragent.tools.discover import Listener
from tests.support.broker import free_port


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--url", f"mqtt://127.0.0.1:{free_port()}"], "cannot connect"),
        (["--url", f"mqtt://127.0.0.1:{free_port()}"], "is the address in --url right"),
        (["--url", "mqtt://no-such-host.invalid"], "is the address in --url right"),
        (["--url", "http://127.0.0.1"], "--url: found an address that does not begin with mqtt://"),
        (["--url", "mqtt://127.0.0.1", "--username", "u", "--password-file", "/none"], "--password-file"),
    ],
)
def test_why_it_cannot_listen(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing broker, an invalid address or an unreadable file is reported, with exit code 1."""
    assert main(["discover", "--seconds", "5", *arguments]) == 1
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "1e3", "99999999999"])
def test_how_long_is_a_number(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The time to listen is a whole number of seconds, at most a day."""
    with pytest.raises(SystemExit):
        main(["discover", "--url", "mqtt://127.0.0.1", "--seconds", seconds])
    assert "a whole number from 1 to 86400" in capsys.readouterr().err


def test_a_crash_tells_no_payload(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A crash while payloads are examined shows type and place, not the error's text."""

    def broken(*_: object) -> None:
        raise RuntimeError("canary-7391155")

    monkeypatch.setattr("meteragent.cli.discover._listen", broken)
    assert main(["discover", "--url", "mqtt://127.0.0.1"]) == 1
    said = capsys.readouterr()
    assert "crash: RuntimeError" in said.err
    assert "canary" not in said.out + said.err


def test_it_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left on disk."""
    monkeypatch.chdir(tmp_path)
    main(["discover", "--url", f"mqtt://127.0.0.1:{free_port()}", "--seconds", "1"])
    assert not list(tmp_path.iterdir())


def test_the_findings_are_data(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON each quantity has a configuration that is accepted; there is no value in it."""

    async def listen(_: object, __: object, listener: Listener) -> int:
        for topic, payload in (
            ("shellies/em-1/emeter/0/power", "73155.25"),
            ("shellies/em-2/emeter/0/power", "73155.5"),
            ("cellar/temperature", "21.75"),
        ):
            listener.on_message(topic, payload.encode(), False)
        return 3

    monkeypatch.setattr("meteragent.cli.discover._listen", listen)
    assert main(["discover", "--url", "mqtt://127.0.0.1", "--json"]) == 0
    text = capsys.readouterr().out
    assert "73155" not in text
    assert "21.75" not in text
    findings = json.loads(text)
    assert findings["quiet_topics"] == ["cellar/temperature"]
    [proposal] = findings["proposals"]
    assert proposal["certainty"] == "a known family, known from documentation alone"
    assert proposal["meters"] == ["em-1", "em-2"]
    [offer] = proposal["offers"]
    assert (offer["kind"], offer["unit"]) == ("power", "W")
    [stream] = config.parse(offer["toml"]).stream
    assert offer["source"]["topic"] == stream.source.topic == "shellies/{meter}/emeter/{phase}/power"


@pytest.mark.parametrize("is_terminal", [True, False])
async def test_progress_is_written_for_a_person(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While it listens, on a terminal only, a line every few seconds says what was heard so far."""

    async def watch(_: object, __: str, ___: object, on_message: Callable[..., None], **____: Any) -> None:
        on_message("a/b", b"5", False)
        on_message("a/c", b"5", True)
        await asyncio.Event().wait()

    monkeypatch.setattr(discover, "watch_topics", watch)
    monkeypatch.setattr(discover, "_PROGRESS_EVERY_S", 0.001)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    options = argparse.Namespace(topic="#", seconds=0.1)
    listener = Listener(lambda: 0)
    endpoint = mqtt.Endpoint.parse("mqtt://127.0.0.1")
    await discover._listen(endpoint, options, listener)
    told = capsys.readouterr().err
    assert ("2 messages on 2 topics so far, 1 of them live" in told) is is_terminal


def test_a_password_that_is_not_text_is_refused_without_a_byte_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is named; the codec's own text, which shows a byte of the password, is not printed."""
    path = tmp_path / "password"
    path.write_bytes(b"p\xffw")
    arguments = ["--url", "mqtt://127.0.0.1", "--username", "u", "--password-file", str(path)]
    for command in (["discover"], ["init", "--yes"]):
        assert main([*command, *arguments]) != 0
        text = capsys.readouterr().err
        assert "--password-file" in text
        assert "not UTF-8" in text
        assert "0xff" not in text


def test_a_password_file_that_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The operator has just typed the option, so the error repeats its path."""
    arguments = ["--url", "mqtt://127.0.0.1", "--username", "u", "--password-file", "none-here"]
    assert main(["discover", *arguments]) == 1
    told = capsys.readouterr().err
    assert told == "meteragent: --password-file: none-here: no such file or directory\n"
