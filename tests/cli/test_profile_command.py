"""`meteragent profile test`: what a profile reads in recordings, what it drops and refuses; its page."""

import io
import json
import re
from pathlib import Path

import pytest

from meteragent.cli import main
from meteragent.decode import profile_file
from tests.commands import profile_table
from tests.decode.test_profile_file import HEAD, POWER, SOURCE
from tests.support.generated import assert_renewed
from tests.support.not_run import ROOT

PAGE = (ROOT / "docs" / "profiles.md").read_text()
(EXAMPLE,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A profile of one's own."""
    path = tmp_path / "my-meter.toml"
    path.write_text(HEAD + "dropped = ['serial']\n" + SOURCE + POWER)
    return path


def test_what_is_read_dropped_and_refused(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each quantity has its readings in W and its refusals by reason; then fields that nobody reads."""
    recording = tmp_path / "payloads.txt"
    recording.write_text(
        'home/x {"now": {"p": 0.4321}, "serial": "A1", "u": [{"v": 230}]}\n'
        'home/x {"now": {"p": null}}\nhome/x {"now": {"p": "1"}}\n'
    )
    assert main(["profile", "test", str(mine), str(recording)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "my-meter: a meter of my own",
        "",
        str(recording),
        "  3 messages",
        "  power (power): 432.1 W, on arrival",
        "                 refused_missing: the payload lacks the value or the time",
        "                 refused_type: the value is not a number",
        "                 [match] in the profile's file can exclude other messages from refused_missing",
        "  dropped: serial, u.v",
        "  according to the profile, these identify somebody: serial",
    ]


def test_the_same_is_data(mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON there is every reading, with its exact number, and the same refusals and fields."""
    recording = tmp_path / "payloads.txt"
    recording.write_text('home/x {"now": {"p": 0.4321}, "serial": "A1"}\nhome/x {"now": {"p": null}}\n')
    assert main(["profile", "test", str(mine), str(recording), "--json"]) == 0
    reading = {"value": "432.1", "unit": "W", "time": None, "meter": None}
    refused = {"refused_missing": 1}
    power = {"kind": "power", "direction": None, "readings": [reading], "refused": refused}
    assert json.loads(capsys.readouterr().out) == {
        "profile": "my-meter",
        "title": "a meter of my own",
        "recordings": [
            {
                "file": str(recording),
                "messages": 2,
                "quantities": {"power": power},
                "dropped": ["serial"],
                "personal": ["serial"],
            }
        ],
    }


def test_a_long_recording_is_summed_up(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of many readings the first and the last are shown; the recording may come from standard input."""
    lines = "\n".join(f'{{"now": {{"p": {number}}}}}' for number in range(5))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert main(["profile", "test", str(mine), "-"]) == 0
    output = capsys.readouterr().out
    assert "0 W, on arrival" in output
    assert ".. 3 more .." in output
    assert "4000 W, on arrival" in output


def test_bare_numbers_count_on_their_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a recording has topics, a bare number is of the quantity whose topic ends so; times are shown."""
    recording = tmp_path / "payloads.txt"
    recording.write_text("shellies/a/emeter/0/total 73144.9\nshellies/a/emeter/0/power 811.43\n")
    assert main(["profile", "test", "shelly-gen1", str(recording)]) == 0
    output = capsys.readouterr().out
    assert "  power (power): 811.43 W, on arrival\n  total (register, import): 73144.9 Wh" in output
    assert "returned" not in output


@pytest.mark.parametrize(
    ("payload", "code", "reason"),
    [('{"b": 1}', 1, "No quantity was read"), (None, 1, "no such file")],
)
def test_what_reads_nothing_fails(
    mine: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    payload: str | None,
    code: int,
    reason: str,
) -> None:
    """A recording in which nothing is read, or that is not there, ends with 1."""
    recording = tmp_path / "payload.json"
    if payload is not None:
        recording.write_text(payload)
    assert main(["profile", "test", str(mine), str(recording)]) == code
    assert reason in capsys.readouterr().err


def test_a_profile_that_is_wrong_is_refused(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 78, and each error with file, line and key."""
    mine.write_text(mine.read_text().replace("kW", "kw").replace("title", "tilte"))
    assert main(["profile", "test", str(mine), "-"]) == 78
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith(f"{mine}:2: tilte: found an unknown key; did you mean title?")
    assert errors[1].startswith(f"{mine}:16: quantity.power.unit: found 'kw'; did you mean 'kW'?")


# The page -----------------------------------------------------------------------------------------


def test_the_example_of_the_page_reads_what_it_says() -> None:
    """The example is a profile: power is a difference, the register the sum of tariffs without a total."""
    profile = profile_file.parse_profile(EXAMPLE, "my-meter")
    payload = (
        b'{"type": "electricity", "meta": {"ts": 1795176000}, '
        b'"energy": {"drawn": 0.5, "fed": 40.25, "t1": 1.5, "t2": 2}}'
    )
    (power,) = profile.quantities["power"].read(payload)
    assert (power.time_ms, str(power.number)) == (1795176000000, "-39.75")
    assert str(profile.quantities["import"].read(payload)[0].number) == "3.5"


def test_the_page_has_every_key() -> None:
    """The tables of the page are what `make tables` makes of the models."""
    assert_renewed(profile_table.PAGE, profile_table.renewed(PAGE, profile_table.key_tables()))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "shelly-gen2em",
            "no such file, and no built-in profile has this name; did you mean shelly-gen2-em?",
        ),
        ("nothing-alike.toml", "no such file or directory"),
    ],
)
def test_a_name_that_is_nearly_a_built_in_one_is_answered_with_that(
    name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong name ends with 78, and with the nearest name if one is near."""
    assert main(["profile", "test", name, "payloads.txt"]) == 78
    assert capsys.readouterr().err == f"{name}: {text}\n"
