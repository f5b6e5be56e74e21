"""The commands that find a meter and read its messages: `discover`, `init`, `tap`, `redact` and `profile`."""

import argparse
from pathlib import Path

from meteragent.cli.usage.command import NO_CONFIG, Command, actions_of, add_config, add_options, parsed_by


def discover(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `discover`."""
    broker = parser.add_argument_group("the broker")
    _connection(broker, is_required=True)
    listening = parser.add_argument_group("listening")
    _seconds(listening, "; Ctrl-C stops early")
    topic = ("--topic", "FILTER", "a topic filter to listen to; default: '#' (all)")
    add_options(listening, topic, default="#")


def _seconds(group: argparse._ArgumentGroup, remark: str = "") -> None:
    """Declare how long to listen."""
    text = f"how many seconds to listen; default: %(default)s{remark}"
    add_options(group, ("--seconds", "N", text), parse=parsed_by("discover", "parse_seconds"), default=60)


def _connection(broker: argparse._ArgumentGroup, *, is_required: bool) -> None:
    """Declare the options of the connection to a broker."""
    text = "its address: mqtt://host[:1883] or mqtts://host[:8883]"
    broker.add_argument("--url", required=is_required, help=text)
    add_options(
        broker,
        ("--client-id", "ID", "the client id, if the broker accepts only some"),
        ("--username", "NAME", "the user name to log in with"),
    )
    authority = "for mqtts://: the certificate authority to trust; default: the system's authorities"
    key = "for mqtts://: the client certificate's private key; default: the certificate's file"
    add_options(
        broker,
        ("--password-file", "FILE", "a file that holds the password"),
        ("--ca-file", "FILE", authority),
        ("--cert-file", "FILE", "for mqtts://: your client certificate"),
        ("--key-file", "FILE", key),
        parse=Path,
    )


def init(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `init`."""
    broker = parser.add_argument_group("the broker")
    _connection(broker, is_required=False)
    _seconds(broker)
    answers = parser.add_argument_group("answers (init asks for those that are missing)")
    add_options(
        answers,
        ("--meter", "M", "the meter, by its name or topic"),
        ("--quantity", "Q", "what to send: power, register, interval_energy, or the name of a quantity"),
        ("--kind", "KIND", "what the numbers mean, if the device does not say: register or interval_energy"),
        ("--unit", "UNIT", "the unit of the numbers, if the device does not say: W, kW, Wh or kWh"),
        ("--interval", "TIME", "the time that an interval energy covers; default: 15min"),
        ("--name", "NAME", "the meter's name in private records; default: home"),
        ("--preset", "P", "how much is hidden: television, appliance, street, day or bill"),
        ("--topic", "TOPIC", "the topic under which private numbers are sent; default: private"),
    )
    answers.add_argument(
        "--solar",
        choices=("no", "yes"),
        help="whether power can flow out of the home (solar panels, a battery)",
    )
    output = parser.add_argument_group("output")
    add_options(
        output,
        ("--out", "FILE", "the file to write; default: home.toml"),
        ("--unit-file", "FILE", "also write a systemd unit"),
        ("--yes", None, "ask nothing: accept each default"),
        parse=Path,
    )


def tap(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tap`."""
    add_config(parser)
    text = "show only the meter with this name in the source's topic"
    add_options(parser.add_argument_group("meters"), ("--meter", "M", text))


def redact(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `redact`."""
    parser.add_argument("file", metavar="FILE", help="the recorded payload; - for standard input")
    group = parser.add_argument_group("redaction")
    text = "also check whether this device profile reads the result as it reads the original"
    add_options(group, ("--profile", "NAME", text), parse=parsed_by("redact", "parse_profile"))
    keep = ("--keep", "NAME", "keep this key, word or level of a topic")
    add_options(group, keep, action="append", default=[])


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


_PROFILE_TEST = Command(
    "profile test profiles/my-meter.toml payloads.txt",
    profile_test,
    {
        0: "a quantity was read",
        1: "no quantity was read, or a payload file cannot be read",
        78: "the profile is refused; the message names each line, key and expected value",
    },
)


COMMANDS = {
    "discover": Command(
        "discover --url mqtt://192.168.1.10 --username me --password-file password",
        discover,
        {1: "no message arrived, or the broker or a file cannot be used"},
        NO_CONFIG,
    ),
    "init": Command(
        "init --url mqtt://192.168.1.10\ninit --url mqtt://192.168.1.10 --preset street --yes",
        init,
        {
            1: "failed; the message says why, and nothing was written",
            130: "stopped before the last answer; nothing was written",
        },
    ),
    "tap": Command(
        "tap home.toml",
        tap,
        {0: "stopped by SIGTERM or Ctrl-C", 1: "this is not a terminal, or a broker does not answer"},
    ),
    "redact": Command(
        "redact payload.json --profile shelly-gen2-em",
        redact,
        {1: "failed: the file cannot be read, is too large, or has a message of no known format"},
        NO_CONFIG,
    ),
    "profile": Command(
        "profile test profiles/my-meter.toml payloads.txt",
        actions_of(
            {
                "test": (
                    "Show what a profile reads and drops in recorded payloads, and what it refuses and why.",
                    _PROFILE_TEST,
                )
            }
        ),
        _PROFILE_TEST.meanings,
    ),
}
