"""Secrets in files that others can read are named, wherever the configuration names a file."""

import logging
from pathlib import Path

import pytest

from meteragent import config
from tests.support.agent_world import STREAM, quick
from tests.support.configurations import written
from tests.support.guarantees import told_of

PLACES = {
    "source.password_file": {"source": "username = 'u'\npassword_file = '{}'"},
    "source.key_file": {"source": "url = 'mqtts://h'\ncert_file = 'c'\nkey_file = '{}'"},
    "source.cert_file": {"source": "url = 'mqtts://h'\ncert_file = '{}'"},
    "sink.password_file": {"sink": "username = 'u'\npassword_file = '{}'"},
    "sink.pseudonym_key_file": {"sink": "pseudonym_key_file = '{}'"},
}


@pytest.mark.parametrize("key", PLACES)
@pytest.mark.parametrize(
    ("mode", "open_to_all"), [(0o644, True), (0o604, True), (0o640, False), (0o600, False)]
)
def test_a_secret_that_everybody_can_read_is_named(
    tmp_path: Path, key: str, mode: int, *, open_to_all: bool
) -> None:
    """The key, the file and what to do; a file that only its owner and group can read is not named."""
    path, open_to_all = tmp_path / "secret", bool(mode & 0o004)
    path.write_text("hush")
    path.chmod(mode)
    parsed = config.parse(written(**{name: keys.format(path) for name, keys in PLACES[key].items()}))
    line = f"{key}: every user of this machine can read {path}: run chmod 600 on it"
    assert config.world_readable_files(parsed) == ({key: path} if open_to_all else {})
    told = " ".join(told_of(parsed, ()).split())
    assert (f"Warning: {line}" in told) is open_to_all
    assert "hush" not in told


def test_the_page_s_token_is_a_secret_too(tmp_path: Path) -> None:
    """The page has a token; with several streams, the line says whose; a missing file is not listed."""
    path = tmp_path / "token"
    path.write_text("hush")
    path.chmod(0o644)
    parsed = config.parse(f"{written()}[page]\ntoken_file = '{path}'\n")
    assert config.world_readable_files(parsed) == {"page.token_file": path}
    path.unlink()
    assert config.world_readable_files(parsed) == {}
    path.write_text("hush")
    two = "".join(
        f'[[stream]]\nname = "{n}"\n' + STREAM.format("stream.", n) + f"pseudonym_key_file = '{path}'\n"
        for n in ("a", "b")
    )
    path.chmod(0o644)
    assert list(config.world_readable_files(config.parse(two))) == [
        "stream[0].sink.pseudonym_key_file",
        "stream[1].sink.pseudonym_key_file",
    ]


async def test_the_agent_warns_when_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It runs, and says what to change, without the secret."""
    path = tmp_path / "key"
    path.write_text("hush")
    path.chmod(0o644)
    caplog.set_level(logging.WARNING)
    async with quick(tmp_path, monkeypatch).running(
        STREAM.format("", "") + f"pseudonym_key_file = '{path}'\n"
    ):
        pass
    assert (
        f"sink.pseudonym_key_file: every user of this machine can read {path}: run chmod 600 on it"
        in caplog.messages
    )
    assert "hush" not in caplog.text
