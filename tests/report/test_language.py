"""Languages: all texts in each of them, which of them is chosen, and what is never translated."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from meteragent import config
from meteragent.cli import main
from meteragent.domain.problem import PROBLEMS, make_problem
from meteragent.report import format as written
from meteragent.report import guarantee, terminal, wording
from meteragent.report.event import EVENTS
from meteragent.report.language import language_of_environment, language_of_reader, say, use_language
from meteragent.report.plan import ask
from meteragent.report.plan.ask import MORE_SHARES, SHARES
from meteragent.texts import read_texts
from tests.support.configurations import written as toml

ENGLISH = read_texts("en")
CONFIGURATIONS = {
    "the default": toml(),
    "all warnings of a register": toml(
        source="kind = 'register'\nunit = 'Wh'\nscale = 10\nmodulus = 100", privacy="level = 5"
    ),
    "sparse readings": toml(source="every = '5min'\ndead_band = 10\nhold = '10min'"),
    "months": toml(window="timezone = 'Europe/Berlin'", privacy="preset = 'bill'"),
    "a mean day": toml(window="timezone = 'Europe/Berlin'", privacy="preset = 'typical-day'"),
    "many slots": toml(window="length = '12h'\nstep = '15min'"),
    "two days": toml(window="length = '2d'"),
}
QUESTIONS = {
    "an event": ["--hide", "tv evening", "--share", "half-hour"],
    "an energy": ["--hide", "110Wh", "--share", "day", "--error", "0.5kWh"],
    "impossible": ["--hide", "a week away", "--share", "half-hour", "--homes", "2", "--error", "1%"],
    "homes": ["--hide", "oven", "--error", "5%", "--homes", "100"],
    "what can be hidden": ["--share", "month", "--error", "0.001kWh"],
    "a curve": ["--hide", "kettle", "--share", "curve"],
    "a typical day": ["--hide", "kettle", "--share", "typical-day"],
    "nested": ["--hide", "110Wh", "--share", "half-hour,day,month", "--error", "any,0.7kWh,1.5kWh"],
    "an amount": ["--hide", "kettle", "--share", "month-cost", "--error", "0.01EUR"],
}


def english_in(text: str) -> list[str]:
    """Return the English texts that a text contains: whole ones, or their parts between placeholders."""
    pieces = {
        piece
        for english in ENGLISH.values()
        for piece in re.split(r"\{\w+\}|`[^`]*`", english)
        if len(piece) >= 10 and " " in piece.strip() and piece not in "".join(read_texts("de").values())
    }
    joined = " ".join(text.split())
    return [piece for piece in pieces if piece in joined]


@pytest.fixture
def config_path(tmp_path: Path) -> Path:
    """The default configuration in a file."""
    path = tmp_path / "home.toml"
    path.write_text(toml())
    return path


def test_names_in_english_are_those_of_commands_and_json() -> None:
    """In the English text, an event or a share has the name by which it is asked for."""
    assert [event.title for event in EVENTS] == [event.name for event in EVENTS]
    shares = (*SHARES, *MORE_SHARES)
    assert all(share.title in (share.name, *share.words) for share in shares)
    assert all(ask.parse_share(share.title) is share for share in shares)


def test_a_problem_is_said_in_english_as_in_the_log() -> None:
    """The page's sentence and that of `health` are one."""
    fields = {
        "clock_jumped": {"step_ms": 90_000_000},
        "topic_refused": {"topics": 2},
        "messages_wait": {"waiting": 3, "since_ms": 90_000},
        "other_agent": {"meters": 1},
        "earlier_store": {"meters": 1},
        "phase_silent": {"phases": 3},
        "reading_gaps": {"apart_ms": 1_800_000},
        **{code: {"limit_ms": 3_600_000, "meters": 2, "of": 3} for code in ("no_message", "no_readings")},
        **{code: {"off_ms": 3_600_000} for code in ("clock_behind", "all_late")},
        **{
            code: {"reasons": "refused_json late"}
            for code in ("none_accepted", "none_counts", "wrong_profile", "some_refused")
        },
        **{code: {"side": "source"} for code in PROBLEMS if "{side}" in PROBLEMS[code].cause},
    }
    for code in PROBLEMS:
        item = make_problem(code, "main", **fields.get(code, {}))  # type: ignore[arg-type]
        assert wording.problem_sentence(item) == item.text
        with use_language("de"):
            assert english_in(wording.problem_sentence(item)) == []
    with use_language("de"):
        assert "um 1 Tag 1 h vorgesprungen" in wording.problem_sentence(
            make_problem("clock_jumped", step_ms=90_000_000)
        )


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_german_check_has_no_english(name: str) -> None:
    """Whatever is configured, no sentence that `check` prints is left in English."""
    settings = config.parse(CONFIGURATIONS[name])
    with use_language("de"):
        text = terminal.guarantees_text(
            [guarantee.compute_guarantee(stream) for stream in settings.stream], settings
        )
    assert english_in(text) == []
    assert re.search(r"\d\.\d\d?\b(?!\d)", text) is None  # a decimal point
    assert [line for line in text.splitlines() if len(line) > written.WIDTH] == []


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_german_plan_has_no_english(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is asked, no sentence that `plan` prints is left in English, but for the configuration."""
    assert main(["plan", "--lang", "de", *QUESTIONS[name]]) == 0
    text = "\n".join(
        line for line in capsys.readouterr().out.splitlines() if " = " not in line or "e^" in line
    )
    assert english_in(text) == []
    assert "Zum Einfügen" in text


@pytest.mark.parametrize("command", ["check", "plan"])
def test_json_is_the_same_in_every_language(
    command: str, config_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the option nor the environment changes a byte of it, nor of the statement."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")

    def printed(*arguments: str) -> Iterator[str]:
        """Return what the command prints by default, in German and in English."""
        for language in ([], ["--lang", "de"], ["--lang", "en"]):
            assert main([command, *arguments, *language]) == 0
            yield capsys.readouterr().out

    question = [str(config_path)] if command == "check" else ["--hide", "kettle", "--share", "day"]
    outputs = set(printed(*question, "--json"))
    assert len(outputs) == 1
    assert isinstance(json.loads(outputs.pop()), dict)
    if command == "check":
        assert len(set(printed(*question, "--statement"))) == 1


def test_the_language_of_a_command_is_that_of_its_environment(
    config_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` speaks German in a German environment, and the option overrides the environment."""

    def title(*arguments: str) -> bool:
        assert main(["check", str(config_path), *arguments]) == 0
        return "Was verborgen ist" in capsys.readouterr().out

    assert not title()
    assert title("--lang", "de")
    monkeypatch.setenv("LC_MESSAGES", "de_AT.UTF-8")
    assert title()
    assert not title("--lang", "en")


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "de"),
        ({"LANG": "de"}, "de"),
        ({"LANG": "de_DE@euro"}, "de"),
        ({"LANG": "DE_de.utf8"}, "de"),
        ({"LANG": "fr_FR.UTF-8"}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "../de"}, "en"),
        ({"LANG": "de_DE", "LC_MESSAGES": "en_US"}, "en"),
        ({"LANG": "en_US", "LC_MESSAGES": "de_DE"}, "de"),
        ({"LANG": "de_DE", "LC_MESSAGES": "de_DE", "LC_ALL": "C"}, "en"),
        ({"LANG": "de_DE", "LC_ALL": ""}, "de"),
        ({"LC_ALL": "de_CH.UTF-8"}, "de"),
    ],
)
def test_the_environment_sets_the_language(environment: dict[str, str], language: str) -> None:
    """LC_ALL, LC_MESSAGES, LANG: the first that is set and not empty decides, whatever its language."""
    assert language_of_environment(environment) == language


