"""`python -m meteragent` is the command `meteragent`."""

import gc
import os
import signal
import sys

COLLECT_AFTER = 10_000
"""Python looks for reference cycles after this many more objects are allocated than freed. Neither imports
nor readings create cycles, and the search takes a sixth of the time to start, or more with many meters."""
_SERVICES = (["run"], ["collect"], ["crowd", "leader"], ["crowd", "helper"])
_NO_SERVICES = {"--check", "--create"}


def main() -> int:
    """Run the command; a service exits with 0 on SIGTERM, even while its modules are still being loaded."""
    gc.set_threshold(COLLECT_AFTER)
    is_service = any(sys.argv[1 : 1 + len(words)] == words for words in _SERVICES)
    if is_service and not _NO_SERVICES.intersection(sys.argv):
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # nothing is open yet
    from meteragent.cli import main as run_command  # noqa: PLC0415  it takes half a second

    return run_command()


if __name__ == "__main__":
    raise SystemExit(main())
