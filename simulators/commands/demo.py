"""Run the whole chain: simulated homes, a broker, the agent, and a receiver with its results.

With --crowd, compare two totals of the homes: one with noise from every home, and one with noise from two
operators.

The homes are seeded but the noise is not, so every run has the same homes and different private numbers.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tqdm import tqdm

from meteragent import config
from meteragent.report import guarantee
from simulators.demo.outcome import Outcome
from simulators.demo.picture import draw
from simulators.demo.program import DemoError, run_stoppable
from simulators.demo.screen import text
from simulators.demo.stage import configuration, play
from simulators.extras import lacking
from simulators.homes.street import Street

SEED = 1
INTERRUPTED = 130


def run(arguments: argparse.Namespace) -> int:
    """Run the demo, print its text and draw its picture.

    Return 0. If the demo fails, print the reason and return 1; if it is interrupted, return 130.
    """
    try:
        show = _crowd_demo() if arguments.crowd else _run
        arguments.out.mkdir(parents=True, exist_ok=True)
        show(Street.simulated(SEED, arguments.homes, arguments.days), arguments.out)
    except (DemoError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    return 0


def _crowd_demo() -> Callable[[Street, Path], None]:
    """Return the crowd demo's `run`. Raises DemoError if the package cryptography is missing or unusable."""
    try:
        from simulators.crowd import demo as crowd_demo  # noqa: PLC0415  it needs the extra `crowd`
    except ModuleNotFoundError as error:
        raise DemoError(lacking(error, "crowd")) from None
    except ImportError as error:
        raise DemoError(str(error)) from None
    return crowd_demo.run


def _run(street: Street, target: Path) -> None:
    """Run the demo of a street; print its text, and write the text and the picture to the folder `target`."""
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="meteragent-demo-") as name:
        folder = Path(name)
        stream = config.load(configuration(folder)).stream[0]
        slot_ms = config.terms(stream).step_ms
        total_records = street.homes * street.slots(slot_ms)
        with tqdm(total=total_records, desc="private numbers received", disable=None) as bar:
            messages = run_stoppable(play(street, slot_ms, folder, bar.update))
    outcome = Outcome.of(street, messages)
    screen = text(outcome, guarantee.compute_guarantee(stream), time.monotonic() - start_s)
    print(screen)
    (target / "demo.txt").write_text(screen, encoding="utf-8")
    draw(outcome, target / "demo.png")
    print(f"This text and a picture: {target / 'demo.txt'}, {target / 'demo.png'}")
