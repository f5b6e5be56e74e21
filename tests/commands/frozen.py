"""Write the files that freeze what leaves: messages, and what `consume`, `check` and Home Assistant say.

    python -m tests.commands.frozen             # writes tests/data/frozen: read the difference
    python -m tests.commands.frozen linf peak   # writes only these files

A change that means to change nothing that leaves must leave these files as they are.
"""

import sys
from pathlib import Path

from tests.support.frozen import files

FOLDER = Path(__file__).parents[1] / "data" / "frozen"


if __name__ == "__main__":
    for name in sys.argv[1:] or files.groups():
        for file, text in files.contents(name).items():
            (FOLDER / file).write_text(text, encoding="utf-8")
