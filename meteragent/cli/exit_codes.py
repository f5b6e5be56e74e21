"""The exit codes of all commands: what they mean, and which code an error or a failure gives."""

import sys

from meteragent.domain.errors import ChecksRefused, ConfigError, KeyRefused

EXIT_CRASH = 1
EXIT_USAGE = 2
EXIT_VIOLATED = 3
EXIT_CONFIG = 78
EXIT_INTERRUPTED = 130
EXIT_CODES = {
    0: "done",
    EXIT_CRASH: "failed; the message says why",
    EXIT_USAGE: "the command line is wrong",
    EXIT_CONFIG: "the configuration is refused; the message names each line, key and expected value",
}
"""The meanings of exit codes, unless a command gives a code another meaning."""


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a command that ends with an error."""
    return EXIT_CONFIG if isinstance(error, (ChecksRefused, ConfigError, KeyRefused)) else EXIT_CRASH


def fail(reason: object, code: int = EXIT_CRASH) -> int:
    """Print why a command failed; return its exit code."""
    print(f"meteragent: {reason}", file=sys.stderr)
    return code
