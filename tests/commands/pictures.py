"""`python -m tests.commands.pictures`: draw the pictures of the documentation with the commands listed here.

A picture goes to the file that its page shows, with a palette of 64 colours, which makes it much smaller.
"""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
COLOURS = 64
PICTURES: Final = {
    "python -m simulators pictures --seed 0 --out pictures": (
        "simulators/demo.png",
        "simulators/adversary/frontier.png",
        "docs/pictures/fig3.png",
        "docs/pictures/fig4.png",
    ),
    "python -m simulators generate --seed 1 --homes 100 --days 1 --out homes.parquet --plot homes.png": (
        "docs/pictures/homes.png",
    ),
    "python -m simulators utility --homes 200 --days 30 --seed 0 --plot utility.png": (
        "docs/pictures/utility.png",
    ),
}
"""The pictures that each command draws, by the names of their files in the repository."""


def draw(folder: Path) -> None:
    """Run each command in a folder, and put its pictures where their pages show them."""
    for command, names in PICTURES.items():
        print(command, flush=True)
        options = shlex.split(command)[1:]
        subprocess.run([sys.executable, *options], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        for name in names:
            (source,) = folder.rglob(Path(name).name)
            shrink(source, ROOT / name)


def shrink(source: Path, target: Path) -> None:
    """Write a picture as a PNG with a palette, without its metadata."""
    target.parent.mkdir(exist_ok=True)
    with Image.open(source) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(target, optimize=True)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size // 1000} kB", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        draw(Path(name))
