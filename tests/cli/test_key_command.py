"""The `key` command: it makes, shows and forgets keys, and never shows a secret."""

from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from meteragent.archive.key import Key, create_key
from meteragent.cli import key as key_command
from meteragent.cli import main
from meteragent.cli.exit_codes import EXIT_CONFIG


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a key is, or will be."""
    return tmp_path / "acme.key"


def test_the_command_makes_shows_and_forgets(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`key new`, `show` and `forget` say whose key it is, from when on, its id; never the secret."""
    assert main(["key", "new", str(path), "--tenant", "acme", "--from", "2024-05-17"]) == 0
    key, secret = Key.load(path), path.read_text()[-66:-2]
    told = capsys.readouterr().out
    assert f"{path}: tenant acme, one epoch per month, beginning with 2024-05\n" in told
    today = datetime.now(UTC)
    assert f"id for {today:%Y-%m}: {key.at(int(today.timestamp() * 1000)).id}\n" in told
    assert main(["key", "show", str(path)]) == 0
    assert capsys.readouterr().out == told
    assert main(["key", "forget", str(path), "--before", "2025-01-31"]) == 0
    assert "begins with 2025-01" in (forgotten := capsys.readouterr().out)
    assert main(["key", "forget", str(path), "--before", "2025-01-31"]) == 0
    assert "nothing to forget" in capsys.readouterr().out
    assert main(["key", "show", str(path)]) == 0
    assert capsys.readouterr().out == told.replace("2024-05", "2025-01")
    assert len(secret) == 64
    assert secret not in told + forgotten


def test_all_times_have_a_key_unless_a_date_is_given(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without `--from` a key covers archives of any age, and says so; epochs of days are asked for."""
    assert main(["key", "new", str(path), "--tenant", "acme", "--every", "day"]) == 0
    assert "one epoch per day, for windows of any age\n" in capsys.readouterr().out


def test_today_cannot_be_forgotten(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A date after today is refused: what comes in then could not be released."""
    create_key(path, "acme", "day")
    before = path.read_bytes()
    options = SimpleNamespace(action="forget", file=path, before=date(2026, 1, 2))
    assert key_command.run(options, lambda: datetime(2026, 1, 1, 23, 59, tzinfo=UTC)) == 1  # type: ignore[arg-type]
    assert "later than today" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert key_command.run(options, lambda: datetime(2026, 1, 2, tzinfo=UTC)) == 0  # type: ignore[arg-type]
    assert Key.load(path).first_epoch == "2026-01-02"


@pytest.mark.parametrize(
    "arguments",
    [
        ["new", "FILE", "--tenant", "a b"],
        ["new", "FILE"],
        ["new", "FILE", "--tenant", "a", "--from", "yesterday"],
        ["new", "FILE", "--tenant", "a", "--every", "year"],
        ["forget", "FILE"],
        ["forget", "FILE", "--before", "2026-13-01"],
        [],
    ],
)
def test_wrong_arguments_make_no_key(path: Path, arguments: list[str]) -> None:
    """What cannot be is refused before anything is written, with 2."""
    with pytest.raises(SystemExit) as ended:
        main(["key", *(str(path) if argument == "FILE" else argument for argument in arguments)])
    assert ended.value.code == 2
    assert not path.exists()


def test_a_missing_key_ends_with_78(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No key, no further: the file and what is wrong, on standard error; a file that is there stays."""
    assert main(["key", "show", str(path)]) == EXIT_CONFIG
    assert capsys.readouterr().err == f"meteragent: {path}: no such file or directory\n"
    path.write_text("mine")
    assert main(["key", "new", str(path), "--tenant", "acme"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"meteragent: {path}: file exists. Choose another name")
    assert "Do not delete a key that has released anything" in said
    assert path.read_text() == "mine"
