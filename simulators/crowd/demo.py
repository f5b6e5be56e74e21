"""The crowd's demo: the total of a street with noise from every home, and with noise from two operators."""

import tempfile
import time
from pathlib import Path

from tqdm import tqdm

from simulators.crowd.files import SLOT_MS
from simulators.crowd.outcome import CrowdOutcome
from simulators.crowd.picture import draw
from simulators.crowd.screen import text
from simulators.crowd.stage import play
from simulators.demo.program import run_stoppable
from simulators.homes.street import Street


def run(street: Street, target: Path) -> None:
    """Run the demo of a street; print its text, and write the text and the picture to the folder `target`."""
    start_s = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="meteragent-demo-") as folder,
        tqdm(total=street.slots(SLOT_MS), desc="totals received", disable=None) as bar,
    ):
        received = run_stoppable(play(street, Path(folder), bar.update))
    outcome = CrowdOutcome.of(street, received)
    screen = text(outcome, time.monotonic() - start_s)
    print(screen)
    (target / "crowd.txt").write_text(screen, encoding="utf-8")
    draw(outcome, target / "crowd.png")
    print(f"This text and a picture: {target / 'crowd.txt'}, {target / 'crowd.png'}")