@pytest.mark.parametrize(
    ("accept", "language"),
    [
        ("", "en"),
        ("*", "en"),
        ("de", "de"),
        ("de-DE,de;q=0.9,en;q=0.8", "de"),
        ("en-GB,en;q=0.9,de;q=0.8", "en"),
        ("fr-FR, de-AT ; q=0.3", "de"),
        ("en;q=0.5,de;q=0.7", "de"),
        ("de;q=0", "en"),
        ("de;q=high,en", "en"),
        ("de;q=nan,en;q=0.1", "en"),
        ("DE-de", "de"),
        ("fr", "en"),
        (",;q=,-", "en"),
    ],
)
def test_the_reader_s_browser_sets_the_page_s_language(accept: str, language: str) -> None:
    """The language with texts and the highest quality wins, the first of equals; without any, English."""
    assert language_of_reader(accept) == language


def test_german_numbers_have_a_comma() -> None:
    """The decimal sign, the grouping and the days are German; units and powers of ten stay."""
    with use_language("de"):
        assert written.amount_text(1.084, "kWh") == "1,08 kWh"
        assert written.amount_text(12345.6, "W") == "12.346 W"
        assert written.odds_text(1) == "e^1 = 2,72"  # type: ignore[arg-type]
        assert written.duration(86_400_000) == "1 Tag"
        assert written.duration(187_200_000) == "2 Tage 4 h"
        assert written.mean_label(1000) == "Mittel über 1.000 Haushalte"
    assert written.duration(187_200_000) == "2 days 4 h"


def test_a_language_ends_with_its_context() -> None:
    """The language is restored afterwards, even after an error."""
    with pytest.raises(KeyError), use_language("de"):
        say("no such text")
    assert say("and") == " and "
