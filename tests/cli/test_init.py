"""`meteragent init`: from a broker's address to a saved configuration, in one conversation."""

import asyncio
import json
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from meteragent import config, mqtt
from meteragent.cli import common, discover, init, main
from meteragent.cli.common import EXIT_INTERRUPTED
from meteragent.cli.conversation import Listen, Options, Question, Refused, Say, Step, converse
from meteragent.cli.draft import Draft
from meteragent.domain.errors import LinkError
from meteragent.tools.discover import Findings, Listener, findings
from tests.support.broker import free_port

URL = "mqtt://broker"


def found(*messages: tuple[str, object]) -> Findings:
    """What discovery finds in topics and payloads, each sent five times, ten seconds apart."""
    now_ms = [0]
    listener = Listener(lambda: now_ms[0])
    for _ in range(5):
        for topic, payload in messages:
            text = payload if isinstance(payload, str) else json.dumps(payload)
            listener.on_message(topic, text.encode(), retain=False)
        now_ms[0] += 10_000
    return findings(listener)


EM = ("shellypro3em-c0ffee4d1177/status/em:0", {"id": 0, "total_act_power": 514.517})
EM_DATA = (
    "shellypro3em-c0ffee4d1177/status/emdata:0",
    {"id": 0, "total_act": 1834207.5, "total_act_ret": 12.0},
)
PLUG = ("tele/plug/SENSOR", {"Time": "2026-11-23T16:00:00", "ENERGY": {"Total": 1.2, "Power": 5}})
GRID = ("homeassistant/sensor/grid_import/state", "0.512")
GRID_UNIT = ("homeassistant/sensor/grid_import/unit_of_measurement", '"kW"')
PLAIN = ("cellar/power", "312")
HEAT = ("cellar/temperature", "21.5")


class Talk:
    """A conversation with an operator who answers by keys, and all questions and texts of it."""

    def __init__(self, heard: object, answers: dict[str, str], given: Options | None = None) -> None:
        self.steps: list[Step] = []
        self.heard = list(heard) if isinstance(heard, list) else [heard]
        self.answers = {key: [value] for key, value in answers.items()}
        self.given = given or Options({"url": URL, "out": "home.toml"})

    def draft(self) -> Draft:
        """Hold the conversation to its end."""
        conversation, answer = converse(self.given), None
        while True:
            try:
                step = conversation.send(answer)
            except StopIteration as end:
                result: Draft = end.value
                return result
            self.steps.append(step)
            answer = self._answer(step)

    def _answer(self, step: Step) -> Any:
        match step:
            case Question():
                waiting = self.answers.get(step.key, [])
                return waiting.pop(0) if waiting else ""
            case Listen():
                return self.heard.pop(0)
            case _:
                return None

    @property
    def asked(self) -> list[str]:
        """The keys of the questions, in order."""
        return [step.key for step in self.steps if isinstance(step, Question)]

    def question(self, key: str) -> Question:
        """The first question of a key."""
        return next(step for step in self.steps if isinstance(step, Question) and step.key == key)


def settings(draft: Draft) -> config.Config:
    """The configuration of a draft, which is accepted as it stands."""
    return config.parse(draft.files[draft.config][0])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Relative names are in a folder of this test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# The conversation --------------------------------------------------------------------------------


def test_six_answers_make_a_configuration(folder: Path) -> None:
    """Enter accepts each default: the likeliest quantity, the default preset, a store beside the file."""
    talk = Talk(found(EM, EM_DATA), {})
    draft = talk.draft()
    assert talk.asked == ["meter", "solar", "quantity", "name", "preset", "topic", "unit-file"]
    parsed = settings(draft)
    stream = parsed.stream[0]
    assert (stream.source.url, stream.source.topic, stream.source.meter) == (URL, EM[0], "home")
    assert (stream.source.profile, stream.source.kind, stream.source.unit) == ("shelly-gen2-em", "power", "W")
    assert (stream.privacy.preset, stream.sink.topic) == ("appliance", "private/{meter}/power")
    assert tuple(map(int, stream.window.range)) == (0, 20_000)
    assert parsed.store.path == folder / "home.db"
    assert draft.files[draft.config][1] == 0o644


def test_answers_of_the_command_line_are_not_asked_for() -> None:
    """With every option there is no question left, and --yes accepts the defaults of the rest."""
    answers = {"url": URL, "meter": EM[0], "quantity": "register", "solar": "no", "preset": "street"}
    answers |= {"name": "house", "topic": "out", "out": "x.toml"}
    talk = Talk(found(EM, EM_DATA, PLUG), {}, Options(answers, yes=True))
    stream = settings(talk.draft()).stream[0]
    assert talk.asked == []
    assert (stream.source.kind, stream.source.unit, stream.privacy.preset) == ("register", "Wh", "street")
    assert stream.sink.topic == "out/{meter}/energy"


