"""The commands around the running agent: `run`, `ledger`, `receivers`, `export` and `health`."""

from meteragent.cli.usage.command import CONFIG, JSON, LOG_LEVEL, STOPPED, Command, argument, parsed_by
from meteragent.domain.identity import END, VERBS

_REHEARSE = "show on this terminal what would be sent, in slots of a few seconds; send and write nothing"
_RESTORED = "make a restored store usable: nothing before TIME (RFC 3339, or `now`) is released again"
_QUIET = argument("--quiet", None, "print no report, which shows when a home is busy, but exit with its code")
_VERB = f"{', '.join(VERBS[:-1])} or {END} a receiver, whether or not the agent runs; default: list all"
_BAD_STORE = "failed: there is no usable store; the message says what to do"

COMMANDS = {
    "run": Command(
        "run home.toml\nrun home.toml --rehearse",
        {"": [CONFIG], "rehearsal": [argument("--rehearse", None, _REHEARSE)], "log": [LOG_LEVEL]},
        {0: STOPPED, 1: "crashed, or the store is in use, restored, moved or lost"},
    ),
    "ledger": Command(
        "ledger home.toml --meter kitchen",
        {
            "": [CONFIG],
            "output": [argument("--meter", "M", "show only this meter"), JSON],
            "a store that was restored or moved": [
                [
                    argument("--restored-at", "TIME", _RESTORED, type=parsed_by("ledger", "parse_time_ms")),
                    argument(
                        "--moved", None, "accept a store that you moved together with the files next to it"
                    ),
                ]
            ],
        },
        {1: _BAD_STORE},
    ),
    "receivers": Command(
        "receivers home.toml\nreceivers home.toml pause utility",
        {
            "": [
                CONFIG,
                argument("verb", "ACTION", _VERB, nargs="?", choices=VERBS),
                argument("name", "NAME", "the receiver's name", nargs="?"),
            ],
            "output": [JSON],
            "safety": [argument("--yes", None, "end it without asking: it never gets another number")],
        },
        {1: "refused, or there is no usable store; the message says what to do"},
    ),
    "export": Command(
        "export home.toml > private.csv",
        {
            "": [CONFIG],
            "output": [argument("--json", None, "print each record as JSON, one a line, as it was sent")],
        },
        {1: _BAD_STORE},
    ),
    "health": Command(
        "health home.toml\nhealth leader.toml --metrics",
        {
            "": [CONFIG],
            "output": [
                [JSON, argument("--metrics", None, "print the figures for Prometheus"), _QUIET],
                argument("--meters", None, "of an agent: list what has arrived of each meter and phase, too"),
            ],
        },
        {0: "all is well, or nothing has arrived yet", 1: "there is a problem, or no service answers"},
    ),
}
