"""The `receivers` command: what it lists, what it does to a store that no agent uses, and what it refuses."""

import json
import sys
from pathlib import Path

import pytest

from meteragent.cli import main, rehearsal, tap
from meteragent.config import Config
from tests.support.stores import open_store

TEXT = """
store.path = "{}"
source.url = "mqtt://home"
source.topic = "meters/{{meter}}/power"
source.kind = "power"
source.unit = "W"
source.every = "10s"
[[receiver]]
name = "utility"
topic = "utility/{{meter}}"
[[receiver]]
name = "study"
preset = "day"
topic = "study/{{meter}}"
[window]
timezone = "UTC"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A configuration with two receivers of two presets, and its store."""
    path = tmp_path / "home.toml"
    path.write_text(TEXT.format(tmp_path / "db"))
    open_store(tmp_path / "db").close()
    return path


def said(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str]:
    """Run a command; return its code and all that it printed."""
    code = main(list(map(str, words)))
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def listed(capsys: pytest.CaptureFixture[str], path: Path) -> dict[str, list[object]]:
    """The state, cost and last action of each receiver, as `--json` lists them."""
    document = json.loads(said(capsys, "receivers", path, "--json")[1])
    last = [row["last_action"] and row["last_action"]["verb"] for row in document["receivers"]]
    return {
        row["name"]: [row["is_paused"], row["is_ended"], row["epsilon_per_day"], verb]
        for row, verb in zip(document["receivers"], last, strict=True)
    }


def test_each_has_its_state_and_cost(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it costs ends with a pause or an end, in the list and in `check`, and begins with a resumption."""
    running = listed(capsys, path)
    assert running == {"utility": [False, False, "12/55", None], "study": [False, False, "0.08", None]}
    assert said(capsys, "receivers", path, "pause", "utility")[0] == 0
    assert said(capsys, "receivers", path, "end", "study", "--yes")[0] == 0
    stopped = {"utility": [True, False, "0", "pause"], "study": [False, True, "0", "end"]}
    assert listed(capsys, path) == stopped
    for command in ("receivers", "check"):
        code, text = said(capsys, command, path)
        text = " ".join(text.split())
        assert code == 0
        assert "paused, so it gets nothing now" in text
        assert "ended for good" in text
        assert "add up to epsilon 0 per W" in text
    assert "last action: pause (command), 20" in said(capsys, "receivers", path)[1]
    assert said(capsys, "receivers", path, "resume", "utility")[0] == 0
    assert listed(capsys, path)["utility"] == [False, False, "12/55", "resume"]


@pytest.mark.parametrize("words", [["tap"], ["run", "--rehearse"]])
def test_whoever_looks_on_sees_what_the_agent_would_send(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """`tap` and a rehearsal follow the actions in the store as well as the file."""
    said(capsys, "receivers", path, "pause", "utility")
    said(capsys, "receivers", path, "end", "study", "--yes")
    states = list[tuple[str, str]]()

    async def show(settings: Config, *_: object) -> None:
        states.extend((item.name, item.state) for stream in settings.stream for item in stream.receivers)

    for module in (tap, rehearsal):
        monkeypatch.setattr(module, "_show_streams", show)
        monkeypatch.setattr(module, "forbid_dumps", lambda: None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main([words[0], str(path), *words[1:]]) == 0
    assert states == [("utility", "paused"), ("study", "ended")]


def test_an_end_is_final(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It asks for --yes and says so; afterwards nothing can be done to the receiver."""
    code, text = said(capsys, "receivers", path, "end", "study")
    assert (code, "never get another number" in text, "--yes" in text) == (1, True, True)
    assert listed(capsys, path)["study"][1] is False
    assert "new store would not know" in said(capsys, "receivers", path, "end", "study", "--yes")[1]
    for verb in ("resume", "pause"):
        code, text = said(capsys, "receivers", path, verb, "study")
        assert (code, "another name in the configuration" in text) == (1, True)


@pytest.mark.parametrize("words", [["pause", "utilty"], ["resume"]])
def test_an_unknown_name_lists_the_known_ones(
    path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """A missing name does, too."""
    code, text = said(capsys, "receivers", path, *words)
    assert (code, "utility, study" in text) == (1, True)


def test_the_file_has_the_last_word(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A receiver that the file pauses is resumed there alone."""
    path.write_text(path.read_text().replace('name = "utility"', 'name = "utility"\npaused = true'))
    code, text = said(capsys, "receivers", path, "resume", "utility")
    assert (code, "remove `paused` there" in text) == (1, True)


def test_no_store_is_made(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It might not be the agent's to open; and a store that cannot be read leaves the states unknown."""
    for file in tmp_path.glob("db*"):
        file.unlink()
    code, text = said(capsys, "receivers", path, "pause", "utility")
    assert (code, "there is no store yet" in text, [*tmp_path.glob("db*")]) == (1, True, [])
    (tmp_path / "db").write_bytes(b"no store")
    assert "unknown who is paused or has ended" in said(capsys, "receivers", path)[1]


def test_a_configuration_without_receivers_says_so(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has a sink."""
    text = path.read_text().partition("[[receiver]]")[0]
    path.write_text(f'{text}sink.topic = "private/{{meter}}"\n')
    code, text = said(capsys, "receivers", path)
    assert (code, "only a sink" in text) == (0, True)
