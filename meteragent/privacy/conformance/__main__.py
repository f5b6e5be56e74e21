"""`python -m meteragent.privacy.conformance package.module:Name [key=value ..]`: try a mechanism.

`Name` is a mechanism, or a class or function that makes one of the keywords, which are exact strings
(integers without a fraction or a point are ints). Modules are looked for from the current directory.
Exit 0: it conforms; 3: it does not; 2: it cannot be tried, and what is missing.
"""

import argparse
import importlib
import json
import re
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from meteragent.privacy.bits import SeededBits
from meteragent.privacy.conformance.suite import SAMPLES, Unusable, conform

CONFORMS, UNUSABLE, VIOLATED = 0, 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite on what is named; print a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m meteragent.privacy.conformance", description=__doc__)
    parser.add_argument("name", help="package.module:Name")
    parser.add_argument("keywords", nargs="*", metavar="key=value", help="parameters, as exact strings")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="draws for each test")
    parser.add_argument(
        "--seed", type=int, help="for draws that repeat; without it the system's bits are used"
    )
    parser.add_argument("--loose", action="store_true", help="the loss need not be reached anywhere")
    parser.add_argument("--json", action="store_true", help="everything that was found, as JSON")
    given = parser.parse_args(arguments)
    try:
        make = _found(given.name, given.keywords)
        bits = None if given.seed is None else SeededBits(given.seed)
        mechanism = make() if isinstance(make, partial) else make
        remake = make if isinstance(make, partial) and make.keywords else None
        report = conform(mechanism, make=remake, tight=not given.loose, samples=given.samples, bits=bits)
    except Unusable as unusable:
        sys.stderr.write(f"{given.name} cannot be tried: {unusable}\n")
        return UNUSABLE
    text = json.dumps(report.figures(), indent=2) if given.json else report.table()
    sys.stdout.write(text + "\n")
    return CONFORMS if report.conforms else VIOLATED


def _found(name: str, keywords: Sequence[str]) -> Any:
    """The mechanism that is named, or what makes it.

    Raises:
        Unusable: there is none such, or its keywords are not key=value, or it refuses them.
    """
    module, _, path = name.partition(":")
    pairs = dict(re.findall(r"^(\w+)=(.*)$", keyword)[0] for keyword in keywords if "=" in keyword)
    if not path or len(pairs) < len(keywords):
        raise Unusable("write package.module:Name, then key=value for each parameter")
    sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise Unusable(str(error)) from None
    finally:
        sys.path.remove("")
    if not isinstance(found, type) and hasattr(found, "release"):
        return found
    made = partial(found, **{key: int(text) if _WHOLE.match(text) else text for key, text in pairs.items()})
    try:
        made()
    except (TypeError, ValueError) as error:
        raise Unusable(f"{path} takes other parameters: {error}") from None
    return made


_WHOLE = re.compile(r"^-?\d+$")


if __name__ == "__main__":
    sys.exit(main())
