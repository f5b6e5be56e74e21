"""`meteragent init`: what it prints, writes and refuses."""

import asyncio
import os
import re
import stat
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from meteragent import mqtt
from meteragent.cli import common, discover, init, main
from meteragent.cli.conversation import Options
from meteragent.cli.exit_codes import EXIT_INTERRUPTED
from meteragent.domain.errors import LinkError
from meteragent.tools.discover import Findings, Listener
from tests.support.broker import Certificates, free_port
from tests.support.conversations import EM, EM_DATA, URL, Talk, findings_of


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Relative names are in a folder of this test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refuses_to_listen(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """`init` with these arguments ends with 1 before it listens."""

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(init, "_listen", never)
    assert main(["init", "--url", URL, *arguments]) == 1


@pytest.mark.parametrize("taken", ["home.toml", "home.db", "home.password"])
def test_a_default_name_that_exists_is_refused_before_listening(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], taken: str
) -> None:
    """With --yes no other name is chosen, and the option that names one is stated."""
    (folder / taken).write_text("mine")
    refuses_to_listen(monkeypatch, "--yes")
    assert f"{taken} already exists: name another file with --out" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--out", "--unit-file"])
def test_a_folder_that_does_not_exist_is_refused_before_listening(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """The option and the folder are named."""
    refuses_to_listen(monkeypatch, option, "none/file")
    told = capsys.readouterr().err
    assert f"{option}: found 'none/file'; expected a file in a folder that exists, not " in told


@pytest.mark.parametrize("arguments", [[], ["--yes"], ["--out", "x.toml"]])
def test_a_folder_without_the_right_to_write_is_refused_before_listening(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    """The folder and the option are named."""
    monkeypatch.setattr("os.access", lambda path, mode: path != folder)
    refuses_to_listen(monkeypatch, *arguments)
    told = capsys.readouterr().err
    assert f"a folder that you may write to, not {folder}" in told
    assert "--out" in told


# The command -------------------------------------------------------------------------------------


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker with one meter, without a network."""
    monkeypatch.setattr(init, "_listen", lambda *_: findings_of(EM, EM_DATA))


def typed(monkeypatch: pytest.MonkeyPatch, *answers: str | BaseException) -> None:
    """The operator types answers, or ends the input."""
    waiting = list(answers)

    def read(_: str) -> str:
        answer = waiting.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr("builtins.input", read)


def files(folder: Path) -> Sequence[str]:
    """The names of the files in a folder."""
    return sorted(path.name for path in folder.iterdir())


def test_it_writes_checks_and_says_what_to_run(
    broker: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is there, `check` accepts it, and the next commands are printed with its path."""
    assert main(["init", "--url", URL, "--yes"]) == 0
    shown = capsys.readouterr().out
    assert files(folder) == ["home.toml"]
    assert f"Wrote {folder}/home.toml" in shown
    assert "Does NOT hide:" in shown
    assert "systemctl" not in shown
    steps = [line for line in shown.splitlines() if "meteragent run" in line]
    run = f"meteragent run {folder}/home.toml"
    assert steps == [f"Next: {run} --rehearse", f"Then: {run}"]


def test_the_commands_that_install_a_unit_are_printed_last(
    broker: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They name the unit that was written, and are those in the unit."""
    assert main(["init", "--url", URL, "--yes", "--unit-file", "my unit"]) == 0
    shown = capsys.readouterr().out
    install = f"  mkdir -p ~/.config/systemd/user && cp '{folder}/my unit' ~/.config/systemd/user/"
    enable = "systemctl --user enable --now meteragent && loginctl enable-linger"
    assert shown.index("Then: ") < shown.index(f"{install}meteragent.service\n  {enable}\n")
    assert f"#   {enable}\n" in (folder / "my unit").read_text()


def test_a_secret_is_written_for_its_owner_alone(broker: None, folder: Path) -> None:
    """A configuration that names a password file is for its owner, whatever the umask is."""
    (folder / "secret").write_text("hush")
    arguments = ["--username", "me", "--password-file", "secret"]
    assert main(["init", "--url", URL, "--yes", *arguments]) == 0
    assert stat.S_IMODE((folder / "home.toml").stat().st_mode) == 0o600
    assert f'password_file = "{folder}/secret"' in (folder / "home.toml").read_text()


@pytest.mark.parametrize(("arguments", "is_terminal"), [([], False), ([], True), (["--yes"], False)])
def test_without_a_terminal_the_option_yes_is_named_before_listening(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    is_terminal: bool,
) -> None:
    """Answers may be piped in, so it is no error; on a terminal, or with --yes, nothing is said."""
    told: list[str] = []

    def heard(*_: object) -> Findings:
        told.append(capsys.readouterr().err)
        return findings_of(EM, EM_DATA)

    monkeypatch.setattr(init, "_listen", heard)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: is_terminal)
    typed(monkeypatch, *[""] * 11)
    assert main(["init", "--url", URL, *arguments]) == 0
    assert ("use --yes to accept all defaults" in told[0]) is (not arguments and not is_terminal)


def test_an_input_without_an_answer_ends_it_before_listening(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `</dev/null` nobody listens for a minute only to find that nobody answers."""

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(init, "_listen", never)
    with Path("/dev/null").open() as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)
        assert main(["init", "--url", URL]) == EXIT_INTERRUPTED
    assert "run init in a terminal, or use --yes" in capsys.readouterr().err
    assert files(folder) == []


def test_an_answer_in_a_pipe_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty pipe that is open may still bring answers; one that holds an answer does."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as stdin, os.fdopen(write_end, "w") as writer:
        assert not init._is_at_end(stdin)
        writer.write("\n")
        writer.flush()
        assert not init._is_at_end(stdin)


def test_files_for_tls_are_used_and_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, certificates: Certificates
) -> None:
    """`init` listens with them; the configuration has their whole paths, which `check` accepts."""
    endpoints: list[mqtt.Endpoint] = []

    def heard(endpoint: mqtt.Endpoint, *_: object) -> Findings:
        endpoints.append(endpoint)
        return findings_of(EM, EM_DATA)

    monkeypatch.setattr(init, "_listen", heard)
    paths = {"ca": certificates.ca, "cert": certificates.client, "key": certificates.client_key}
    options = [word for name, path in paths.items() for word in (f"--{name}-file", os.path.relpath(path))]
    assert main(["init", "--url", "mqtts://broker.example", "--yes", *options]) == 0
    (endpoint,) = endpoints
    assert [endpoint.ca_file, endpoint.cert_file, endpoint.key_file] == options[1::2]
    source = tomllib.loads((folder / "home.toml").read_text())["source"]
    assert source["url"] == "mqtts://broker.example"
    assert [Path(source[f"{name}_file"]).resolve() for name in paths] == [*paths.values()]
    assert all(Path(source[f"{name}_file"]).is_absolute() for name in paths)


def test_files_for_tls_need_an_address_for_tls(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are refused with mqtt:// before listening, instead of being ignored."""
    refuses_to_listen(monkeypatch, "--yes", "--ca-file", "ca.pem")
    assert "mqtt:// with a ca_file, cert_file or key_file, which need mqtts://" in capsys.readouterr().err


def test_the_first_question_says_what_enter_does(
    broker: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said once, before the first question that has an answer in brackets."""
    typed(monkeypatch, *[""] * 11)
    assert main(["init"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("Press Enter to accept the answer in [brackets].") == 1
    assert shown.index("Press Enter") < shown.index("Which broker")


def test_back_asks_the_question_before_again(
    broker: None, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Answers before it stay; at the first question that one is asked again."""
    typed(monkeypatch, "back", "", "yes", "", "sofa", "back", "house", "street", *[""] * 5)
    assert main(["init", "--url", URL]) == 0
    shown = capsys.readouterr().out
    counts = [
        shown.count(text) for text in ("Which is your meter", "solar panels", "be called", "How much should")
    ]
    assert counts == [2, 1, 2, 2]
    text = (folder / "home.toml").read_text()
    assert 'meter = "house"' in text
    assert 'preset = "street"' in text
    assert "range = [-20000, 20000]" in text


def test_questions_fit_the_terminal_and_are_in_its_language(
    broker: None, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At 50 columns no line of a question is longer; in a German environment the questions are German."""
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    typed(monkeypatch, "", "ja", "zurück", "ja", *[""] * 8)
    assert main(["init", "--url", URL]) == 0
    asked = capsys.readouterr().out.partition("\nWrote ")[0]
    words = " ".join(asked.split())
    assert "Haben Sie eine Solaranlage" in words
    assert "ein Shelly Pro 3EM oder 3EM Gen3 (Profil triphase), Zähler: Leistung in W" in words
    assert "bezogen minus eingespeist: ein Wert, negativ, während Sie einspeisen" in words
    assert words.endswith("mit dem Rechner startet? ja, ein Dateiname oder nein")
    assert "(Leistungsänderungen innerhalb des Totbands werden nicht gemeldet)" in words
    assert not re.search("meter|power in|drawn|register", re.sub("meteragent|ower_meter", "", words)), words
    assert max(map(len, asked.splitlines())) <= 50
    assert "range = [-20000, 20000]" in (folder / "home.toml").read_text()


@pytest.mark.parametrize("end", [EOFError(), KeyboardInterrupt()])
@pytest.mark.parametrize("answers", range(9))
def test_an_end_of_the_input_leaves_nothing_behind(
    broker: None, folder: Path, monkeypatch: pytest.MonkeyPatch, answers: int, end: BaseException
) -> None:
    """Ctrl-C and Ctrl-D at any question write nothing."""
    typed(monkeypatch, *[""] * answers, end)
    assert main(["init", "--url", URL]) == EXIT_INTERRUPTED
    assert files(folder) == []


def test_a_file_that_exists_is_named_before_anything_is_heard(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody listens for a minute in vain."""

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(init, "_listen", never)
    (folder / "home.toml").write_text("mine")
    assert main(["init", "--url", URL, "--out", "home.toml", "--yes"]) == 1
    assert "home.toml exists, and `init` never overwrites" in capsys.readouterr().err


def test_what_cannot_be_written_whole_is_not_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one file fails, those before it are removed."""
    (folder / "none").mkdir()
    given = Options({"url": URL, "out": "home.toml", "unit-file": "none/m.service"})
    draft = Talk(findings_of(EM, EM_DATA), {}, given).draft()
    (folder / "none").rmdir()  # between the question and the writing
    with pytest.raises(FileNotFoundError):
        init._write(draft)
    assert files(folder) == []


@pytest.mark.parametrize("is_terminal", [True, False])
def test_it_says_what_it_has_heard_while_it_listens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_terminal: bool
) -> None:
    """A terminal gets a line every few seconds; a log gets none."""

    async def watch(*arguments: Any, **_: object) -> None:
        arguments[3]("meter/power", b"312", False)
        await asyncio.Event().wait()

    monkeypatch.setattr(discover, "watch_topics", watch)
    monkeypatch.setattr(discover, "_PROGRESS_EVERY_S", 0.001)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    listener = Listener(lambda: 0)
    asyncio.run(discover.listen(mqtt.Endpoint.parse(URL), "init", "#", 0.1, listener))
    assert ("1 message on 1 topic so far" in capsys.readouterr().err) is is_terminal


@pytest.mark.parametrize("scheme", ["mqtt", "mqtts"])
def test_an_address_without_a_broker_ends_with_a_hint(
    folder: Path, capsys: pytest.CaptureFixture[str], scheme: str
) -> None:
    """The hint is that of `discover`."""
    assert main(["init", "--url", f"{scheme}://127.0.0.1:{free_port()}", "--yes"]) == 1
    assert "is the address in --url right, and is the broker running?" in capsys.readouterr().err
    assert files(folder) == []


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        (
            LinkError("cannot connect: reset", "port_without_tls"),
            "Write a port with TLS 1.2 or newer in --url",
        ),
        (
            LinkError("cannot connect: expired", "certificate_wrong"),
            "use a name from the certificate in --url",
        ),
        (LinkError("cannot connect: unknown", "certificate_unknown"), "Set --ca-file to that authority's"),
        (LinkError("closed", "certificate_wanted"), "Set --cert-file and --key-file"),
        (mqtt.LoginRefused("refused"), "Check --username and --password-file. If they are right"),
        (LinkError("refused", "client_id_refused"), "Set --client-id"),
        (LinkError("cannot connect: refused"), "is the address in --url right, and is the broker running?"),
    ],
)
def test_a_failed_connection_says_which_option_to_set(reason: LinkError, hint: str) -> None:
    """The advice for a configuration names its keys, that of a command its options."""
    text = common.connection_failure(reason)
    assert text.startswith(str(reason))
    assert hint in text
    assert "source." not in text


def test_other_failures_have_no_hint_about_the_address() -> None:
    """A broker that answers is at the address."""
    assert common.connection_failure(LinkError("the connection was lost")) == "the connection was lost"


def test_a_broker_that_is_not_there_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is printed, and nothing is written."""

    def down(*_: object) -> None:
        raise LinkError("cannot connect")

    monkeypatch.setattr(init, "_listen", down)
    assert main(["init", "--url", URL, "--yes"]) == 1
    assert "cannot connect" in capsys.readouterr().err
    assert files(folder) == []
