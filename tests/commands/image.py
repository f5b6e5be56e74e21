"""Build and try the images: ``python -m tests.commands.image [--no-chain] [--base REFERENCE]``.

An engine of its own runs, from Debian's packages, and the base image is made of Debian's packages as well, so
no registry of images is needed; REFERENCE, such as python:3.13-slim, names a base to pull instead. All
images are built twice and must have the same files. The agent's image and the add-on's receive readings
through a kill -9, and are stopped; the chain of deploy/compose runs on one loopback interface. So do leader
and helper of deploy/crowd with three homes: both are killed, and totals must be right. The exit code is 0 if
everything works, or if it is NOT RUN here, else 1.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.brokers.root import Missing
from tests.commands.systems import chain, containers, debian, engine, images, registry, street
from tests.commands.systems.debian import Failed

ADDED_MAX = 85.0
"""How many megabytes the agent's image may have beyond its base."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the images, and try them; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--no-chain", action="store_true", help="leave out deploy/compose and deploy/crowd")
    parser.add_argument("--base", metavar="REFERENCE", default="", help="an image with Python, to be pulled")
    options = parser.parse_args(arguments)
    began_s = time.monotonic()
    try:
        debian.must_be_possible()
        engine.must_be_possible()
        with tempfile.TemporaryDirectory() as folder, engine.Engine(Path(folder)) as running:
            recipe = images.Recipe(prepared(running, Path(folder), options.base))
            code = tried(running, Path(folder), recipe, has_chain=not options.no_chain)
    except Missing as error:
        print(f"NOT RUN: the images: {error}")
        return 0
    except Failed as error:
        print(f"the bases of the images: {error}")
        return 1
    print(f"{time.monotonic() - began_s:.0f} s")
    return code


def prepared(running: engine.Engine, folder: Path, reference: str) -> images.Base:
    """Make the stand-ins, and return the base of the images, which may be pulled. Raises Missing."""
    began_s = time.monotonic()
    images.bases(running, folder)
    print(f"bases: made ({time.monotonic() - began_s:.0f} s)", flush=True)
    if not reference:
        return images.STAND_IN
    fixed = f"{reference}@{running.digest(reference)}"
    return images.Base(fixed, fixed)


def tried(running: engine.Engine, folder: Path, recipe: images.Recipe, *, has_chain: bool) -> int:
    """Build and try the images, side by side where parts mostly wait; return the exit code."""
    if part("build", lambda: built(running, folder, recipe)):
        return 1
    trials: list[tuple[str, Callable[[], object]]] = [
        ("agent", lambda: containers.agent(running, folder)),
        ("add-on", lambda: containers.addon(running, folder)),
        ("the same twice", lambda: same(running, folder, recipe)),
        ("digest", lambda: registry.attempt(running, folder)),
    ]
    if has_chain:
        trials.append(("compose", lambda: chain.attempt(chain.Chain(running, folder))))
        trials.append(("crowd", lambda: street.attempt(running, folder)))
    with ThreadPoolExecutor(len(trials)) as pool:
        return max(pool.map(lambda trial: part(*trial), trials))


def part(name: str, attempt: Callable[[], object]) -> int:
    """Run a part, and print what it returns or why it failed; return the exit code."""
    began_s = time.monotonic()
    try:
        result = attempt()
        print(f"{name}: {result} ({time.monotonic() - began_s:.0f} s)", flush=True)
    except Missing as error:
        print(f"NOT RUN: {name}: {error}", flush=True)
    except Failed as error:
        print(f"{name}: FAILED: {error}", flush=True)
        return 1
    return 0


def built(running: engine.Engine, folder: Path, recipe: images.Recipe) -> str:
    """Build all images and return their sizes. Raises Failed."""
    images.build(running, folder / "addon", recipe)
    sizes = {name: images.added(running, name, recipe.base) for name in images.NAMES}
    if sizes["meteragent"] > ADDED_MAX:
        raise Failed(f"the agent's image has {sizes['meteragent']:.1f} MB beyond Python")
    return ", ".join(f"{name} {size:.1f} MB" for name, size in sizes.items()) + " beyond Python"


def same(running: engine.Engine, folder: Path, recipe: images.Recipe) -> str:
    """Build all images again, under other names, and compare their files. Raises Failed."""
    running.run("builder", "prune", "--all", "--force")
    images.build(running, folder / "addon-again", recipe, suffix=":again")
    counts = []
    for name in images.NAMES:
        first, second = (images.content(running, f"{name}{tag}").files for tag in (":latest", ":again"))
        images.must_be_same(first, second, name)
        counts.append(len(first))
    return f"{sum(counts):,} files of {len(counts)} images"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the engine must not be left
    sys.exit(main())
