"""The add-on's start: options of Home Assistant in, the agent's configuration out, and the agent runs.

The Supervisor says which broker there is and as whom to use it. What is written lies in /data/meteragent,
which is the agent's own: the configuration, two passwords, the key of the pseudonyms and the store. It is
written, and the agent runs, as a user without rights; only the options are read as root.
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
"""Options that are keys of the configuration by the same name."""
Options = Mapping[str, Any]


def configuration(options: Options, broker: Options, folder: Path, zone: str) -> str:
    """The agent's configuration as TOML; `broker` is the Supervisor's, `zone` Home Assistant's time zone."""
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
    """The keys of a broker: that of Home Assistant, or that of the options."""
    scheme = "mqtts" if broker.get("ssl") else "mqtt"
    url = broker.get("url") or f"{scheme}://{broker['host']}:{broker['port']}"
    password = str(folder / f"{section}-password") if broker.get("password") else None
    return {"url": url, "username": broker.get("username"), "password_file": password}


def _window(options: Options, zone: str) -> dict[str, Any]:
    """The calendar where the preset's windows are days or months, and the range where it is said."""
    calendar = isinstance(PRESETS[options["preset"]].length, str)
    ends = (options.get("lowest_w", 0), options.get("highest_w", 20_000))
    stated = "lowest_w" in options or "highest_w" in options
    return {"timezone": zone if calendar else None, "range": list(ends) if stated else None}


def _sink(options: Options, broker: Options, folder: Path) -> dict[str, Any]:
    """Home Assistant's broker, unless another one is named; there are no devices on that one."""
    other = bool(options.get("url"))
    shown = options["home_assistant"] and not other
    return _login("sink", options if other else broker, folder) | {
        "topic": options["sink_topic"],
        "status": "meteragent/status",
        "home_assistant": "homeassistant" if shown else None,
        "pseudonym_key_file": str(folder / "pseudonym-key") if options["pseudonyms"] else None,
    }


def _table(name: str, keys: Mapping[str, Any]) -> Iterator[str]:
    """A table of TOML, without what is not said. A text, a number or a list of JSON is one of TOML."""
    yield f"[{name}]"
    for key, value in keys.items():
        if value is not None and value != "":
            yield f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")


def write(options: Options, broker: Options, folder: Path, zone: str) -> Path:
    """Write configuration, passwords, and a key of pseudonyms where there is none yet; returns the first."""
    for section, login in (("source", broker), ("sink", options if options.get("url") else broker)):
        _secret(folder / f"{section}-password", str(login.get("password") or ""))
    key = folder / "pseudonym-key"
    if options["pseudonyms"] and not key.exists():
        _secret(key, secrets.token_hex(KEY_BYTES))
    path = folder / "meteragent.toml"
    _secret(path, configuration(options, broker, folder, zone))
    return path


def _secret(path: Path, text: str) -> None:
    """A file that only its owner reads."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def supervised(token: str, url: str = "http://supervisor/services/mqtt") -> dict[str, Any]:
    """The broker of Home Assistant; raises OSError where there is none."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  both are constants
        return dict(json.load(answer)["data"])


def become(user: int, folder: Path) -> None:
    """Give a folder and all in it to a user without rights, and be that user."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in (folder, *folder.iterdir()):  # a backup that was restored has made them root's
        os.chown(path, user, user, follow_symlinks=False)
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


def main() -> None:
    """Read, become a user without rights, write, and become the agent."""
    options = json.loads(OPTIONS.read_text(encoding="utf-8"))
    try:
        broker = supervised(os.environ.pop("SUPERVISOR_TOKEN"))
    except OSError:
        sys.exit("There is no broker: install the Mosquitto add-on or set up MQTT, and start this one again")
    become(USER, FOLDER)
    path = write(options, broker, FOLDER, os.environ.get("TZ", "UTC"))
    os.chdir(FOLDER)
    agent = Path(sys.executable).with_name("meteragent")
    os.execv(agent, [str(agent), "run", str(path)])  # noqa: S606  the agent in this one's place


if __name__ == "__main__":
    main()
