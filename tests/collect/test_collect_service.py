"""The service: which failures end it, what the command prints, and what the connection skips."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meteragent.cli import main
from meteragent.collect import mqtt
from meteragent.collect.mqtt import MqttSource
from meteragent.mqtt import Endpoint, Entropy, Link
from tests.support.collecting import NOW_MS, TEMPLATE, core
from tests.support.fake_session import FakeSession


def configured(folder: Path, table_url: str, more: str = "") -> Path:
    """Write a configuration of one stream."""
    path = folder / "collect.toml"
    path.write_text(f'[[stream]]\ntopic = "{TEMPLATE}"\n[database]\nurl = "{table_url}"\n{more}')
    return path


def test_the_tables_are_made_by_a_command(
    table_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--create` makes the tables, and has nothing to do the second time."""
    path = configured(tmp_path, table_url)
    assert main(["collect", str(path), "--create"]) == 0
    assert main(["collect", str(path), "--create"]) == 0
    assert capsys.readouterr().out.splitlines() == ["the tables are created", "the tables exist already"]


def test_a_database_that_refuses_ends_it(
    table_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends with 1 and the reason, without a traceback."""
    assert main(["collect", str(configured(tmp_path, table_url)), "--create"]) == 0
    other = configured(tmp_path, table_url, more='partition = "day"\n')
    assert main(["collect", str(other)]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("meteragent: the tables were created with database.partition = 'month'")


def test_a_database_that_is_away_gets_no_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--create` does not wait for a database: it ends with 1 and the reason."""
    path = configured(tmp_path, "postgresql:///x?host=/nowhere")
    assert main(["collect", str(path), "--create"]) == 1
    assert "the database" in capsys.readouterr().err


async def test_a_message_that_is_too_large_to_be_read_is_counted() -> None:
    """What the connection skips is passed on, so that the core counts it as too large."""
    source = MqttSource(Endpoint.parse("mqtt://127.0.0.1"), "test", ("a",), os.urandom)
    source._count("oversized")
    source._count("lost")
    messages = await source.take_batch(10)
    assert dict(core().take_messages(messages, NOW_MS).refusal_counts) == {("", "too_large"): 1}


async def test_each_connection_subscribes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that was killed may have kept the session, but lack the subscription to descriptors.

    Records would wait for descriptors that never come, while the collector is well.
    """
    sessions = [FakeSession(session_present=True) for _ in range(2)]

    async def connect(_: Link, serve: Callable[[FakeSession], Any], __: Entropy) -> None:
        for session in sessions:
            await serve(session)

    monkeypatch.setattr(mqtt, "keep_connected", connect)
    await MqttSource(Endpoint.parse("mqtt://127.0.0.1"), "test", ("a", "b"), os.urandom).run()
    assert [session.filters for session in sessions] == [["a", "b"]] * 2
