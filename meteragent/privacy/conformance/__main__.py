"""`python -m meteragent.privacy.conformance package.module:Name [key=value ..]`: test a mechanism.

`Name` is a mechanism (keywords are then ignored), or a class or function that creates one from the keywords.
Values are exact strings (whole numbers become ints). Modules are imported from the current directory first.
Exit codes: 0 the mechanism conforms; 3 it does not; 2 it cannot be tested, and a message says why.
"""

import argparse
import importlib
import json
import re
import sys
from collections.abc import Sequence
from functools import partial
from shutil import get_terminal_size
from typing import Any

from meteragent.privacy.audit import WIDTH
from meteragent.privacy.bits import SeededBits
from meteragent.privacy.conformance.suite import SAMPLES, UnsupportedMechanism, conform

CONFORMS, UNSUPPORTED, VIOLATED = 0, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite on the named mechanism and print a table, or JSON. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m meteragent.privacy.conformance", description=__doc__)
    parser.add_argument("name", help="package.module:Name")
    parser.add_argument("keywords", nargs="*", metavar="key=value", help="parameters, as exact strings")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="the number of draws for each test")
    parser.add_argument(
        "--seed", type=int, help="the seed of reproducible draws; the default is the system's randomness"
    )
    parser.add_argument("--loose", action="store_true", help="do not require that a pair reaches the loss")
    parser.add_argument("--json", action="store_true", help="print all results as JSON")
    options = parser.parse_args(arguments)
    try:
        make = _load(options.name, options.keywords)
        bits = None if options.seed is None else SeededBits(options.seed)
        mechanism = make() if isinstance(make, partial) else make
        remake = make if isinstance(make, partial) and make.keywords else None
        report = conform(mechanism, make=remake, tight=not options.loose, samples=options.samples, bits=bits)
    except UnsupportedMechanism as error:
        sys.stderr.write(f"{options.name} cannot be tested: {error}\n")
        return UNSUPPORTED
    width = min(WIDTH, get_terminal_size((WIDTH, 0)).columns)
    text = json.dumps(report.figures(), indent=2) if options.json else report.table(width)
    sys.stdout.write(text + "\n")
    return CONFORMS if report.conforms else VIOLATED


def _load(name: str, keywords: Sequence[str]) -> Any:
    """Return the named mechanism (keywords are then ignored), or a partial that creates it.

    Raises UnsupportedMechanism if the name or a keyword cannot be used.
    """
    module, _, path = name.partition(":")
    matches = [match for keyword in keywords if (match := re.fullmatch(r"(\w+)=(.*)", keyword))]
    pairs = {match[1]: match[2] for match in matches}
    if not path or len(pairs) < len(keywords):
        raise UnsupportedMechanism("write package.module:Name, then key=value for each parameter")
    sys.path.insert(0, "")
    try:
        target: Any = importlib.import_module(module)
        for part in path.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnsupportedMechanism(str(error)) from None
    finally:
        sys.path.remove("")
    if not isinstance(target, type) and hasattr(target, "release"):
        return target
    if not callable(target):
        raise UnsupportedMechanism(f"{path} is not a mechanism and cannot create one")
    make = partial(target, **{key: int(text) if _WHOLE.match(text) else text for key, text in pairs.items()})
    try:
        make()
    except (TypeError, ValueError) as error:
        raise UnsupportedMechanism(f"{path} takes other parameters: {error}") from None
    return make


_WHOLE = re.compile(r"^-?\d+$")


if __name__ == "__main__":
    sys.exit(main())
