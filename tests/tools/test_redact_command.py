"""The `redact` command: what it reads, writes, says and refuses."""

import io
import os
import re
import sys
from pathlib import Path

import pytest

from meteragent.cli import main
from meteragent.cli.redact import split_payloads
from tests.tools.test_redact import TELEGRAM


def test_the_command(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """The result goes to standard output, and the report on it to standard error."""
    path = tmp_path / "payload"
    path.write_bytes(b'{"id":0,"total_act_power":431.7,"Huber":"Anna"}')
    assert main(["redact", str(path), "--profile", "shelly-gen2-em", "--keep", "Huber"]) == 0
    out, said = capfdbinary.readouterr()
    assert re.fullmatch(rb'\{"id":0,"total_act_power":1[0-5]\d\.\d,"Huber":"[A-Z][a-z]{3}"\}', out)
    for part in (
        "replaced: numbers 1, texts 1",
        "shelly-gen2-em, power: 1 reading (as before)",
        "import: refused_missing (as before)",
        "Read the result before you post it",
    ):
        assert part in said.decode()
    assert b"Anna" not in said
    assert b"431" not in said


def test_the_command_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """`-` is standard input; replaced names are reported."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"Huber": 4}')))
    assert main(["redact", "-"]) == 0
    out, said = capfdbinary.readouterr()
    assert b"Huber" not in out
    assert b"names of no built-in profile 1" in said
    assert b"--keep NAME" in said


@pytest.mark.parametrize(
    ("recorded", "found"),
    [
        (b'tele/x/SENSOR {"a": 1}\nstat/y 5\n', [b'{"a": 1}', b"5"]),
        (b'{"a": 1}\n{"a": 2}\n', [b'{"a": 1}', b'{"a": 2}']),
        (b'{\n"a": 1}\n', [b'{\n"a": 1}\n']),
        (b'{"a": "x/y z"}', [b'{"a": "x/y z"}']),
        (TELEGRAM.encode(), [TELEGRAM.encode()]),
        (b"", [b""]),
    ],
)
def test_a_recording_may_hold_several_payloads(recorded: bytes, found: list[bytes]) -> None:
    """Lines of JSON are payloads, and so are lines that begin with a topic; otherwise the whole is one."""
    assert split_payloads(recorded) == found


def test_several_payloads_are_redacted_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Topics are redacted, too; what a profile reads from several payloads is reported as counts."""
    path = tmp_path / "recording"
    path.write_text(
        'tele/x/SENSOR {"ENERGY":{"Power":431}}\n\ntele/Huber/STATE {"Wifi":0}\ntele/x/LWT Online'
    )
    assert main(["redact", str(path), "--profile", "tasmota", "--keep", "Wifi"]) == 0
    out, said = capsys.readouterr()
    pattern = (
        r'tele/(\w)/SENSOR \{"ENERGY":\{"Power":1[0-5]\d\}\}\n'
        r'tele/[A-Z][a-z]{4}/[A-Z]{5} \{"Wifi":0\}\ntele/\1/[A-Z]{3} Online\n'
    )
    assert re.fullmatch(pattern, out)
    assert "Huber" not in out
    assert "tasmota, power: 1 x 1 reading, 1 x other, 1 x refused_json (as before)" in said


def test_a_message_of_no_known_format_ends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the message and says what to do; nothing is written of any message."""
    path = tmp_path / "recording"
    path.write_text('tele/x/SENSOR {"a": 1}\ntele/x/NOTE Anna Huber\n')
    assert main(["redact", str(path)]) == 1
    out, said = capsys.readouterr()
    assert not out
    assert "message 2 is neither JSON, a P1 telegram nor CSV, in UTF-8: redact it by hand" in said
    assert "Huber" not in said


def test_what_the_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing or too large file ends it with 1, an unknown profile with 2."""
    assert main(["redact", str(tmp_path / "none")]) == 1
    assert "no such file" in capsys.readouterr().err
    large = tmp_path / "large"
    with large.open("wb") as file:
        os.truncate(file.fileno(), 17 * 2**20)
    assert main(["redact", str(large)]) == 1
    assert "larger than 16 MiB" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["redact", "-", "--profile", "shely-gen2-em"])
    assert "did you mean 'shelly-gen2-em'? Expected one of" in capsys.readouterr().err
