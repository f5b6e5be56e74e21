"""The commands that show what is promised and what is sent: `check`, `audit`, `plan` and `schema`."""

from typing import Any

from meteragent.cli.usage.command import CONFIG, JSON, NO_CONFIG, Argument, Command, argument, parsed_by
from meteragent.texts import LANGUAGES

SCHEMAS = ("config", "record", "descriptor", "total", "status", "prices", "manifest", "asyncapi")
"""What `schema` can describe: the configuration, each message, an archive's manifest, and all topics."""
_LANGUAGE = argument(
    "--lang",
    None,
    "the language of the text; default: from LC_ALL, LC_MESSAGES or LANG, or else English",
    choices=LANGUAGES,
)
_EVENT = "also show how well an event of your own is hidden; can be repeated"
_SAMPLES = "the number of windows for each statistic; default: as many as a few seconds allow"
_HIDE = "what to hide: kettle, 'tv evening', '8 h away', ..., 110Wh, 0.3kWh, or '2000W 30min'"
_SHARE = "what to share: half-hour, day, typical-day, month, 15min, hour, curve, month-cost, 'day,month'"
_ERROR = "the largest acceptable error: 5%% of a home's use, 20W, 0.5kWh, 0.05EUR; or one for each share"


def _option(name: str, metavar: str, text: str, **settings: Any) -> Argument:
    """Return an option that states a part of a question to `plan`."""
    return argument(f"--{name}", metavar, text, type=parsed_by("plan", f"parse_{name}"), **settings)


COMMANDS = {
    "check": Command(
        "check home.toml --event '2000W 30min'",
        {
            "": [CONFIG],
            "output": [
                _LANGUAGE,
                [
                    JSON,
                    argument("--statement", None, "print a page for your data protection records (Markdown)"),
                ],
            ],
            "events": [
                argument(
                    "--event",
                    "'2000W 30min'",
                    _EVENT,
                    type=parsed_by("check", "parse_event"),
                    action="append",
                    default=[],
                )
            ],
        },
    ),
    "audit": Command(
        "audit home.toml --samples 100000",
        {
            "": [CONFIG],
            "effort": [argument("--samples", "N", _SAMPLES, type=parsed_by("audit", "parse_samples"))],
            "output": [JSON],
        },
        {1: "failed, perhaps because scipy is missing; the message says why", 3: "a promise is broken"},
    ),
    "plan": Command(
        "plan --hide kettle --share half-hour --homes 100",
        {
            "the question: two of --hide, --share and --error": [
                _option("hide", "WHAT", _HIDE),
                _option("share", "WHAT", _SHARE),
                _option("error", "P", _ERROR),
                _option("homes", "N", "how many homes to average; default: 1"),
            ],
            # argparse parses the defaults, too, because they are strings.
            "assumptions": [
                _option("price", "P", "for costs: the largest absolute price per kWh; default: 0.5EUR"),
                _option(
                    "level", "L", "the level of a window; smaller is more private; default: 1", default="1"
                ),
                _option(
                    "timezone", "ZONE", "the time zone of local days and months; default: UTC", default="UTC"
                ),
            ],
            "output": [_LANGUAGE, JSON],
        },
        codes=NO_CONFIG,
    ),
    "schema": Command(
        "schema > meteragent.schema.json\nschema record > record.schema.json",
        {
            "": [
                argument(
                    "name",
                    "NAME",
                    f"what to describe: {', '.join(SCHEMAS)}; default: %(default)s",
                    nargs="?",
                    choices=SCHEMAS,
                    default="config",
                )
            ]
        },
        codes=NO_CONFIG,
    ),
}
