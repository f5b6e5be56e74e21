"""The add-on for Home Assistant: options in, a configuration that the agent accepts out."""

import json
import os
import re
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path, PurePath
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from deploy.homeassistant.addon.meteragent import run
from meteragent import __version__, config
from meteragent.config import FULL_PRESETS
from meteragent.config.source import FORMATS
from meteragent.decode.profiles import PROFILES
from tests.support.not_run import ROOT
from tests.support.stores import open_store

ADDON = ROOT / "deploy" / "homeassistant" / "addon" / "meteragent"
FACTS = yaml.safe_load((ADDON / "config.yaml").read_text())
GIVEN = {"topic": "meters/{meter}/power", "kind": "power", "unit": "W"}
OPTIONS = {key: value for key, value in FACTS["options"].items() if value is not None} | GIVEN
"""The add-on's own, and what has no default."""
BROKER = {"host": "core-mosquitto", "port": 1883, "username": "addons", "password": "s3cret", "ssl": False}


def written(folder: Path, zone: str = "Europe/Amsterdam", **more: object) -> config.Config:
    """What the agent makes of the options, with all files in their places."""
    return config.load(run.write(OPTIONS | more, BROKER, folder, zone))


def choices(option: str) -> list[str]:
    """What an option may be."""
    return re.findall(r"list\((.*)\)", FACTS["schema"][option])[0].split("|")  # type: ignore[no-any-return]


def test_the_options_as_they_come_are_a_configuration(tmp_path: Path) -> None:
    """With topic, kind and unit: a kettle is hidden, by way of Home Assistant's broker."""
    actual = written(tmp_path)
    (stream,) = actual.stream
    assert config.terms(stream).radius == 220
    for broker, url in ((stream.source, stream.source.url), (stream.sink, config.sink_url(stream))):
        end = config.read_endpoint("source", url, broker)
        assert (end.host, end.port, end.username, end.password) == (
            "core-mosquitto",
            1883,
            "addons",
            "s3cret",
        )
    assert (stream.sink.home_assistant, stream.sink.status) == ("homeassistant", "meteragent/status")
    assert (stream.sink.topic, stream.sink.pseudonym_key_file) == ("private/{meter}/power", None)
    assert (actual.store.path, actual.store.flush) == (tmp_path / "meteragent.db", 60_000)
    assert stream.window.timezone is None


def test_every_option_reaches_the_agent(tmp_path: Path) -> None:
    """What is said of meter, format, range, energy hidden and flush is what the agent reads."""
    said = {
        "meter": "home",
        "profile": "json",
        "value": "power",
        "time": "t",
        "unit": "kW",
        "topic": "m/power",
    }
    actual = written(tmp_path, **said, lowest_w=-5000, hide="0.3kWh", flush="15min", sink_topic="out/{meter}")
    (stream,) = actual.stream
    source = stream.source
    assert (source.meter, source.profile, source.value, source.time) == ("home", "json", "power", "t")
    assert (source.unit, source.topic, stream.sink.topic) == ("kW", "m/power", "out/{meter}")
    assert [float(end) for end in stream.window.range] == [-5000, 20_000]
    assert actual.store.flush == 900_000
    assert config.terms(stream).radius == pytest.approx(0.6)


@pytest.mark.parametrize("preset", choices("preset"))
def test_every_preset_is_accepted(tmp_path: Path, preset: str) -> None:
    """With the time zone of Home Assistant where windows are days or months."""
    (stream,) = written(tmp_path, preset=preset).stream
    calendar = FULL_PRESETS[preset].has_calendar
    assert stream.window.timezone == ("Europe/Amsterdam" if calendar else None)
    assert config.terms(stream).level == 1


def test_another_broker_gets_the_records_and_nobody_else(tmp_path: Path) -> None:
    """The broker has its own user and password, and no devices."""
    url = "mqtts://utility.example:8883"
    (stream,) = written(tmp_path, url=url, username="gateway", password='p"\\w').stream
    end = config.read_endpoint("sink", config.sink_url(stream), stream.sink)
    assert (end.host, end.port, end.username, end.password) == ("utility.example", 8883, "gateway", 'p"\\w')
    assert stream.source.url == "mqtt://core-mosquitto:1883"
    assert stream.sink.home_assistant is None


def test_pseudonyms_have_a_key_that_stays(tmp_path: Path) -> None:
    """It is drawn once, and is a secret like the passwords."""
    (stream,) = written(tmp_path, pseudonyms=True).stream
    path = stream.sink.pseudonym_key_file
    assert path is not None
    key = config.read_secret("sink.pseudonym_key_file", path)
    assert len(key) == 64
    written(tmp_path, pseudonyms=True)
    assert config.read_secret("sink.pseudonym_key_file", path) == key
    assert {item.stat().st_mode & 0o777 for item in tmp_path.iterdir()} == {0o600}


@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_any_text_is_written_as_it_is(text: str) -> None:
    """Quotes, backslashes and control characters do not end a string, nor begin a key."""
    actual = tomllib.loads("\n".join(run._table("source", {"value": text, "kind": "power"})))
    assert actual == {"source": {"value": text, "kind": "power"}}


