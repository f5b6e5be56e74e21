"""The page of pictures: each exists, is small, and has its sentence and the command that draws it."""

import re
import shlex
import struct

import pytest

from meteragent.cli.usage import make_parser
from simulators import __main__ as simulators
from tests.commands.pictures import PAGE, Picture, pictures
from tests.support.not_run import ROOT

MOST_BYTES = 60_000
MOST_PIXELS = 1400
PICTURES = pictures()


def test_every_section_is_a_picture() -> None:
    """Each section but the last has a picture, a sentence and a command; no picture is shown twice."""
    text = PAGE.read_text("utf-8")
    assert len(PICTURES) == text.count("![") == text.count("\n## ") - 1
    assert len({picture.path for picture in PICTURES}) == len(PICTURES) >= 6
    assert "make pictures" in text
    assert "\npictures: " in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("picture", PICTURES, ids=[picture.path.stem for picture in PICTURES])
def test_a_picture_is_there_and_small(picture: Picture) -> None:
    """It is a PNG of at most 60 kB and 1,400 pixels, described in one sentence."""
    content = picture.path.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) <= MOST_BYTES
    assert max(struct.unpack(">II", content[16:24])) <= MOST_PIXELS
    assert re.findall(r"\.\s+[A-Z]|\.\n$", picture.sentence) == [".\n"]


@pytest.mark.parametrize("command", sorted({picture.command for picture in PICTURES}))
def test_a_command_is_known_and_seeded(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its program accepts its options, and has a seed if it draws random numbers."""
    program, *words = shlex.split(command)
    if program == ".venv/bin/meteragent":
        assert make_parser("0").parse_args(words).command == "plan"
        return
    module, name, *options = words[1:]
    assert module == "simulators"
    assert "--seed" in options
    with pytest.raises(SystemExit, match="0"):
        simulators.main([name, *options, "--help"])
    shown = capsys.readouterr().out
    assert all(option in shown for option in options if option.startswith("--"))
