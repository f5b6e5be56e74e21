"""The configuration of `collect`: accepted, or refused with every error at once."""

from pathlib import Path

import pytest

from meteragent.cli import main
from meteragent.collect.configuration import load, parse
from meteragent.domain.errors import ConfigError
from meteragent.domain.units import DAY_MS
from meteragent.extras import hint

GOOD = """
source.url = "mqtts://broker.example"
[[stream]]
topic = "private/{meter}/power"
[[stream]]
name = "days"
topic = "private/{meter}/day"
[database]
url = "postgresql://collect@db.example/utility"
[accept]
oldest = "90d"
"""


def test_defaults() -> None:
    """A topic and a database suffice; the first stream is called main, and partitions are months."""
    settings = parse('[[stream]]\ntopic = "p/{meter}"\n[database]\nurl = "postgresql:///x"')
    assert settings.stream[0].name == "main"
    assert settings.database is not None
    assert settings.database.partition == "month"
    assert settings.topics[0].filters == ("p/+", "p/+/privacy/#")
    assert settings.accept.oldest == 400 * DAY_MS
    assert (settings.read_password(), settings.read_meters()) == (None, None)
    assert parse(GOOD).accept.oldest == 90 * DAY_MS


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ("mqtts://", "http://", 2, "source.url: found an address that does not begin with mqtt://"),
        ('topic = "private/{meter}/day"', "", 5, "stream[1].topic: found nothing"),
        ("private/{meter}/day", "private/{meter}/power", 7, "expected a topic that no other stream has"),
        ('"days"', '"main"', 6, "expected a name that no other stream has"),
        ("topic", "tpoic", 4, "stream[0].tpoic: found an unknown key; did you mean topic?"),
        ("[database]", "[databse]", 8, "databse: found an unknown key; did you mean database?"),
        ("postgresql://", "mysql://", 9, "database.url: found an address in a different form"),
        ("collect@", "collect:secret@", 9, "the password in database.password_file"),
        ("90d", "90 days", 11, "accept.oldest: found '90 days'"),
        (
            "[accept]",
            '[dataset]\nfolder = "x"\n[accept]',
            8,
            "database: found both; expected either [database]",
        ),
        ("[database]", "[dataset]", 9, "dataset.url: found an unknown key; expected one of folder"),
        ("[database]", '[database]\npartition = "mnth"', 9, "did you mean 'month'?"),
        ('oldest = "90d"', 'meters_file = "nowhere"', 11, "expected a file that collect can read"),
        ('"days"', '""', 6, "stream[1].name: found ''; expected a string that is not empty"),
        ("/day", "/power/privacy", 7, "expected a topic on which no other stream has its descriptors"),
        (
            "/utility",
            "/utility?sslmod=require",
            9,
            "found the option 'sslmod'; expected an address and options",
        ),
    ],
)
def test_each_error_has_its_line_and_key(old: str, new: str, line: int, text: str) -> None:
    """A wrong file is refused with the line, the key, what was found and what would be right."""
    with pytest.raises(ConfigError) as caught:
        parse(GOOD.replace(old, new, 1))
    assert text in str(caught.value)
    assert f"line {line}: " in str(caught.value)
    assert "secret" not in str(caught.value)


def test_records_need_a_place() -> None:
    """A file with neither a database nor a dataset is refused, beside its other errors."""
    with pytest.raises(ConfigError) as caught:
        parse('[[stream]]\ntpoic = "p/{meter}"\n')
    assert [error.key for error in caught.value.errors] == ["stream[0].tpoic", "database"]
    expected = "either [database] with the url of a PostgreSQL database, or [dataset] with a folder"
    assert expected in str(caught.value)


def test_all_errors_at_once() -> None:
    """Errors in different tables are in one refusal, in the order of their lines."""
    with pytest.raises(ConfigError) as caught:
        parse(GOOD.replace("topic", "tpoic").replace("90d", "x").replace("url = ", "ulr = "))
    keys = [error.key for error in caught.value.errors]
    assert keys == ["source.ulr", "stream[0].tpoic", "stream[1].tpoic", "database.ulr", "accept.oldest"]


def test_both_stages_are_in_one_refusal() -> None:
    """A value of a wrong type does not hide a repeated name, an address, a file or an option of libpq."""
    text = GOOD.replace("mqtts://", "http://").replace('"days"', '"main"').replace("90d", "x")
    text = text.replace("/utility", "/utility?a=b") + 'meters_file = "nowhere"\n'
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert [error.key for error in caught.value.errors] == [
        "source.url",
        "stream[1].name",
        "database.url",
        "accept.oldest",
        "accept.meters_file",
    ]


def test_wrong_topics_are_the_only_errors() -> None:
    """If every stream has a wrong topic, nothing else is said about the list of streams."""
    with pytest.raises(ConfigError) as caught:
        parse(GOOD.replace("{meter}", "m"))
    assert [error.key for error in caught.value.errors] == ["stream[0].topic", "stream[1].topic"]


def test_the_list_of_meters_is_a_file(tmp_path: Path) -> None:
    """Each line of the file is the public id of a meter; blank lines are none."""
    (tmp_path / "meters").write_text("m1\n\n m2 \r\n")
    path = tmp_path / "collect.toml"
    path.write_text(GOOD + f'meters_file = "{tmp_path}/meters"\n')
    assert load(path).read_meters() == frozenset({"m1", "m2"})


def test_files_must_be_text(tmp_path: Path) -> None:
    """A byte that is not UTF-8 is an error, not another password or another meter."""
    path = tmp_path / "latin"
    path.write_bytes(b"na\xefve\n")
    login = f'source.url = "tls://broker"\nsource.username = "me"\nsource.password_file = "{path}"'
    text = GOOD.replace('source.url = "mqtts://broker.example"', login) + f'meters_file = "{path}"\n'
    text = text.replace("[database]", f'[database]\npassword_file = "{path}"')
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert {error.key for error in caught.value.errors} == {
        "source.password_file",
        "database.password_file",
        "accept.meters_file",
    }
    assert all("not UTF-8" in str(error) for error in caught.value.errors)


def test_the_command_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` prints what would be collected, or exits with 78 and the line in the file."""
    path = tmp_path / "collect.toml"
    path.write_text(GOOD)
    assert main(["collect", str(path), "--check"]) == 0
    assert "stream days: private/{meter}/day" in capsys.readouterr().out
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "meteragent.extras.missing_module", lambda extra: "psycopg" if extra == "collect" else None
        )
        assert main(["collect", str(path), "--check"]) == 1
    said = capsys.readouterr()
    assert "accepted" in said.out
    assert said.err == f"meteragent: collect needs psycopg: {hint('collect')}\n"
    path.write_text(GOOD.replace("90d", "?"))
    assert main(["collect", str(path), "--check"]) == 78
    assert f"{path}:11: accept.oldest" in capsys.readouterr().err
