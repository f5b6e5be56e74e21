"""The arguments of all commands except `convert`, in groups; nothing here imports a command."""

import argparse
from pathlib import Path

from meteragent.cli.shared import add_config, add_json, add_language, add_log_level, parsed_by


def run(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `run`."""
    add_config(parser)
    parser.add_argument_group("rehearsal").add_argument(
        "--rehearse",
        action="store_true",
        help="show on this terminal what would be sent, in slots of a few seconds; send and write nothing",
    )
    parser.add_argument_group("log").add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="the lowest level to log; default: %(default)s",
    )


def check(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `check`."""
    add_config(parser)
    output = parser.add_argument_group("output")
    add_language(output)
    form = output.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument(
        "--statement", action="store_true", help="print a page for your data protection records (Markdown)"
    )
    parser.add_argument_group("events").add_argument(
        "--event",
        metavar="'2000W 30min'",
        type=parsed_by("check", "parse_event"),
        action="append",
        default=[],
        help="also show how well an event of your own is hidden; can be repeated",
    )


def audit(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `audit`."""
    add_config(parser)
    parser.add_argument_group("effort").add_argument(
        "--samples",
        metavar="N",
        type=parsed_by("audit", "parse_samples"),
        help="the number of windows for each statistic; default: as many as a few seconds allow",
    )
    add_json(parser.add_argument_group("output"))


def ledger(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `ledger`."""
    add_config(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--meter", metavar="M", help="show only this meter")
    add_json(output)
    repair = parser.add_argument_group("a store that was restored or moved")
    repair = repair.add_mutually_exclusive_group()
    repair.add_argument(
        "--restored-at",
        metavar="TIME",
        type=parsed_by("ledger", "parse_time_ms"),
        help="make a restored store usable: nothing before TIME (RFC 3339, or `now`) is released again",
    )
    repair.add_argument(
        "--moved", action="store_true", help="accept a store that you moved together with the files beside it"
    )


def export(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `export`."""
    add_config(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--csv", action="store_true", help="print CSV (the default)")
    output.add_argument(
        "--nonnegative",
        action="store_true",
        help="add a non-negative column with each day's (or longer window's) energy, but biased single slots",
    )


def health(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `health`."""
    add_config(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print all figures as JSON")


def plan(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `plan`."""
    parser.set_defaults(refuse=parser.error)
    question = parser.add_argument_group("the question: two of --hide, --share and --error")
    assumptions = parser.add_argument_group("assumptions")
    output = parser.add_argument_group("output")
    rows = (
        (
            question,
            "--hide",
            "WHAT",
            "what to hide: kettle, 'tv evening', '8 h away', ..., 110Wh, 0.3kWh, or '2000W 30min'",
        ),
        (
            question,
            "--share",
            "WHAT",
            "what to share: half-hour, day, typical-day, month, 15min, hour, curve, month-cost, 'day,month'",
        ),
        (
            question,
            "--error",
            "P",
            "the largest acceptable error: 5%% of a home's use, 20W, 0.5kWh, 0.05EUR; or one for each share",
        ),
        (question, "--homes", "N", "how many homes to average; default: 1"),
        (assumptions, "--price", "P", "for costs: the largest absolute price per kWh; default: 0.5EUR"),
        (assumptions, "--level", "L", "the level of a window; smaller is more private; default: 1"),
        (assumptions, "--timezone", "ZONE", "the time zone of local days and months; default: UTC"),
        (
            output,
            "--plot",
            "FILE",
            "write a plot of error against hidden energy to a file whose name ends in .png, .pdf or .svg",
        ),
    )
    for group, flag, metavar, text in rows:
        parse = parsed_by("plan", f"parse_{flag[2:]}")
        group.add_argument(flag, metavar=metavar, type=parse, help=text)
    parser.set_defaults(level="1", timezone="UTC")  # strings: argparse parses them too
    add_language(output)
    add_json(output)


def discover(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `discover`."""
    broker = parser.add_argument_group("the broker")
    broker.add_argument("--url", required=True, help="its address: mqtt://host[:1883] or mqtts://host[:8883]")
    broker.add_argument("--username", metavar="NAME", help="the user name to log in with")
    broker.add_argument("--password-file", metavar="FILE", type=Path, help="a file that holds the password")
    _tls(broker)
    listening = parser.add_argument_group("listening")
    listening.add_argument(
        "--seconds",
        type=parsed_by("discover", "parse_seconds"),
        default=60,
        metavar="N",
        help="how many seconds to listen; default: %(default)s; Ctrl-C stops early",
    )
    listening.add_argument(
        "--topic", default="#", metavar="FILTER", help="a topic filter to listen to; default: '#' (all)"
    )


def _tls(broker: argparse._ArgumentGroup) -> None:
    """Declare the options that name the files of a TLS connection."""
    for flag, text in (
        ("--ca-file", "the certificate authority to trust; default: the system's authorities"),
        ("--cert-file", "your client certificate"),
        ("--key-file", "the client certificate's private key; default: the certificate's file"),
    ):
        broker.add_argument(flag, metavar="FILE", type=Path, help=f"for mqtts://: {text}")


def init(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `init`."""
    broker = parser.add_argument_group("the broker")
    broker.add_argument("--url", help="its address: mqtt://host[:1883] or mqtts://host[:8883]")
    broker.add_argument("--username", metavar="NAME", help="the user name to log in with")
    broker.add_argument("--password-file", metavar="FILE", type=Path, help="a file that holds the password")
    _tls(broker)
    broker.add_argument(
        "--seconds",
        type=parsed_by("discover", "parse_seconds"),
        default=60,
        metavar="N",
        help="how many seconds to listen; default: %(default)s",
    )
    answers = parser.add_argument_group("answers (init asks for those that are missing)")
    for flag, metavar, text in (
        ("--meter", "M", "the meter, by its name or topic"),
        ("--quantity", "Q", "what to send: power, register, interval_energy, or the name of a quantity"),
        ("--kind", "KIND", "what the numbers mean, if the device does not say: register or interval_energy"),
        ("--unit", "UNIT", "the unit of the numbers, if the device does not say: W, kW, Wh or kWh"),
        ("--interval", "TIME", "the time that an interval energy covers; default: 15min"),
        ("--name", "NAME", "the meter's name in private records; default: home"),
        ("--preset", "P", "how much is hidden: television, appliance, street, day or bill"),
        ("--topic", "TOPIC", "the topic under which private numbers are sent; default: private"),
    ):
        answers.add_argument(flag, metavar=metavar, help=text)
    answers.add_argument(
        "--solar",
        choices=("no", "yes"),
        help="whether power can flow out of the home (solar panels, a battery)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--out", metavar="FILE", type=Path, help="the file to write; default: home.toml")
    output.add_argument("--unit-file", metavar="FILE", type=Path, help="also write a systemd unit")
    output.add_argument("--yes", action="store_true", help="ask nothing: accept each default")


def tap(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tap`."""
    add_config(parser)
    parser.add_argument_group("meters").add_argument(
        "--meter", metavar="M", help="show only the meter with this name in the source's topic"
    )


def redact(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `redact`."""
    parser.add_argument("file", metavar="FILE", help="the recorded payload; - for standard input")
    group = parser.add_argument_group("redaction")
    group.add_argument(
        "--profile",
        metavar="NAME",
        type=parsed_by("redact", "parse_profile"),
        help="also check whether this device profile reads the result as it reads the original",
    )
    group.add_argument("--keep", metavar="NAME", action="append", default=[], help="keep this key or word")


def profile_test(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `profile test`."""
    parser.add_argument(
        "config", metavar="FILE", type=Path, help="the profile's file, or the name of a built-in profile"
    )
    parser.add_argument(
        "payloads",
        metavar="PAYLOAD",
        nargs="+",
        help="a file with one payload, or with one message per line, as from mosquitto_sub -v; - for"
        " standard input",
    )


def collect(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `collect`."""
    add_config(parser)
    group = parser.add_argument_group("instead of collecting").add_mutually_exclusive_group()
    group.add_argument("--check", action="store_true", help="check the configuration and its files")
    group.add_argument("--migrate", action="store_true", help="create or update the tables, as their owner")
    add_log_level(parser)


def crowd_operator(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `crowd leader` and `crowd helper`."""
    add_config(parser)
    parser.add_argument_group("instead of running").add_argument(
        "--check", action="store_true", help="check the configuration and its files"
    )
    add_log_level(parser)


def crowd_health(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `crowd health`."""
    add_config(parser)
    form = parser.add_argument_group("output").add_mutually_exclusive_group()
    add_json(form)
    form.add_argument("--metrics", action="store_true", help="print the figures for Prometheus")


def crowd_ledger(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `crowd ledger`."""
    add_config(parser)
    add_json(parser.add_argument_group("output"))


def crowd_key(parser: argparse.ArgumentParser) -> None:
    """Declare the argument `FILE` of `crowd key new` and `crowd key show`."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the identity's file")


def sanitise(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `sanitise`."""
    parser.add_argument("input", metavar="IN.parquet", type=Path, help="a file, or a folder of files")
    parser.add_argument("output", metavar="OUT.parquet", type=Path, help="a folder that does not exist yet")
    parser.add_argument_group("promise").add_argument(
        "--config", metavar="CONFIG", type=Path, required=True, help="a configuration with an [archive] table"
    )
    group = parser.add_argument_group("run")
    group.add_argument(
        "--engine",
        choices=("local", "spark"),
        default="local",
        help="where the run is computed: on this machine or on Spark; default: %(default)s",
    )
    group.add_argument("--dry-run", action="store_true", help="show what a run would do, and write nothing")
    group.add_argument(
        "--clamp",
        action="store_true",
        help="release even if more than half of the numbers are outside window.range, and clamp them to it",
    )
    add_json(parser.add_argument_group("output"))


def key_file(parser: argparse.ArgumentParser) -> None:
    """Declare the argument `FILE` of all actions of `key`; it is the only argument of `key show`."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the key's file")


def key_new(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `key new`."""
    key_file(parser)
    group = parser.add_argument_group("the key")
    group.add_argument(
        "--tenant",
        metavar="NAME",
        type=parsed_by("key", "parse_tenant"),
        required=True,
        help="the owner of the windows",
    )
    group.add_argument(
        "--from",
        metavar="DATE",
        dest="begin",
        type=parsed_by("key", "parse_date"),
        help="a day in the first epoch; default: no limit, for archives older than their key",
    )
    group.add_argument(
        "--every",
        choices=("month", "day"),
        default="month",
        help="the length of an epoch, which is the unit that `forget` erases; default: %(default)s",
    )


def key_forget(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `key forget`."""
    key_file(parser)
    parser.add_argument_group("what to forget").add_argument(
        "--before",
        metavar="DATE",
        type=parsed_by("key", "parse_date"),
        required=True,
        help="a day in the first epoch to keep",
    )


def demo(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `demo`."""
    size = parser.add_argument_group("size")
    size.add_argument("--homes", metavar="N", help="how many homes; default: 100")
    size.add_argument("--days", metavar="N", help="how many days; default: 1")
    size.add_argument(
        "--crowd",
        action="store_true",
        help="compare two totals of the homes: with noise from two operators, and with noise in every home",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--out", metavar="DIR", help="the folder for the picture and the report")


SCHEMAS = (
    "config",
    "record",
    "record-senml",
    "descriptor",
    "total",
    "status",
    "prices",
    "manifest",
    "asyncapi",
)
"""What `schema` can describe: the configuration, each message, an archive's manifest, and all topics."""


def schema(parser: argparse.ArgumentParser) -> None:
    """Declare the argument of `schema`."""
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        choices=SCHEMAS,
        default="config",
        help=f"what to describe: {', '.join(SCHEMAS)}; default: %(default)s",
    )
