"""The `plan` command: what it prints, draws and refuses."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from meteragent.cli import main
from meteragent.report import plan
from meteragent.report.plan import ask, render
from tests.support.guarantees import facts_of


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What `plan` prints when it ends with 0."""
    assert main(["plan", *arguments]) == 0
    return capsys.readouterr().out


# In words -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("watts", "share", "text"),
    [
        (999.4, ask.HALF_HOUR, "999 W"),
        (999.7, ask.HALF_HOUR, "1,000 W"),
        (12.345, ask.HALF_HOUR, "12.3 W"),
        (12.5, ask.DAY, "0.3 kWh"),
        (12.5, ask.MONTH, "9 kWh"),
        (12.5, ask.TYPICAL_DAY, "12.5 W"),
        (12.5, ask.CURVE, "12.5 W"),
    ],
)
def test_errors_are_said_as_people_read_what_is_shared(watts: float, share: ask.Share, text: str) -> None:
    """Days and months are energies, all else is power; three figures, never as powers of ten."""
    assert render.error_text(watts, share) == text


# The command ----------------------------------------------------------------------------------------


def test_plan_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """Error, hiding, configuration, table and the next command are printed."""
    text = said(capsys, "--hide", "away 8h", "--share", "half-hour", "--homes", "500", "--error", "20%")
    for part in (
        "Possible (hide 8 h away; share half-hourly values; the mean of 500 homes within 20%).",
        "one home                        1,321 W       400% of a home's 330 W",
        "One home's number: 95% within ± 2,798 W.",
        "Within 20%: the error of the mean of 500 homes is 10% below this limit; 401 homes are enough.",
        "Lower bound: no noise that keeps this promise has an error below 1,321 W;",
        "Together, the windows that one such event (8 h away) touches change the odds by a factor of at most",
        'privacy.hide = "467Wh"',
        "Next: save the configuration as home.toml",
    ):
        assert " ".join(part.split()) in " ".join(text.split())
    rows = [line for line in text.splitlines() if line.startswith(" *")]
    assert len(rows) == 1
    assert rows[0].split()[1:3] == ["467", "Wh"]


def test_a_plan_is_what_check_says_of_its_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` on the configuration that is printed has the facts that `plan --json` has."""
    question = ("--share", "day", "--error", "10%", "--timezone", "Europe/Amsterdam")
    block = said(capsys, *question).split("Paste this\n\n")[1].split("\n\n")[0]
    told = json.loads(said(capsys, *question, "--json"))
    path = tmp_path / "home.toml"
    path.write_text(block, encoding="utf-8")
    assert main(["check", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"streams": [told["check"]]}
    assert told["setting"]["configuration"].strip() == block.strip()
    assert 'window.timezone = "Europe/Amsterdam"\n' in block


def test_not_possible_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """What is not possible ends with 0: why, what would be, and the first of it to paste."""
    text = said(capsys, "--hide", "kettle", "--share", "half-hour", "--homes", "100", "--error", "1%")
    assert " ".join(text.split()).startswith(
        "NOT possible (hide a kettle; share half-hourly values; the mean of 100 homes within 1%): "
        "the error is 9.43 times the goal."
    )
    assert "more homes: half-hourly values, the mean of 8,889 homes, 110 Wh hidden: 3.3 W" in text
    assert "share daily values: the mean of 100 homes, 110 Wh hidden: 0.0156 kWh" in text
    assert "Paste the first of these (it is the preset 'appliance')" in text
    text = said(capsys, "--hide", "42kWh", "--error", "5%")
    assert ": nothing that can be shared is that accurate." in " ".join(text.split())
    assert re.search(r"monthly values +59\.4 kWh +25% +no", text)
    text = said(capsys, "--share", "day", "--error", "1W")
    assert ": with that error, not even the smallest example can be hidden." in " ".join(text.split())


@pytest.mark.parametrize("share", ["curve", "typical-day"])
def test_choosing_blocks_on_a_private_trace_is_a_release(
    share: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever gets a number of blocks is told that a private trace must not choose it."""
    told = " ".join(said(capsys, "--hide", "kettle", "--share", share).split())
    warning = "the choice would reveal something that no budget covers"
    assert f"Never choose the number from a private trace: {warning}" in told
    assert "private trace" not in said(capsys, "--hide", "kettle", "--share", "half-hour")


def test_plan_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON has the same: the setting, its configuration, what is near, and the facts of `check`."""
    told = json.loads(said(capsys, "--hide", "away 8h", "--share", "half-hour", "--homes", "100", "--json"))
    assert told["possible"] is True
    assert told["setting"]["error_w"] == pytest.approx(132.1)
    assert told["setting"]["hides_wh"] == "467"
    planned = plan.solve(plan.Question(ask.parse_hide("away 8h"), ask.parse_share("half-hour"))).setting
    assert planned is not None
    assert told["check"] == facts_of(planned.stream)
    errors = [row["error_w"] for row in told["error_against_hiding"]]
    assert all(a < b for a, b in pairwise(errors))
    told = json.loads(said(capsys, "--hide", "5kWh", "--error", "1W", "--json"))
    assert told["possible"] is False
    assert told["setting"] is None
    assert {near["change"] for near in told["nearest"]} == {"more homes", "hide less"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--hide", "kettel", "--share", "day"],
            "argument --hide: found 'kettel'; expected 'a kettle', or one",
        ),
        (["--share", "day", "--error", "5"], "argument --error: found '5'; expected a percentage"),
        (
            ["--share", "day", "--error", "5%", "--homes", "x"],
            "argument --homes: found 'x'; expected a whole",
        ),
        (
            ["--hide", "kettle", "--share", "x"],
            "argument --share: found 'x'; expected half-hour, day, month or",
        ),
        (["--level", "0"], "argument --level: found '0'; expected a number from 0.001 to 4"),
        (["--level", "4.01"], "argument --level: found '4.01'; expected a number from 0.001 to 4"),
        (["--level", "1/0"], "argument --level: found '1/0'; expected a number from 0.001 to 4"),
        (["--timezone", "Europe/Amsterdm"], "expected a time zone such as Europe/Amsterdam"),
        (["--hide", "kettle"], "give two of --hide, --share and --error"),
        (["--share", "typical-day", "--error", "1kWh"], "a percentage such as 5%, or watts such as 20W"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An argument that cannot be understood ends with 2, the flag, the value and the expected value."""
    with pytest.raises(SystemExit) as left:
        main(["plan", *arguments])
    assert left.value.code == 2
    assert expected in capsys.readouterr().err


def test_several_shares_are_planned_as_nested_streams(capsys: pytest.CaptureFixture[str]) -> None:
    """In words and as JSON; without what to hide, or with several errors of one share, the line is wrong."""
    question = ("--hide", "kettle", "--share", "half-hour,day")
    assert "privacy.shares = {" in said(capsys, *question, "--error", "any,0.7kWh")
    assert json.loads(said(capsys, *question, "--json"))["nested_is_better"] is True
    for arguments in (
        ("--share", "half-hour,day"),
        (*question, "--homes", "5"),
        ("--hide", "kettle", "--share", "day", "--error", "1kWh,2kWh"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["plan", *arguments])
        assert ended.value.code == 2


def test_plan_says_what_it_assumes_and_that_no_example_is_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    """Limits are for readings that follow the load; a small change covers none of the examples."""
    told = " ".join(said(capsys, "--hide", "10Wh", "--share", "half-hour").split())
    assert "None of the examples is hidden. Anyone who guesses whether a change of this size" in told
    assert "These limits assume readings that follow the load exactly" in told
