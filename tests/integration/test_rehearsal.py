"""`run --rehearse` in a real terminal, at a real broker: it shows what would leave, and leaves no trace."""

import asyncio
import re
import signal
from pathlib import Path

import pytest

from tests.conftest import MakeBroker
from tests.integration.service import TELL_ALL, Scenarios, meters, now_ms, stream, until, until_ms
from tests.integration.terminal import terminal
from tests.support.broker import Broker

ROW = r"m1 +\d\d:\d\d:\d\d +400 +-?[\d.,]+ +311 "
"""A slot that holds 400 W, with the noise of a half hour that hides 110 Wh."""


def configured(broker: Broker, folder: Path) -> Path:
    """The configuration of half hours at this broker, with its store in the folder."""
    text = re.sub(r"(?m)^length = .*\n|^level = .*\n|^radius = .*\n|^catch_up = .*\n", "", stream(broker.url))
    path = folder / "home.toml"
    path.write_text(f'{text}\n[store]\npath = "{folder / "home.db"}"\n')
    return path


def names(folder: Path) -> set[str]:
    """The names of all files in a folder."""
    return {path.name for path in folder.iterdir()}


@pytest.fixture(scope="module")
def rehearsal(
    interruptible: None, mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, str, str, set[str]]:
    """A rehearsal of two slots: its exit code, what it showed, the broker's log, and the files at the end."""

    async def rehearse(folder: Path) -> tuple[int, str, str, set[str]]:
        with mosquitto(settings=TELL_ALL) as broker:
            path = configured(broker, folder)
            with terminal("run", str(path), "--rehearse", folder=folder) as shown:
                log = broker.folder / "log"
                await until(lambda: "SUBACK to meteragent-rehearsal" in log.read_text())
                async with meters(broker) as line:
                    for _ in range(200):
                        if shown.shows(rf"(?s){ROW}.*{ROW}"):
                            break
                        await line.send("m1", 400)
                        await until_ms(now_ms() + 200)
                shown.process.send_signal(signal.SIGINT)
                await until(lambda: shown.process.poll() is not None)
                shown.shows("on average")
                return (
                    shown.process.returncode,
                    shown.text,
                    log.read_text(),
                    names(folder),
                )

    scenarios = Scenarios(tmp_path_factory.mktemp("rehearsal"), rehearse)
    asyncio.run(scenarios.run())
    result: tuple[int, str, str, set[str]] = scenarios["rehearse"]
    return result


def test_it_shows_slots_with_the_noise_of_a_real_one(rehearsal: tuple[int, str, str, set[str]]) -> None:
    """Five seconds for half an hour; Ctrl-C ends it with 0 and the means."""
    code, shown, _, _ = rehearsal
    assert code == 0
    assert len(re.findall(ROW, shown)) >= 2
    assert "Here a slot (30 min) takes 5 s." in " ".join(shown.split())
    assert re.search(r"m1: \d+ slots, measured 400 W on average", shown)
    assert all(len(line) <= 80 for line in re.split(r"[\r\n]+", shown))


def test_nothing_is_written(rehearsal: tuple[int, str, str, set[str]]) -> None:
    """No store, no lock, no generation file: the folder has the configuration alone."""
    *_, files = rehearsal
    assert files == {"home.toml"}


def test_nothing_is_published_and_no_session_remains(rehearsal: tuple[int, str, str, set[str]]) -> None:
    """One connection with an id of its own, to the source alone; it subscribes, and publishes nothing."""
    _, _, log, _ = rehearsal
    assert len(re.findall(r"as meteragent-rehearsal-\w+ \(p5, c1,", log)) == 1
    assert set(re.findall(r"as (meteragent-[a-z]+)", log)) == {"meteragent-rehearsal"}
    assert not re.search(r"Received PUBLISH from meteragent", log)
    assert "private/" not in log
