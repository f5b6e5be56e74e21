"""The commands that find a meter and read its messages: `discover`, `init`, `tap`, `redact` and `profile`."""

from pathlib import Path

from meteragent.cli.usage.command import CONFIG, JSON, NO_CONFIG, STOPPED, Command, argument, parsed_by
from meteragent.domain.presets import OFFERED_PRESETS

_URL = "its address: mqtt://host[:1883] or mqtts://host[:8883]"
_AUTHORITY = "for mqtts://: the certificate authority to trust; default: the system's authorities"
_KEY = "for mqtts://: the client certificate's private key; default: the certificate's file"
_LOGIN = (
    argument("--client-id", "ID", "the client id, if the broker accepts only some"),
    argument("--username", "NAME", "the user name to log in with"),
    argument("--password-file", "FILE", "a file that holds the password", type=Path),
    argument("--ca-file", "FILE", _AUTHORITY, type=Path),
    argument("--cert-file", "FILE", "for mqtts://: your client certificate", type=Path),
    argument("--key-file", "FILE", _KEY, type=Path),
)
_SECONDS = {"type": parsed_by("discover", "parse_seconds"), "default": 60}
_ANSWERS = (
    ("--meter", "M", "the meter, by its name or topic"),
    ("--quantity", "Q", "what to send: power, register, interval_energy, or the name of a quantity"),
    ("--kind", "KIND", "what the numbers mean, if the device does not say: register or interval_energy"),
    ("--unit", "UNIT", "the unit of the numbers, if the device does not say: W, kW, Wh or kWh"),
    ("--interval", "TIME", "the time that an interval energy covers; default: 15min"),
    ("--name", "NAME", "the meter's name in private records; default: home"),
    ("--preset", "P", f"how much is hidden: {', '.join(OFFERED_PRESETS[:-1])} or {OFFERED_PRESETS[-1]}"),
    ("--topic", "TOPIC", "the topic under which private numbers are sent; default: private"),
)
_SOLAR = "whether power can flow out of the home (solar panels, a battery)"
_PROFILE = "also check whether this device profile reads the result as it reads the original"
_PAYLOADS = (
    "a file with one payload, or with one message per line, as from mosquitto_sub -v; - for standard input"
)
_PROFILE_TEST = Command(
    "profile test profiles/my-meter.toml payloads.txt",
    {
        "": [
            argument("config", "FILE", "the profile's file, or the name of a built-in profile", type=Path),
            argument("payloads", "PAYLOAD", _PAYLOADS, nargs="+"),
        ],
        "output": [JSON],
    },
    {
        0: "a quantity was read",
        1: "no quantity was read, or a payload file cannot be read",
        78: "the profile is refused; the message names each line, key and expected value",
    },
)
_PROFILE_SENTENCE = "Show what a profile reads and drops in recorded payloads, and what it refuses and why."


COMMANDS = {
    "discover": Command(
        "discover --url mqtt://192.168.1.10 --username me --password-file password",
        {
            "the broker": [argument("--url", "URL", _URL, required=True), *_LOGIN],
            "listening": [
                argument(
                    "--seconds",
                    "N",
                    "how many seconds to listen; default: %(default)s; Ctrl-C stops early",
                    **_SECONDS,
                ),
                argument("--topic", "FILTER", "a topic filter to listen to; default: '#' (all)", default="#"),
            ],
            "output": [JSON],
        },
        {1: "no message arrived, or the broker or a file cannot be used"},
        NO_CONFIG,
    ),
    "init": Command(
        "init --url mqtt://192.168.1.10\ninit --url mqtt://192.168.1.10 --preset street --yes",
        {
            "the broker": [
                argument("--url", "URL", _URL),
                *_LOGIN,
                argument("--seconds", "N", "how many seconds to listen; default: %(default)s", **_SECONDS),
            ],
            "answers (init asks for those that are missing)": [
                *(argument(*words) for words in _ANSWERS),
                argument("--solar", None, _SOLAR, choices=("no", "yes")),
            ],
            "output": [
                argument("--out", "FILE", "the file to write; default: home.toml", type=Path),
                argument("--unit-file", "FILE", "also write a systemd unit", type=Path),
                argument("--yes", None, "ask nothing: accept each default"),
            ],
        },
        {
            1: "failed; the message says why, and nothing was written",
            130: "stopped before the last answer; nothing was written",
        },
    ),
    "tap": Command(
        "tap home.toml",
        {
            "": [CONFIG],
            "meters": [argument("--meter", "M", "show only the meter with this name in the source's topic")],
        },
        {0: STOPPED, 1: "this is not a terminal, or a broker does not answer"},
    ),
    "redact": Command(
        "redact payload.json --profile shelly-gen2-em",
        {
            "": [argument("file", "FILE", "the recorded payload; - for standard input")],
            "redaction": [
                argument("--profile", "NAME", _PROFILE, type=parsed_by("redact", "parse_profile")),
                argument(
                    "--keep", "NAME", "keep this key, word or level of a topic", action="append", default=[]
                ),
            ],
        },
        {1: "failed: the file cannot be read, is too large, or has a message of no known format"},
        NO_CONFIG,
    ),
    "profile": Command(
        _PROFILE_TEST.example,
        {},
        _PROFILE_TEST.meanings,
        actions={"test": (_PROFILE_SENTENCE, _PROFILE_TEST)},
    ),
}
