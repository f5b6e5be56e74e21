"""The help of each command: a sentence, grouped options, an example and the exit codes."""

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from meteragent.archive.key import EPOCHS
from meteragent.cli import main, usage
from meteragent.cli.exit_codes import EXIT_CODES
from meteragent.cli.sanitise import _ENGINES
from tests.commands import commands_table
from tests.support.generated import assert_renewed
from tests.support.not_run import ROOT

HEAVY = (
    "pydantic",
    "numpy",
    "scipy",
    "pyarrow",
    "pyspark",
    "meteragent.config",
    "meteragent.agent.service",
)


def parsers(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield each command's name and parser, and those of its actions."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                yield f"{name} {word}".strip(), inner
                yield from parsers(inner, f"{name} {word}".strip())


PARSERS = dict(parsers(usage.make_parser("0")))
COMMANDS, SIGNS = (
    (ROOT / "docs" / f"{name}.md").read_text().partition("xit code")[2] for name in ("commands", "signs")
)
DESIGN = (ROOT / "docs" / "design.md").read_text()


def help_of(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What `--help` of a command prints; it ends with 0."""
    with pytest.raises(SystemExit) as ended:
        main([*name.split(), "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def section(text: str, title: str) -> list[str]:
    """The lines below a title, up to an empty line."""
    lines = text.splitlines()
    start = lines.index(f"{title}:") + 1
    end = lines.index("", start) if "" in lines[start:] else len(lines)
    return lines[start:end]


def test_all_commands_are_walked() -> None:
    """Each module of a command is in the list, and so are the actions of `key`, `profile` and `crowd`."""
    modules = {path.stem for path in (ROOT / "meteragent" / "cli").glob("*.py")}
    shared = {"__init__", "admission", "common", "conversation", "draft", "exit_codes", "outlet", "rehearsal"}
    actions = {"key new", "key show", "key forget", "profile test"}
    actions |= {f"crowd {action}" for action in ("leader", "helper", "ledger", "key")}
    actions |= {"crowd key new", "crowd key show"}
    assert set(PARSERS) == (modules - shared) | actions


@pytest.mark.parametrize("columns", [60, 80, 250])
@pytest.mark.parametrize("name", PARSERS)
def test_help_has_its_four_parts_in_lines_of_100(
    name: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence, options in groups, an example, exit codes; at most 100 wide on any terminal."""
    monkeypatch.setenv("COLUMNS", str(columns))
    text = help_of(name, capsys)
    words = " ".join(text.split())
    sentence = PARSERS[name].description
    assert sentence is not None
    assert re.fullmatch(r"[A-Z][a-z]+,? .*\.", sentence)
    assert f"{sentence} " in f"{words} "
    assert section(text, "example")[0].strip().startswith(f"meteragent {name} ")
    rows = [line for line in section(text, "exit codes") if not line.startswith(" " * 7)]
    codes = [int(row.split()[0]) for row in rows]
    assert codes == sorted(codes)
    assert {0, 2} <= set(codes)
    assert all(len(row.split(maxsplit=1)) == 2 for row in rows)
    assert max(map(len, text.splitlines())) <= usage.WIDTH_MAX == 100


@pytest.mark.parametrize("name", PARSERS)
def test_each_option_is_in_a_group_and_says_what_it_does(name: str) -> None:
    """Every option except --help is in a titled group and has a text, in consistent words."""
    parser = PARSERS[name]
    grouped = [action for group in parser._action_groups[2:] for action in group._group_actions]
    for action in parser._actions:
        if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
            continue
        assert action.help
        assert not action.help.endswith(".")
        assert re.match(r"[a-z]|CSV|SIGTERM", action.help) or not action.option_strings
        if action.option_strings:
            assert action in grouped
        if action.default not in (None, False, [], argparse.SUPPRESS) and action.option_strings:
            assert "default: " in action.help


@pytest.mark.parametrize("name", PARSERS)
def test_the_example_is_a_command_line(name: str) -> None:
    """The example parses: it names options that there are and has all that are required."""
    examples = section(PARSERS[name].epilog or "", "example")
    assert examples
    for example in examples:
        program, *arguments = shlex.split(example.partition(" > ")[0])
        assert program == "meteragent"
        options = usage.make_parser("0").parse_args(arguments)
        assert options.command == name.partition(" ")[0] == arguments[0]


def test_the_list_of_commands_has_their_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    """`meteragent --help` says of each command what it does, and what exit codes mean."""
    text = " ".join(help_of("", capsys).split())
    for name, sentence in usage.COMMANDS.items():
        assert f" {name} {sentence}" in text
    for code, meaning in EXIT_CODES.items():
        assert f" {code} {meaning}" in text


@pytest.mark.parametrize("name", ["", *PARSERS])
def test_help_imports_nothing_heavy(name: str) -> None:
    """`--help` loads neither the configuration, nor numpy, nor any command, nor other groups' arguments."""
    code = (
        "import sys\nfrom meteragent.cli import main\n"
        f"try:\n    main({[*name.split(), '--help']})\nexcept SystemExit:\n    pass\n"
        f"heavy = {HEAVY}\n"
        "commands = [m for m in sys.modules if m.startswith('meteragent.cli.')]\n"
        "print(*[m for m in heavy if m in sys.modules], *sorted(commands), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    groups = [group for group, names in usage.GROUPS.items() if name and name.split(maxsplit=1)[0] in names]
    light = {
        f"meteragent.cli.{name}" for name in ("common", "exit_codes", "outlet", "usage", "usage.command")
    }
    light |= {f"meteragent.cli.usage.{group}" for group in groups}
    assert set(done.stderr.split()) <= light


def test_choices_are_those_of_the_commands() -> None:
    """Words that an option takes are those that its command knows."""

    def choices(name: str, option: str) -> set[str]:
        (action,) = [action for action in PARSERS[name]._actions if option in action.option_strings]
        return set(action.choices or ())

    assert choices("sanitise", "--engine") == set(_ENGINES)
    assert choices("key new", "--every") == set(EPOCHS)


def test_without_a_command_the_commands_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bare program prints its help, and ends as for a wrong command line."""
    monkeypatch.setattr(sys, "argv", ["meteragent"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    listed = section(capsys.readouterr().err, "commands")
    assert [line.split()[0] for line in listed if re.match(r"  (?:  )?[a-z]", line)] == [*usage.COMMANDS]


def test_the_table_of_commands_is_that_of_help() -> None:
    """`make tables` renews it."""
    assert_renewed(commands_table.PAGE, commands_table.renewed(commands_table.PAGE.read_text("utf-8")))


def codes_of(command: str) -> set[int]:
    """The exit codes in the help of a command and of its actions."""
    names = [name for name in PARSERS if name.split()[0] == command]
    return {
        int(line.split()[0]) for name in names for line in section(PARSERS[name].epilog or "", "exit codes")
    }


def test_documents_state_the_exit_codes_of_help() -> None:
    """The list of commands may leave out 1 and 2, the contract has all, and the runbook those of `run`."""
    rows = re.findall(r"^\| `meteragent (\w+)[^`]*` \|.*\| (.*) \|$", COMMANDS, re.MULTILINE)
    assert {command for command, _ in rows} == {*usage.COMMANDS}
    for command in usage.COMMANDS:
        codes = {int(code) for name, text in rows if name == command for code in re.findall(r"\b\d+", text)}
        assert codes_of(command) - {1, 2} <= codes <= codes_of(command), command
    (contract,) = re.findall(r"\*\*Exit codes\*\* are ([^;]+);", DESIGN)
    assert {int(code) for code in re.findall(r"\d+", contract)} == set().union(*map(codes_of, usage.COMMANDS))
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", SIGNS, re.MULTILINE)} == codes_of("run")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("rnu home.toml", "found 'rnu'; did you mean run?"),
        ("profile tset a b", "found 'tset'; did you mean test?"),
        ("check home.toml --statemnt", "unrecognized arguments: --statemnt; did you mean --statement?"),
        ("check home.toml --lang", "argument --lang: expected one argument"),
        ("nothing-like-it", "invalid choice: 'nothing-like-it' (choose from "),
    ],
)
def test_a_misspelt_word_has_a_hint(words: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command, action or option that was probably meant is named, if there is one."""
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    assert hint in capsys.readouterr().err


def test_help_fits_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences and exit codes are wrapped; a command to copy stays on one line."""
    monkeypatch.setenv("COLUMNS", "50")
    text = help_of("sanitise", capsys)
    usage_text, _, rest = text.partition("\n\n")
    assert usage_text.startswith("usage: meteragent sanitise")
    (example,) = [line for line in rest.splitlines() if len(line) > 50]
    assert example == "  meteragent sanitise homes.parquet private.parquet --config archive.toml --dry-run"
    assert "  130  interrupted; the same command resumes the\n       run" in text


def test_a_shell_is_told_all_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra completes from the parser of all commands; without it nothing is loaded."""
    parsers_given: list[argparse.ArgumentParser] = []
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    monkeypatch.setitem(sys.modules, "argcomplete", SimpleNamespace(autocomplete=parsers_given.append))
    monkeypatch.setattr("meteragent.extras.missing_module", lambda _extra: None)
    assert main(["schema"]) == 0
    (parser,) = parsers_given
    assert dict(parsers(parser)).keys() == PARSERS.keys()
    monkeypatch.setattr("meteragent.extras.missing_module", lambda _extra: "argcomplete")
    assert main(["schema"]) == 0
    assert len(parsers_given) == 1