def test_which_of_two_meters_it_is_is_never_guessed() -> None:
    """A plug and a meter look alike, so --yes needs --meter; a wrong name is refused with the right ones."""
    given = Options({"url": URL, "out": "home.toml"}, yes=True)
    with pytest.raises(Refused, match=r"--meter is needed with --yes: one of .*plug"):
        Talk(found(EM, PLUG), {}, given).draft()
    given = Options({"url": URL, "out": "home.toml", "meter": "cellar"}, yes=True)
    with pytest.raises(Refused, match=r"'cellar', which names 0 meters; expected one of .*plug"):
        Talk(found(EM, PLUG), {}, given).draft()
    talk = Talk(found(EM, PLUG), {"meter": "2"})
    talk.draft()
    assert len(talk.question("meter").choices) == 2
    assert talk.question("meter").default is None


def test_a_unit_that_nobody_states_is_asked_for() -> None:
    """A bare number may be in W or kW: the operator says so, and --yes needs --unit (law 5)."""
    talk = Talk(found(PLAIN), {"meter": "1", "unit": "kW"})
    stream = settings(talk.draft()).stream[0]
    assert (stream.source.kind, stream.source.unit, stream.source.profile) == ("power", "kW", "number")
    assert talk.question("unit").choices == (("W", "W"), ("kW", "kW"))
    assert talk.question("unit").default is None
    given = Options({"url": URL, "out": "home.toml", "meter": "cellar/power"}, yes=True)
    with pytest.raises(Refused, match="--unit is needed with --yes: one of W, kW"):
        Talk(found(PLAIN), {}, given).draft()


def test_an_answer_that_is_wrong_is_asked_for_again() -> None:
    """Numbers of choices and their names are answers; anything else is followed by what is expected."""
    talk = Talk(found(EM, EM_DATA), {})
    talk.answers["preset"] = ["9", "much", "2"]
    talk.answers["name"] = ["a/b", "ok"]
    stream = settings(talk.draft()).stream[0]
    assert talk.asked.count("preset") == 3
    assert (stream.privacy.preset, stream.source.meter) == ("street", "ok")
    said = [step.text for step in talk.steps if isinstance(step, Say)]
    assert said[0] == "Please answer with a name without /, +, # and $."
    assert said[1:] == ["Please answer with a number from 1 to 2."] * 2


def test_each_preset_is_shown_with_what_it_hides_and_costs() -> None:
    """The figures are those of `check`: half of the 95 % interval of a number, a day and a month."""
    talk = Talk(found(GRID_UNIT, GRID), {})
    talk.draft()
    texts = dict(talk.question("preset").choices)
    assert list(texts) == ["television", "appliance", "street", "day", "bill"]
    assert texts["appliance"] == (
        "appliance: hides a kettle (110 Wh in each slot of 30 min). 95 % of the time one number within"
        " ± 0.66 kW, a day within ± 2.1 kWh, a month within ± 12 kWh."
    )


def test_presets_for_which_readings_are_too_coarse_are_not_offered() -> None:
    """A device that reports only large changes cannot keep a finer promise: `check` would refuse it."""
    talk = Talk(found(EM), {})
    talk.draft()
    assert [value for value, _ in talk.question("preset").choices] == ["appliance", "street"]
    assert "too coarse for television, day, bill" in talk.question("preset").text


def test_days_and_months_are_those_of_this_machine() -> None:
    """Windows of the calendar need a time zone."""
    given = Options({"url": URL, "out": "home.toml", "preset": "day"}, timezone="Europe/Berlin")
    stream = settings(Talk(found(GRID_UNIT, GRID), {}, given).draft()).stream[0]
    assert stream.window.timezone == "Europe/Berlin"


# Solar panels ------------------------------------------------------------------------------------


def test_with_solar_panels_power_may_be_negative() -> None:
    """The range reaches as far below zero as above it."""
    stream = settings(Talk(found(EM, EM_DATA), {"solar": "yes"}).draft()).stream[0]
    assert tuple(map(int, stream.window.range)) == (-20_000, 20_000)


def test_import_and_export_are_two_streams() -> None:
    """A meter that counts both directions apart has two streams, on topics of their own."""
    talk = Talk(found(EM, EM_DATA), {"solar": "yes"})
    talk.draft()
    ways = talk.question("quantity").choices
    assert ways[0] == ("power", "power in W, drawn minus fed in: one number, below zero while you feed in")
    [both] = [value for value, text in ways if "two streams, whose levels add" in text]
    draft = Talk(found(EM, EM_DATA), {"solar": "yes", "quantity": both}).draft()
    streams = settings(draft).stream
    assert [stream.sink.topic for stream in streams] == ["private/{meter}/drawn", "private/{meter}/fed-in"]
    assert [stream.source.value for stream in streams] == [None, "export"]
    assert {tuple(map(int, stream.window.range)) for stream in streams} == {(0, 20_000)}


