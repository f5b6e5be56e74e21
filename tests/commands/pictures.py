"""`python -m tests.commands.pictures`: draw the pictures of docs/pictures.md with the commands printed there.

A picture goes to the file that the page shows, with a palette of 64 colours, which makes it much smaller.
"""

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "pictures.md"
COLOURS = 64
PROGRAMS = {
    ".venv/bin/python": [sys.executable],
    ".venv/bin/meteragent": [sys.executable, "-m", "meteragent"],
}
_SECTION = re.compile(
    r"^## .*\n\n!\[(.+)\]\((.+)\)\n\n((?:.+\n)+)\n```sh\n(.+)\n```$",
    re.MULTILINE,
)


class Picture(NamedTuple):
    """A section of the page: a picture, what it shows, and the command that draws it."""

    alternative: str
    path: Path
    sentence: str
    command: str


def pictures() -> list[Picture]:
    """Return the pictures of the page, in order."""
    sections = _SECTION.findall(PAGE.read_text("utf-8"))
    return [
        Picture(text, (PAGE.parent / path).resolve(), sentence, line)
        for text, path, sentence, line in sections
    ]


def draw(sections: list[Picture], folder: Path) -> None:
    """Run each command once in a folder, and put what it drew where the page shows it."""
    for line in dict.fromkeys(picture.command for picture in sections):
        print(line, flush=True)
        program, *options = shlex.split(line)
        subprocess.run([*PROGRAMS[program], *options], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    for picture in sections:
        (source,) = folder.rglob(picture.path.name)
        shrink(source, picture.path)


def shrink(source: Path, target: Path) -> None:
    """Write a picture as a PNG with a palette, without its metadata."""
    target.parent.mkdir(exist_ok=True)
    with Image.open(source) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(target, optimize=True)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size // 1000} kB", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        draw(pictures(), Path(name))
