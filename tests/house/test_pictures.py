"""Pictures of the documentation: each is small and shown, and a command that has a seed draws it."""

import re
import shlex
import struct

import pytest

from simulators import __main__ as simulators
from tests.commands.pictures import PICTURES
from tests.house.test_architecture import name_of, tracked
from tests.support.not_run import ROOT

MOST_BYTES = 60_000
MOST_PIXELS = 1400
DRAWN = sorted(name for names in PICTURES.values() for name in names)
ELSEWHERE = {
    "benchmarks/results.png": "`make bench` draws it",
    "docs/page.png": "of a browser",
    "deploy/homeassistant/device.png": "of a browser",
}


def shown() -> dict[str, list[str]]:
    """The alternative texts of each picture of the repository that a page shows, by the picture's name."""
    texts: dict[str, list[str]] = {}
    for page in tracked():
        if page.suffix == ".md":
            for text, link in re.findall(r"!\[([^\]]*)\]\((?!https?:)([^)]+)\)", page.read_text("utf-8")):
                texts.setdefault(name_of((page.parent / link).resolve()), []).append(text)
    return texts


def test_every_picture_is_drawn_and_shown() -> None:
    """What a page shows has a command that draws it, with a text for people who do not see it."""
    texts = shown()
    assert texts.keys() == {*DRAWN, *ELSEWHERE}
    assert len(DRAWN) == len(set(DRAWN)) >= 6
    assert all(text.strip() for name in texts for text in texts[name])
    assert "\npictures: " in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_there_and_small(name: str) -> None:
    """It is a PNG of at most 60 kB and 1,400 pixels."""
    content = (ROOT / name).read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) <= MOST_BYTES
    assert max(struct.unpack(">II", content[16:24])) <= MOST_PIXELS


@pytest.mark.parametrize("command", sorted(PICTURES))
def test_a_command_is_known_and_seeded(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its program accepts its options, and has a seed, because it draws random numbers."""
    python, _, module, name, *options = shlex.split(command)
    assert (python, module) == ("python", "simulators")
    assert "--seed" in options
    with pytest.raises(SystemExit, match="0"):
        simulators.main([name, *options, "--help"])
    known = capsys.readouterr().out
    assert all(option in known for option in options if option.startswith("--"))