def test_without_solar_panels_what_is_fed_in_is_not_offered() -> None:
    """Who feeds nothing in is not asked about it."""
    talk = Talk(found(EM, EM_DATA), {"solar": "no"})
    talk.draft()
    values = [value for value, _ in talk.question("quantity").choices]
    assert values == ["power", "register"]


# The broker --------------------------------------------------------------------------------------


def test_a_broker_that_asks_for_a_login_gets_one(folder: Path) -> None:
    """What is typed goes to a file that only its owner reads, and the configuration names the file."""
    refused = mqtt.LoginRefused("connection refused")
    talk = Talk([refused, refused, found(EM, EM_DATA)], {"username": "me"})
    talk.answers["username"], talk.answers["password"] = ["me", "me"], ["wrong", "hush"]
    with pytest.raises(Refused, match="set --username and --password-file, or check them"):
        talk.draft()
    talk = Talk([refused, found(EM, EM_DATA)], {"username": "me", "password": "hush"})
    draft = talk.draft()
    assert talk.question("password").secret
    source = settings(draft).stream[0].source
    assert (source.username, source.password_file) == ("me", folder / "home.password")
    assert draft.files[folder / "home.password"] == ("hush\n", 0o600)
    assert draft.files[folder / "home.toml"][1] == 0o600
    assert "hush" not in draft.files[folder / "home.toml"][0]


def test_without_a_meter_it_says_what_was_heard() -> None:
    """The reasons are those of `discover`."""
    with pytest.raises(Refused, match="no meter was recognised"):
        Talk(found(HEAT), {}).draft()


