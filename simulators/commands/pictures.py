"""Draw the pictures of `demo`, `frontier` and `paper` for the documentation, from one seed.

The demo draws its noise from the operating system. Here the same mechanism draws its noise from the seed, so
a seed always gives the same pictures.
"""

import argparse
import tempfile
from importlib import import_module
from pathlib import Path

import numpy as np

from meteragent import config
from meteragent.privacy import SeededBits
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from simulators.adversary.library import quanta
from simulators.commands import arguments as declarations
from simulators.commands.utility import dithered
from simulators.demo.outcome import Outcome
from simulators.demo.picture import draw
from simulators.demo.stage import configuration
from simulators.homes.street import START_MS, Street

HOMES = 100


def street(seed: int, homes: int) -> Outcome:
    """Return a simulated day of a street as a receiver sees it, with the demo's promise and seeded noise."""
    with tempfile.TemporaryDirectory() as folder:
        (stream,) = config.load(configuration(Path(folder))).stream
    descriptor, simulated_street = describe_terms(config.terms(stream)), Street.simulated(seed, homes, 1)
    noise = dithered(descriptor.terms.mechanism)
    windows = quanta(simulated_street.means_w(descriptor.terms.step_ms), noise.step)
    noisy = noise.release(windows[..., np.newaxis], bits=SeededBits(seed))[..., 0]
    messages = []
    for meter, row in zip(simulated_street.meters, noisy.tolist(), strict=True):
        messages.append(descriptor.encode_message(meter, START_MS))
        starts_ms = range(START_MS, START_MS + len(row) * descriptor.terms.step_ms, descriptor.terms.step_ms)
        messages += [
            RecordFormat.of(descriptor).encode(meter, start_ms, 0, z)
            for start_ms, z in zip(starts_ms, row, strict=True)
        ]
    return Outcome.of(simulated_street, messages)


def run(arguments: argparse.Namespace) -> int:
    """Draw all pictures; return the largest exit code of the commands that draw them."""
    folder, seed, trials = arguments.out, str(arguments.seed), str(arguments.trials)
    folder.mkdir(parents=True, exist_ok=True)
    draw(street(arguments.seed, HOMES), folder / "demo.png")
    plot = ["--plot", str(folder / "frontier.png")]
    codes = [
        _run_command("frontier", ["--seed", seed, "--trials", trials, *plot]),
        _run_command("paper", ["--seed", seed, "--trials", trials, "--out", str(folder)]),
    ]
    return max(codes)


def _run_command(name: str, options: list[str]) -> int:
    """Run another command of the simulators in this process."""
    parser = argparse.ArgumentParser(name)
    declarations.DECLARATIONS[name](parser)
    return int(import_module(f"simulators.commands.{name}").run(parser.parse_args(options)))