def test_the_options_are_those_of_the_agent() -> None:
    """Formats, devices, presets, kinds and units are what there is; what has no default must be said."""
    assert choices("profile") == [*FORMATS, *PROFILES], "run `make tables`"
    assert sorted(choices("preset")) == sorted(FULL_PRESETS)
    required = {name for name, kind in FACTS["schema"].items() if not kind.endswith("?")}
    assert required == set(FACTS["options"])
    assert {name for name, value in FACTS["options"].items() if value is None} == set(GIVEN)
    assert FACTS["version"] == __version__


def test_every_option_has_words() -> None:
    """Each has a name in English, and nothing else has."""
    words = yaml.safe_load((ADDON / "translations" / "en.yaml").read_text())["configuration"]
    assert list(words) == list(FACTS["schema"])
    assert all(entry["name"] for entry in words.values())


def test_the_manifest_is_one_of_an_add_on() -> None:
    """What the Supervisor asks for is there, in its form: types of options, machines, the broker it needs."""
    assert set(FACTS["arch"]) == {"amd64", "aarch64"}
    assert FACTS["services"] == ["mqtt:need"]
    assert re.fullmatch(r"[-_.A-Za-z0-9]+", FACTS["slug"])
    assert 10 <= FACTS["timeout"] <= 300
    form = r"(bool|int|str(\(\d*,\d*\))?|password|match\(.*\)|list\(.+\))\??"
    assert all(re.fullmatch(form, kind) for kind in FACTS["schema"].values())


@pytest.mark.parametrize("page", ["addon/meteragent/DOCS.md", "README.md"])
def test_the_oldest_home_assistant_is_2024_11_and_documented(page: str) -> None:
    """The add-on needs 2024.11, the first with MQTT discovery by device, and its pages name this version."""
    year, month, patch = map(int, FACTS["homeassistant"].split("."))
    assert (year, month) >= (2024, 11)
    assert patch == 0
    text = " ".join((ROOT / "deploy" / "homeassistant" / page).read_text().split())
    assert re.findall(r"Home Assistant (\d+\.\d+) or later", text) == [f"{year}.{month}"]


def test_the_store_is_in_no_backup(tmp_path: Path) -> None:
    """One that is brought back is worse than none; generation and key are kept, so that its loss is seen."""
    store = tmp_path / "meteragent.db"
    open_store(store).close()
    beside = [
        store.with_name(store.name + end) for end in ("", "-wal", "-shm", ".corrupt-1795000000000", ".health")
    ]
    place = PurePath("/data/addons/data/local_meteragent/meteragent")
    for path in beside:
        assert any((place / path.name).match(pattern) for pattern in FACTS["backup_exclude"]), path
    for name in ("meteragent.db.gen", "pseudonym-key"):
        assert not any((place / name).match(pattern) for pattern in FACTS["backup_exclude"]), name
    store.unlink()  # what a restored backup looks like
    with open_store(store, now_ms=1000, floor_ms=2000) as actual:
        assert (actual.damage != "", actual.floor_ms) == (True, 2000)


@pytest.fixture
def supervisor() -> Iterator[str]:
    """A supervisor that knows a broker and who may ask for it."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.headers["Authorization"] == "Bearer token"
            self.send_response(200 if allowed else 403)
            self.end_headers()
            self.wfile.write(json.dumps({"result": "ok", "data": BROKER}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/services/mqtt"
        server.shutdown()
        thread.join()


def test_the_supervisor_is_asked_for_the_broker(supervisor: str) -> None:
    """With the add-on's token; what it says is used as it is."""
    assert run.fetch_broker("token", supervisor) == BROKER
    with pytest.raises(OSError, match="403"):
        run.fetch_broker("wrong", supervisor)


def test_the_agent_runs_as_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options are read, rights given up, files written, the agent runs: in this order, without the token."""
    order: list[Any] = []
    options, folder = tmp_path / "options.json", tmp_path / "own"
    options.write_text(json.dumps(OPTIONS))
    monkeypatch.setattr(run, "OPTIONS", options)
    monkeypatch.setattr(run, "FOLDER", folder)
    monkeypatch.setattr(run, "fetch_broker", Mock(return_value=BROKER))
    monkeypatch.setenv("SUPERVISOR_TOKEN", "token")
    monkeypatch.chdir(tmp_path)
    for name in ("chown", "setgroups", "setgid", "setuid"):
        monkeypatch.setattr(os, name, lambda *values, name=name, **_: order.append((name, *values)))
    monkeypatch.setattr(os, "execv", lambda program, arguments: order.append((program.name, *arguments[1:])))
    run.main()
    path = folder / "meteragent.toml"
    assert order == [
        ("chown", folder, 65532, 65532),
        ("setgroups", []),
        ("setgid", 65532),
        ("setuid", 65532),
        ("meteragent", "run", str(path)),
    ]
    assert config.load(path).stream[0].source.topic == GIVEN["topic"]
    assert "SUPERVISOR_TOKEN" not in os.environ
    assert folder.stat().st_mode & 0o777 == 0o700


def test_without_a_broker_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends, and the log names the cure."""
    (tmp_path / "options.json").write_text(json.dumps(OPTIONS))
    monkeypatch.setattr(run, "OPTIONS", tmp_path / "options.json")
    monkeypatch.setattr(run, "fetch_broker", Mock(side_effect=OSError))
    monkeypatch.setenv("SUPERVISOR_TOKEN", "token")
    with pytest.raises(SystemExit, match="Mosquitto add-on"):
        run.main()
