"""What a configuration names outside itself: its own file, brokers' files, secrets."""

from pathlib import Path

import pytest

from meteragent import config
from meteragent.config.model import Broker
from meteragent.domain.errors import ConfigError
from tests.support.configurations import refused, written

SECRET = "open-sesame"


def test_what_is_no_file_or_no_toml_is_refused(tmp_path: Path) -> None:
    """A missing file, a folder, one that is not UTF-8 and one that is not TOML say what they are."""
    path = tmp_path / "meteragent.toml"
    for missing, text in (
        (path, "no such file or directory"),
        (tmp_path, "expected a TOML file, found a directory"),
    ):
        with pytest.raises(ConfigError) as caught:
            config.load(missing)
        assert str(caught.value) == f"{missing}: {text}"
    path.write_bytes(b"# \xc3\xa4\n\xff")
    error = refused(lambda: config.load(path))
    assert str(error) == f"{path}:2: found a byte that is not UTF-8; expected UTF-8 text"
    error = refused(lambda: config.parse("[source\n"))
    assert (error.key, error.expected, error.line) == ("", "TOML", 1)


def test_a_secret_is_read_without_its_line_end(tmp_path: Path) -> None:
    """A secret is the file's bytes, but for the end of the line."""
    path = tmp_path / "secret"
    path.write_bytes(b" \xffse sam \r\n\n")
    assert config.read_secret("sink.pseudonym_key_file", path) == b" \xffse sam "


@pytest.mark.parametrize("content", [None, b"", b"\r\n"])
def test_a_secret_that_is_missing_or_empty_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """Pseudonyms need a key: a missing or empty file is refused with the configuration's key."""
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    error = refused(lambda: config.read_secret("sink.pseudonym_key_file", path))
    assert error.key == "sink.pseudonym_key_file"
    assert error.found == f"{path}: {'no such file or directory' if content is None else 'empty'}"


@pytest.mark.parametrize("key", ["ca_file", "cert_file", "key_file", "password_file"])
def test_a_broker_s_files_must_be_readable(tmp_path: Path, key: str) -> None:
    """A file of a broker that cannot be read is refused before anything connects."""
    broker = Broker.model_validate({"username": "u", "cert_file": __file__} | {key: tmp_path / "none"})
    error = refused(lambda: config.read_endpoint("sink", "mqtts://host", broker))
    assert (error.key, error.found) == (f"sink.{key}", f"{tmp_path / 'none'}: no such file or directory")


def test_a_password_is_text_and_never_shown(tmp_path: Path) -> None:
    """A password comes from its file; one that is not UTF-8 is refused, and none is in any text."""
    path = tmp_path / "password"
    path.write_text(f"{SECRET}\n")
    broker = Broker(username="u", password_file=path)
    found = config.read_endpoint("source", "mqtt://host", broker)
    assert (found.host, found.port, found.username, found.password) == ("host", 1883, "u", SECRET)
    assert SECRET not in repr(found)
    path.write_bytes(SECRET.encode() + b"\xff")
    error = refused(lambda: config.read_endpoint("source", "mqtt://host", broker))
    assert (error.key, error.found) == ("source.password_file", f"{path}: not UTF-8")
    assert SECRET not in str(error)


# The login of a sink


def sink_broker(source: str, sink: str) -> Broker:
    """How a sink connects, from more lines of the two sections."""
    return config.sink_broker(config.parse(written(source=source, sink=sink)).stream[0])


LOGIN = "username = 'u'\npassword_file = '/p'\nprotocol = '3.1.1'"


@pytest.mark.parametrize(
    ("url", "sink"),
    [
        ("mqtt://here", ""),
        ("mqtt://here", "url = 'mqtt://here:1883'"),
        ("mqtt://here", "url = 'mqtt://here/'"),
    ],
)
def test_a_sink_on_the_source_s_broker_logs_in_as_the_source_does(url: str, sink: str) -> None:
    """Its address may be left out or repeated, in any spelling: what it lacks is the source's."""
    broker = sink_broker(f"url = '{url}'\n{LOGIN}", sink)
    assert (broker.username, broker.password_file, broker.protocol) == ("u", Path("/p"), "3.1.1")


def test_a_sink_with_a_login_of_its_own_inherits_no_part_of_the_source_s() -> None:
    """Another user never gets the source's password, nor a user name beside its certificate."""
    broker = sink_broker(LOGIN, "username = 'v'\nprotocol = '5'")
    assert (broker.username, broker.password_file, broker.protocol) == ("v", None, "5")
    source = f"url = 'mqtts://here'\nca_file = '/a'\n{LOGIN}"
    broker = sink_broker(source, "cert_file = '/c'")
    assert (broker.username, broker.password_file, broker.ca_file) == (None, None, Path("/a"))


@pytest.mark.parametrize("sink", ["mqtt://there", "mqtt://here:1884", "mqtts://here:1883"])
def test_a_sink_on_another_broker_never_gets_the_source_s_password(sink: str) -> None:
    """A different host, port or scheme is a different broker."""
    broker = sink_broker(f"url = 'mqtt://here:1883'\n{LOGIN}", f"url = '{sink}'")
    assert (broker.username, broker.password_file, broker.protocol) == (None, None, "auto")


# Before a run


def test_a_store_needs_a_folder(tmp_path: Path) -> None:
    """A missing folder is refused before a run, and so is a path that only a shell understands."""
    for path, found in (
        (tmp_path / "db", None),
        (Path("home.db"), None),
        (tmp_path / "none" / "db", f"{tmp_path}/none: no such folder"),
        (Path("~/home.db"), "'~/home.db'"),
        (Path("~home.db"), "'~home.db'"),
    ):
        errors = config.store_folder_refusals(config.parse(written(store=f"path = '{path}'")))
        assert [(error.key, error.found) for error in errors] == ([("store.path", found)] if found else [])


def test_every_file_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    """`check` finds what `run` would: each file with its key, also those of the sink and the page."""
    (tmp_path / "there").write_text("x")
    parsed = config.parse(
        written(
            source=f"username = 'u'\npassword_file = '{tmp_path}/there'",
            sink=f"username = 'v'\npassword_file = '{tmp_path}/no'\npseudonym_key_file = '{tmp_path}/none'",
        )
        + f"[page]\ntoken_file = '{tmp_path}'\n"
    )
    errors = config.file_refusals(parsed)
    assert [error.key for error in errors] == [
        "sink.password_file",
        "sink.pseudonym_key_file",
        "page.token_file",
    ]
    assert errors[0].found == f"{tmp_path}/no: no such file or directory"


@pytest.mark.parametrize("listen", ["127.0.0.1:8321", "0.0.0.0:8321"])
def test_a_token_that_could_be_guessed_is_refused(listen: str, tmp_path: Path) -> None:
    """`check` refuses a token of less than 16 bytes, without showing it, before `run` would."""
    path = tmp_path / "token"
    parsed = config.parse(f"{written()}\n[page]\nlisten = '{listen}'\ntoken_file = '{path}'\n")
    path.write_text("x" * 15 + "\n")
    [error] = config.file_refusals(parsed)
    assert str(error).startswith("page.token_file: found a token of 15 characters; expected at least 16")
    assert "x" * 15 not in str(error)
    path.write_text("x" * 16 + "\n")
    assert not config.file_refusals(parsed)
