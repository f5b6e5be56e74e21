"""All pictures of the READMEs, from one seed: the street of the demo, the frontier, the paper's two figures.

The demo's own run draws its noise from the system; here the same mechanism draws it from the seed, so that
the same seed gives the same pictures.
"""

import argparse
import tempfile
from importlib import import_module
from pathlib import Path

import numpy as np

from meteragent import config
from meteragent.privacy import SeededBits
from meteragent.wire.descriptor import describe
from meteragent.wire.record import RecordFormat
from simulators import option
from simulators.adversary.library import quanta
from simulators.outcome import Outcome
from simulators.picture import draw
from simulators.stage import configuration
from simulators.street import START_MS, Street
from simulators.utility import dithered

HOMES = 100


def street(seed: int, homes: int) -> Outcome:
    """A day of a street as its receiver sees it, with the demo's promise and noise from the seed."""
    with tempfile.TemporaryDirectory() as folder:
        (stream,) = config.load(configuration(Path(folder))).stream
    shared, simulated = describe(config.terms(stream)), Street.simulated(seed, homes, 1)
    noise = dithered(shared.terms.mechanism)
    windows = quanta(simulated.means_w(shared.terms.step_ms), noise.step)
    noisy = noise.release(windows[..., np.newaxis], bits=SeededBits(seed))[..., 0]
    sent = []
    for meter, row in zip(simulated.meters, noisy.tolist(), strict=True):
        sent.append(shared.message(meter, START_MS))
        starts_ms = range(START_MS, START_MS + len(row) * shared.terms.step_ms, shared.terms.step_ms)
        sent += [
            RecordFormat.of(shared).record(meter, at, 0, z) for at, z in zip(starts_ms, row, strict=True)
        ]
    return Outcome.of(simulated, sent)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `python -m simulators pictures` takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seed", type=option.seed, default=0, metavar="N", help="default %(default)s")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where they go")
    parser.add_argument(
        "--trials", type=option.positive, default=2000, metavar="N", help="of the attackers; %(default)s"
    )


def run(arguments: argparse.Namespace) -> int:
    """Draw them all."""
    folder, seed, trials = arguments.out, str(arguments.seed), str(arguments.trials)
    folder.mkdir(parents=True, exist_ok=True)
    draw(street(arguments.seed, HOMES), folder / "demo.png")
    plot = ["--plot", str(folder / "frontier.png")]
    done = [
        _command("frontier", ["--seed", seed, "--trials", trials, *plot]),
        _command("paper", ["--seed", seed, "--trials", trials, "--out", str(folder)]),
    ]
    return max(done)


def _command(name: str, options: list[str]) -> int:
    """Another command of the simulators, in this process."""
    module = import_module(f"simulators.{name}")
    parser = argparse.ArgumentParser(name)
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(options)))
