"""Start the add-on: write the agent's configuration from the options in Home Assistant, and run the agent.

The Supervisor provides the broker and its login. /data/meteragent contains the configuration, two passwords,
the key of the pseudonyms and the store. The folder belongs to an unprivileged user, who writes these files
and runs the agent; only the options are read as root.
"""

import json
import os
import secrets
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from meteragent.domain.presets import PRESETS

OPTIONS = Path("/data/options.json")
FOLDER = Path("/data/meteragent")
USER = 65532
KEY_BYTES = 32

_SOURCE = ("topic", "meter", "profile", "value", "time", "kind", "unit")
"""Options with the same names as configuration keys."""
Options = Mapping[str, Any]


def configuration(options: Options, broker: Options, folder: Path, zone: str) -> str:
    """Return the agent's configuration as TOML.

    The Supervisor provides `broker`; `zone` is Home Assistant's time zone.
    """
    lines = [
        *_table("source", _source(options, broker, folder)),
        *_table("window", _window(options, zone)),
        *_table("privacy", {"preset": options["preset"], "hide": options.get("hide")}),
        *_table("sink", _sink(options, broker, folder)),
        *_table("store", {"path": str(folder / "meteragent.db"), "flush": options["flush"]}),
    ]
    return "\n".join(lines) + "\n"


def _source(options: Options, broker: Options, folder: Path) -> dict[str, Any]:
    return _login("source", broker, folder) | {name: options.get(name) for name in _SOURCE}


def _login(section: str, broker: Options, folder: Path) -> dict[str, Any]:
    """Return the keys of a broker, either Home Assistant's or that of the options."""
    scheme = "mqtts" if broker.get("ssl") else "mqtt"
    url = broker.get("url") or f"{scheme}://{broker['host']}:{broker['port']}"
    password = str(folder / f"{section}-password") if broker.get("password") else None
    return {"url": url, "username": broker.get("username"), "password_file": password}


def _window(options: Options, zone: str) -> dict[str, Any]:
    """Return the time zone if the preset's windows are days or months, and the range if an option sets it."""
    calendar = PRESETS[options["preset"]].has_calendar
    ends = (options.get("lowest_w", 0), options.get("highest_w", 20_000))
    has_range = "lowest_w" in options or "highest_w" in options
    return {"timezone": zone if calendar else None, "range": list(ends) if has_range else None}


def _sink(options: Options, broker: Options, folder: Path) -> dict[str, Any]:
    """Return the keys of the sink: Home Assistant's broker, or another broker without discovery."""
    is_external = bool(options.get("url"))
    is_discoverable = options["home_assistant"] and not is_external
    return _login("sink", options if is_external else broker, folder) | {
        "topic": options["sink_topic"],
        "status": "meteragent/status",
        "home_assistant": "homeassistant" if is_discoverable else None,
        "pseudonym_key_file": str(folder / "pseudonym-key") if options["pseudonyms"] else None,
    }


def _table(name: str, keys: Mapping[str, Any]) -> Iterator[str]:
    """Yield a TOML table without empty keys; strings, numbers and lists of JSON are valid TOML."""
    yield f"[{name}]"
    for key, value in keys.items():
        if value is not None and value != "":
            yield f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")


def write(options: Options, broker: Options, folder: Path, zone: str) -> Path:
    """Write the configuration, the passwords and, unless there is one, a key of pseudonyms.

    Return the path of the configuration.
    """
    for section, login in (("source", broker), ("sink", options if options.get("url") else broker)):
        _secret(folder / f"{section}-password", str(login.get("password") or ""))
    key = folder / "pseudonym-key"
    if options["pseudonyms"] and not key.exists():
        _secret(key, secrets.token_hex(KEY_BYTES))
    path = folder / "meteragent.toml"
    _secret(path, configuration(options, broker, folder, zone))
    return path


def _secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def fetch_broker(token: str, url: str = "http://supervisor/services/mqtt") -> dict[str, Any]:
    """Return Home Assistant's broker; raises OSError if there is none."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  the URL is a constant
        return dict(json.load(answer)["data"])


def become(user: int, folder: Path) -> None:
    """Give a folder and its files to an unprivileged user, and become that user."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in (folder, *folder.iterdir()):  # a restored backup belongs to root
        os.chown(path, user, user, follow_symlinks=False)
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


def main() -> None:
    """Read the options, drop root's privileges, write the configuration, and run the agent."""
    options = json.loads(OPTIONS.read_text(encoding="utf-8"))
    try:
        broker = fetch_broker(os.environ.pop("SUPERVISOR_TOKEN"))
    except OSError:
        sys.exit("No broker found. Install the Mosquitto add-on or set up MQTT, then restart this add-on.")
    become(USER, FOLDER)
    path = write(options, broker, FOLDER, os.environ.get("TZ", "UTC"))
    os.chdir(FOLDER)
    agent = Path(sys.executable).with_name("meteragent")
    os.execv(agent, [str(agent), "run", str(path)])  # noqa: S606  replaces this process


if __name__ == "__main__":
    main()