@pytest.mark.parametrize("url", ["broker", "http://broker", "mqtt://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """An address of the command line is not asked for again."""
    with pytest.raises(Refused, match=r"--url: .*expected mqtt://host"):
        Talk(found(), {}, Options({"url": url, "out": "home.toml"})).draft()


@pytest.mark.parametrize("url", ["mqtt://me:hush@broker", "me:hush@broker", "mqtt://me:hu/sh@broker"])
def test_a_password_in_an_address_is_not_repeated(url: str) -> None:
    """The refusal names the options for a login, on the command line and in the conversation."""
    with pytest.raises(Refused, match="--username and --password-file") as refusal:
        Talk(found(), {}, Options({"url": url, "out": "home.toml"})).draft()
    assert "hu" not in str(refusal.value)
    talk = Talk(found(EM, EM_DATA), {}, Options({"out": "home.toml"}))
    talk.answers["url"] = [url, URL]
    talk.draft()
    [said] = [step.text for step in talk.steps if isinstance(step, Say)]
    assert "--username and --password-file" in said
    assert "hu" not in said


# The files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", ["home.toml", "home.password", "home.db"])
def test_nothing_is_overwritten(folder: Path, taken: str) -> None:
    """A file that exists is named, also one that would only be written later."""
    (folder / taken).write_text("mine")
    with pytest.raises(Refused, match=f"{taken} exists"):
        Talk(found(EM, EM_DATA), {}).draft()
    assert (folder / taken).read_text() == "mine"


def refuses_to_listen(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """`init` with these arguments ends with 1 before it listens."""

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(init, "_heard", never)
    assert main(["init", "--url", URL, *arguments]) == 1


@pytest.mark.parametrize("taken", ["home.toml", "home.db", "home.password"])
def test_a_default_name_that_exists_is_refused_before_listening(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], taken: str
) -> None:
    """With --yes no other name is chosen, and the option that names one is stated."""
    (folder / taken).write_text("mine")
    refuses_to_listen(monkeypatch, "--yes")
    assert f"{taken} exists: name another file with --out" in capsys.readouterr().err


def test_a_default_name_that_exists_is_not_offered(folder: Path) -> None:
    """The conversation offers the first name of which no file exists."""
    (folder / "home.toml").write_text("mine")
    (folder / "home-2.db").write_text("mine")
    talk = Talk(found(EM, EM_DATA), {}, Options({"url": URL}))
    assert talk.draft().config == folder / "home-3.toml"
    assert talk.question("out").default == "home-3.toml"


@pytest.mark.parametrize("option", ["--out", "--unit-file"])
def test_a_folder_that_does_not_exist_is_refused_before_listening(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """The option and the folder are named."""
    refuses_to_listen(monkeypatch, option, "none/file")
    told = capsys.readouterr().err
    assert f"{option}: found 'none/file'; expected a folder that exists, not " in told


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
    assert f"a folder that you may write, not {folder}" in told
    assert "--out" in told


def test_a_unit_runs_this_configuration(folder: Path) -> None:
    """The unit names the program, the configuration and its folder with whole paths."""
    given = Options({"url": URL, "out": "home.toml", "unit-file": "m.service"})
    unit, mode = Talk(found(EM, EM_DATA), {}, given).draft().files[folder / "m.service"]
    assert f"run {folder}/home.toml\n" in unit
    assert f"WorkingDirectory={folder}\n" in unit
    assert mode == 0o644


# The command -------------------------------------------------------------------------------------


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker with one meter, without a network."""
    monkeypatch.setattr(init, "_heard", lambda *_: found(EM, EM_DATA))


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
        return found(EM, EM_DATA)

    monkeypatch.setattr(init, "_heard", heard)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: is_terminal)
    typed(monkeypatch, *[""] * 9)
    assert main(["init", "--url", URL, *arguments]) == 0
    assert ("use --yes to be asked nothing" in told[0]) is (not arguments and not is_terminal)


def test_the_first_question_says_what_enter_does(
    broker: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said once, before the first question that has an answer in brackets."""
    typed(monkeypatch, *[""] * 9)
    assert main(["init"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("Enter takes the answer in [brackets].") == 1
    assert shown.index("Enter takes") < shown.index("At which broker")


@pytest.mark.parametrize("end", [EOFError(), KeyboardInterrupt()])
@pytest.mark.parametrize("answers", range(6))
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

    monkeypatch.setattr(init, "_heard", never)
    (folder / "home.toml").write_text("mine")
    assert main(["init", "--url", URL, "--out", "home.toml", "--yes"]) == 1
    assert "home.toml exists, and `init` never overwrites" in capsys.readouterr().err


def test_what_cannot_be_written_whole_is_not_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one file fails, those before it are removed."""
    (folder / "none").mkdir()
    given = Options({"url": URL, "out": "home.toml", "unit-file": "none/m.service"})
    draft = Talk(found(EM, EM_DATA), {}, given).draft()
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

    monkeypatch.setattr(mqtt, "watch", watch)
    monkeypatch.setattr(discover, "_TELL_EVERY_S", 0.001)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    listener = Listener(lambda: 0)
    asyncio.run(init._listen(mqtt.Endpoint.parse(URL), 0.1, listener))
    assert ("1 messages on 1 topics so far" in capsys.readouterr().err) is is_terminal


@pytest.mark.parametrize("scheme", ["mqtt", "mqtts"])
def test_an_address_without_a_broker_ends_with_a_hint(
    folder: Path, capsys: pytest.CaptureFixture[str], scheme: str
) -> None:
    """The hint is that of `discover`."""
    assert main(["init", "--url", f"{scheme}://127.0.0.1:{free_port()}", "--yes"]) == 1
    assert "is the address in --url right, and is the broker on?" in capsys.readouterr().err
    assert files(folder) == []


@pytest.mark.parametrize(
    ("reason", "is_tls", "hint"),
    [
        ("cannot connect: [Errno 104] Connection reset by peer", True, "needs a port with TLS"),
        ("cannot connect: [SSL: WRONG_VERSION_NUMBER] wrong version number", True, "needs a port with TLS"),
        ("cannot connect: ", True, "needs a port with TLS"),
        (
            "cannot connect: [SSL: CERTIFICATE_VERIFY_FAILED] certificate has expired",
            True,
            "is the broker on",
        ),
        ("cannot connect: [Errno 111] Connection refused", True, "is the broker on"),
        ("cannot connect: [Errno 104] Connection reset by peer", False, "is the broker on"),
    ],
)
def test_a_failed_handshake_is_a_port_without_tls(reason: str, is_tls: bool, hint: str) -> None:
    """A broker that resets or closes the connection in a TLS handshake listens for plain MQTT there."""
    assert hint in common.connection_hint(reason, is_tls=is_tls)


def test_other_failures_have_no_hint_about_the_address() -> None:
    """A broker that answers is at the address."""
    assert common.connection_hint("subscription refused", is_tls=True) == ""


def test_a_broker_that_is_not_there_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is printed, and nothing is written."""

    def down(*_: object) -> None:
        raise LinkError("cannot connect")

    monkeypatch.setattr(init, "_heard", down)
    assert main(["init", "--url", URL, "--yes"]) == 1
    assert "cannot connect" in capsys.readouterr().err
    assert files(folder) == []
