"""The whole chain at work: simulated homes, a broker, the agent, a receiver, and what that receiver can say.

The simulation is seeded, the noise never: every run shows the same homes and other private numbers.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tqdm import tqdm

from meteragent import config
from meteragent.report import guarantee
from simulators.outcome import Outcome
from simulators.picture import draw
from simulators.screen import text
from simulators.stage import DemoError, configuration, play
from simulators.street import Street

SEED = 1
INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `python -m simulators demo` takes."""
    add = parser.add_argument
    add("--homes", type=_homes, default=100, metavar="N", help="at least 2; default %(default)s")
    add("--days", type=_count, default=1, metavar="N", help="default %(default)s; 30 are a month")
    add("--out", type=Path, default=Path("demo-out"), metavar="DIR", help="default %(default)s")


def run(arguments: argparse.Namespace) -> int:
    """Run, print and draw; 1: it could not, and why is said."""
    try:
        _run(Street.simulated(SEED, arguments.homes, arguments.days), arguments.out)
    except (DemoError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    return 0


def _run(street: Street, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="meteragent-demo-") as name:
        folder = Path(name)
        stream = config.load(configuration(folder)).stream[0]
        slot_ms = config.terms(stream).step_ms
        expected = street.homes * street.slots(slot_ms)
        with tqdm(total=expected, desc="private numbers received", disable=None) as bar:
            messages = asyncio.run(_played(street, slot_ms, folder, bar.update))
    outcome = Outcome.of(street, messages)
    shown = text(outcome, guarantee.of(stream), time.monotonic() - start_s)
    print(shown)
    (out / "demo.txt").write_text(shown, encoding="utf-8")
    draw(outcome, out / "demo.png")
    print(f"This text and a picture: {out / 'demo.txt'}, {out / 'demo.png'}")


async def _played(street: Street, slot_ms: int, folder: Path, progress: Callable[[], object]) -> list[bytes]:
    """`play`, ended in an orderly way by SIGTERM too, so that no process stays behind."""
    playing = asyncio.ensure_future(play(street, slot_ms, folder, progress))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
    return await playing


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of days")
    return int(text)


def _homes(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text} is not a number of homes, at least 2")
    return int(text)
