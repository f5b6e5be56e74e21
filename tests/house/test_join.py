"""How a home joins a crowd: the page's configuration is accepted, and its figures are those of `check`."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from meteragent import cli
from meteragent.crowd import group as groups
from tests.support.not_run import ROOT

PAGE = (ROOT / "docs" / "join.md").read_text("utf-8")
TEXT = " ".join(PAGE.split())
GROUP = (ROOT / "deploy" / "crowd" / "group.toml").read_text("utf-8")
HOME = "\n".join(line.removeprefix("    ") for line in PAGE.splitlines() if re.match(r"    |$", line))
AWAY = "8 h away"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with the files that the page names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    password = Path("crowd-password")
    password.write_text("secret")
    password.chmod(0o600)


def check(
    capsys: pytest.CaptureFixture[str],
    *options: str,
    home: str = HOME,
    code: int = 0,
    values: Mapping[str, str] | None = None,
) -> str:
    """Return what `check` prints for a home of the shipped group, with other values of the group."""
    text = GROUP
    for name, value in (values or {}).items():
        text, changes = re.subn(rf"(?m)^{name} = \S+", f"{name} = {value}", text)
        assert changes == 1
    Path("elm-street.toml").write_text(text)
    pinned = groups.parse_group(GROUP).id.hex()
    assert pinned in home
    Path("home.toml").write_text(home.replace(pinned, groups.parse_group(text).id.hex()))
    actual = cli.main(["check", "home.toml", *options])
    printed = "".join(capsys.readouterr())
    assert actual == code, printed
    return printed


def test_the_configuration_of_a_home_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    """It names the shipped group by its id, and `check` says for whom the numbers are."""
    printed = check(capsys)
    assert "for the total of a group" in printed
    assert "the two do not collude" in " ".join(printed.split())


def test_the_name_in_the_group_is_the_user() -> None:
    """The shipped access list lets a home report only under its user's name, so the page uses one name."""
    names = dict(re.findall(r'(?m)^(meter|username) = "([^"]+)"', HOME))
    assert names["meter"] == names["username"]
    assert groups.is_label(names["meter"])


@pytest.mark.parametrize("line", ['lateness = "1min"', 'catch_up = "5min"'])
def test_what_exceeds_the_deadline_is_refused(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Lateness and catch_up together must fit the group's deadline, as the page says."""
    longer = HOME.replace(line, line.replace(line.split('"')[1], "20min"))
    assert longer != HOME
    assert "that add up to at most the group's deadline_s = 1200" in " ".join(
        check(capsys, home=longer, code=78).split()
    )


def test_another_id_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A group file with another value does not have the id that the home pins."""
    Path("elm-street.toml").write_text(GROUP.replace("hide_wh = 110", "hide_wh = 1"))
    Path("home.toml").write_text(HOME)
    assert cli.main(["check", "home.toml"]) == 78
    assert "sink.crowd.id" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {},
            "`deploy/crowd/group.toml` and the default preset: {once}% once, and {fortnight}% if it happens",
        ),
        ({"slot_s": "60"}, "Minutes that hide 110 Wh: {once}% once, and {fortnight}% on 14 days."),
        (
            {"hide_wh": "6000"},
            "Half hours that hide 6,000 Wh: {once}% once, {fortnight}% on 14 days, and {month}% on 30 days.",
        ),
    ],
    ids=["shipped", "minutes", "a day away"],
)
def test_an_attacker_is_right_as_often_as_stated(
    values: dict[str, str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The figures of each group are those that `check` shows for 8 hours away."""
    (stream,) = json.loads(check(capsys, "--json", values=values))["streams"]
    (row,) = (row for row in stream["hidden"] if row["event"] == AWAY)
    once, fortnight, month = row["right_of_100"].values()
    assert sentence.format(once=once, fortnight=fortnight, month=month) in TEXT


def test_the_error_of_the_mean_is_as_stated(capsys: pytest.CaptureFixture[str]) -> None:
    """With 6,000 Wh hidden in half hours, the mean of 1,000 homes is off by 24 W."""
    assert "the mean of 1,000 homes is off by only 24 W" in TEXT
    match = re.search(r"the mean of 1,000 homes +([\d.]+) Wh", check(capsys, values={"hide_wh": "6000"}))
    assert match
    assert 2 * float(match[1]) == 24


def test_homes_find_the_page() -> None:
    """README, SECURITY and the door for homes link to it."""
    for page in ("README.md", "SECURITY.md"):
        assert "(docs/join.md)" in (ROOT / page).read_text("utf-8")
    (door,) = re.findall(r"^\| \*\*at home.*$", (ROOT / "docs" / "index.md").read_text("utf-8"), re.MULTILINE)
    assert "(join.md)" in door
