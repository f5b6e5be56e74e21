"""`python -m meteragent` is the command `meteragent`."""

import os
import signal
import sys

_SERVICES = (["run"], ["collect"], ["crowd", "leader"], ["crowd", "helper"])
_NO_SERVICES = {"--check", "--create"}


def main() -> int:
    """Run the command; a service that SIGTERM stops while its modules are loaded ends with 0, as later."""
    is_service = any(sys.argv[1 : 1 + len(words)] == words for words in _SERVICES)
    if is_service and not _NO_SERVICES.intersection(sys.argv):
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # nothing is open yet
    from meteragent.cli import main as run_command  # noqa: PLC0415  it takes half a second

    return run_command()


if __name__ == "__main__":
    raise SystemExit(main())
