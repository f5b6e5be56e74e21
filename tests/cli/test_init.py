"""The conversation of `init`: from a broker's address to the text of a configuration."""

from pathlib import Path

import pytest

from meteragent import mqtt
from meteragent.cli.conversation import Options, Question, Refused, Say
from tests.support.conversations import (
    EM,
    EM_DATA,
    GRID,
    GRID_UNIT,
    HEAT,
    PLAIN,
    PLUG,
    URL,
    Talk,
    findings_of,
    settings,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Relative names are in a folder of this test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# The conversation --------------------------------------------------------------------------------


def test_six_answers_make_a_configuration(folder: Path) -> None:
    """Enter accepts each default: the likeliest quantity, the default preset, a store beside the file."""
    talk = Talk(findings_of(EM, EM_DATA), {})
    draft = talk.draft()
    assert talk.asked == [
        "meter",
        "solar",
        "quantity",
        "name",
        "preset",
        "topic",
        "page",
        "home_assistant",
        "unit-file",
    ]
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
    talk = Talk(findings_of(EM, EM_DATA, PLUG), {}, Options(answers, yes=True))
    stream = settings(talk.draft()).stream[0]
    assert talk.asked == []
    assert (stream.source.kind, stream.source.unit, stream.privacy.preset) == ("register", "Wh", "street")
    assert stream.sink.topic == "out/{meter}/energy"


def test_which_of_two_meters_it_is_is_never_guessed() -> None:
    """A plug and a meter look alike, so --yes needs --meter; a wrong name is refused with the right ones."""
    given = Options({"url": URL, "out": "home.toml"}, yes=True)
    with pytest.raises(Refused, match=r"--yes needs --meter: one of .*plug"):
        Talk(findings_of(EM, PLUG), {}, given).draft()
    given = Options({"url": URL, "out": "home.toml", "meter": "cellar"}, yes=True)
    with pytest.raises(Refused, match=r"'cellar', which names 0 meters; expected one of .*plug"):
        Talk(findings_of(EM, PLUG), {}, given).draft()
    talk = Talk(findings_of(EM, PLUG), {"meter": "2"})
    talk.draft()
    assert len(talk.question("meter").choices) == 2
    assert talk.question("meter").default is None


def test_a_unit_that_nobody_states_is_asked_for() -> None:
    """A bare number may be in W or kW: the operator says so, and --yes needs --unit (law 5)."""
    talk = Talk(findings_of(PLAIN), {"meter": "1", "unit": "kW"})
    stream = settings(talk.draft()).stream[0]
    assert (stream.source.kind, stream.source.unit, stream.source.profile) == ("power", "kW", "number")
    assert talk.question("unit").choices == (("W", "W"), ("kW", "kW"))
    assert talk.question("unit").default is None
    given = Options({"url": URL, "out": "home.toml", "meter": "cellar/power"}, yes=True)
    with pytest.raises(Refused, match="--yes needs --unit: one of W, kW"):
        Talk(findings_of(PLAIN), {}, given).draft()


def test_what_init_cannot_ask_for_ends_it() -> None:
    """Which of many unnamed values is meant is in no list of answers: the keys to write are named."""
    messages = ("emonhub/rx/10/values", "1,2,3,4,5,6,7")
    with pytest.raises(Refused, match=r"nothing states source\.value, .* `meteragent discover` shows"):
        Talk(findings_of(messages), {"meter": "1"}).draft()


def test_an_answer_that_is_wrong_is_asked_for_again() -> None:
    """Numbers of choices and their names are answers; anything else is followed by what is expected."""
    talk = Talk(findings_of(EM, EM_DATA), {})
    talk.answers["preset"] = ["9", "much", "2"]
    talk.answers["name"] = ["a/b", "ok"]
    stream = settings(talk.draft()).stream[0]
    assert talk.asked.count("preset") == 3
    assert (stream.privacy.preset, stream.source.meter) == ("street", "ok")
    said = [step.text for step in talk.steps if isinstance(step, Say)]
    assert said[0] == "Please answer with a name without /, +, #, $ or control characters."
    assert said[1:] == ["Please answer with a number from 1 to 2."] * 2


def test_each_preset_is_shown_with_what_it_hides_and_costs() -> None:
    """The figures are those of `check`: half of the 95% interval of a number, a day and a month."""
    talk = Talk(findings_of(GRID_UNIT, GRID), {})
    talk.draft()
    texts = dict(talk.question("preset").choices)
    assert list(texts) == ["television", "appliance", "street", "day", "bill"]
    assert texts["appliance"] == (
        "appliance: hides a kettle (110 Wh in each slot of 30 min). 95% of the time, errors are within:"
        " one number ± 0.659 kW, one day ± 2.11 kWh, a month ± 11.6 kWh."
    )


def test_presets_for_which_readings_are_too_coarse_are_not_offered() -> None:
    """A device that reports only large changes cannot keep a finer promise: `check` would refuse it."""
    reason = "too coarse: television, day, bill (changes of power within the dead band are not reported)."
    talk = Talk(findings_of(EM), {})
    talk.draft()
    assert [value for value, _ in talk.question("preset").choices] == ["appliance", "street"]
    assert reason in talk.question("preset").text
    assert "this register" not in talk.question("preset").text
    talk = Talk(findings_of(EM, EM_DATA), {"quantity": "power"})
    talk.draft()
    assert (
        f"{reason} Choose this register of the same meter for them: register in"
        in talk.question("preset").text
    )
    given = Options({"url": URL, "out": "home.toml", "preset": "day", "quantity": "power"}, yes=True)
    with pytest.raises(Refused, match=r"--preset: Not offered, .* Choose this register"):
        Talk(findings_of(EM, EM_DATA), {}, given).draft()


def test_the_page_and_home_assistant_are_offered() -> None:
    """Both are written on request, with the keys that they need, also for two streams; case is ignored."""
    answers = {"solar": "YES", "quantity": "2", "page": "yes", "home_assistant": "2"}
    parsed = settings(Talk(findings_of(EM, EM_DATA), answers).draft())
    assert parsed.page is not None
    assert [stream.sink.home_assistant for stream in parsed.stream] == ["homeassistant"] * 2
    assert parsed.stream[0].sink.status == "meteragent/status/drawn"
    plain = settings(Talk(findings_of(EM, EM_DATA), {}).draft())
    assert (plain.page, plain.stream[0].sink.home_assistant) == (None, None)


def test_yes_is_the_unit_of_the_default_name(folder: Path) -> None:
    """It names no file called yes."""
    assert Talk(findings_of(EM, EM_DATA), {"unit-file": "yes"}).draft().unit == folder / "meteragent.service"
    assert Talk(findings_of(EM, EM_DATA), {"unit-file": "no"}).draft().unit is None


def test_days_and_months_are_those_of_this_machine() -> None:
    """Windows of the calendar need a time zone."""
    given = Options({"url": URL, "out": "home.toml", "preset": "day"}, timezone="Europe/Berlin")
    stream = settings(Talk(findings_of(GRID_UNIT, GRID), {}, given).draft()).stream[0]
    assert stream.window.timezone == "Europe/Berlin"


# Solar panels ------------------------------------------------------------------------------------


def test_with_solar_panels_power_may_be_negative() -> None:
    """The range reaches as far below zero as above it."""
    stream = settings(Talk(findings_of(EM, EM_DATA), {"solar": "yes"}).draft()).stream[0]
    assert tuple(map(int, stream.window.range)) == (-20_000, 20_000)


def test_import_and_export_are_two_streams() -> None:
    """A meter that counts both directions apart has two streams, on topics of their own."""
    talk = Talk(findings_of(EM, EM_DATA), {"solar": "yes"})
    talk.draft()
    ways = talk.question("quantity").choices
    assert ways[0] == ("power", "power in W, drawn minus fed in: one number, negative while you feed in")
    [both] = [value for value, text in ways if "two streams, whose levels add" in text]
    draft = Talk(findings_of(EM, EM_DATA), {"solar": "yes", "quantity": both}).draft()
    streams = settings(draft).stream
    assert [stream.sink.topic for stream in streams] == ["private/{meter}/drawn", "private/{meter}/fed-in"]
    assert [stream.source.value for stream in streams] == [None, "export"]
    assert {tuple(map(int, stream.window.range)) for stream in streams} == {(0, 20_000)}


def test_without_solar_panels_what_is_fed_in_is_not_offered() -> None:
    """Who feeds nothing in is not asked about it."""
    talk = Talk(findings_of(EM, EM_DATA), {"solar": "no"})
    talk.draft()
    values = [value for value, _ in talk.question("quantity").choices]
    assert values == ["power", "register"]


# The broker --------------------------------------------------------------------------------------


def test_a_broker_that_asks_for_a_login_gets_one(folder: Path) -> None:
    """What is typed goes to a file that only its owner reads, and the configuration names the file."""
    refused = mqtt.LoginRefused("connection refused")
    talk = Talk([refused, findings_of(EM, EM_DATA)], {"username": "me", "password": "hush"})
    draft = talk.draft()
    assert talk.question("password").is_secret
    source = settings(draft).stream[0].source
    assert (source.username, source.password_file) == ("me", folder / "home.password")
    assert draft.files[folder / "home.password"] == ("hush\n", 0o600)
    assert draft.files[folder / "home.toml"][1] == 0o600
    assert "hush" not in draft.files[folder / "home.toml"][0]


def test_a_refused_login_is_asked_for_again(folder: Path) -> None:
    """A typing error does not end the conversation; a login from the command line does."""
    refused = mqtt.LoginRefused("connection refused")
    talk = Talk([refused, refused, findings_of(EM, EM_DATA)], {})
    talk.answers["username"], talk.answers["password"] = ["me", "me"], ["wrong", "hush"]
    draft = talk.draft()
    assert talk.asked.count("password") == 2
    names = [step for step in talk.steps if isinstance(step, Question) and step.key == "username"]
    assert [question.default for question in names] == [None, "me"]
    assert [step.text for step in talk.steps if isinstance(step, Say)][:2] == [
        "The broker requires a user name and a password.",
        "The broker refused this login: try again.",
    ]
    assert draft.files[folder / "home.password"][0] == "hush\n"
    stated = Options({"url": URL, "out": "home.toml", "username": "me"}, password="wrong")
    with pytest.raises(Refused, match="set --username and --password-file, or check them"):
        Talk([refused, findings_of(EM, EM_DATA)], {}, stated).draft()


def test_without_a_meter_it_says_what_was_heard() -> None:
    """The reasons are those of `discover`."""
    with pytest.raises(Refused, match="no meter was recognised"):
        Talk(findings_of(HEAT), {}).draft()


@pytest.mark.parametrize("url", ["broker", "http://broker", "mqtt://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """An address of the command line is not asked for again."""
    with pytest.raises(Refused, match=r"--url: .*expected mqtt://host"):
        Talk(findings_of(), {}, Options({"url": url, "out": "home.toml"})).draft()


@pytest.mark.parametrize("url", ["mqtt://me:hush@broker", "me:hush@broker", "mqtt://me:hu/sh@broker"])
def test_a_password_in_an_address_is_not_repeated(url: str) -> None:
    """The refusal names the options for a login, on the command line and in the conversation."""
    with pytest.raises(Refused, match="--username and --password-file") as refusal:
        Talk(findings_of(), {}, Options({"url": url, "out": "home.toml"})).draft()
    assert "hu" not in str(refusal.value)
    talk = Talk(findings_of(EM, EM_DATA), {}, Options({"out": "home.toml"}))
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
        Talk(findings_of(EM, EM_DATA), {}).draft()
    assert (folder / taken).read_text() == "mine"


def test_a_default_name_that_exists_is_not_offered(folder: Path) -> None:
    """The conversation offers the first name of which no file exists."""
    (folder / "home.toml").write_text("mine")
    (folder / "home-2.db").write_text("mine")
    talk = Talk(findings_of(EM, EM_DATA), {}, Options({"url": URL}))
    assert talk.draft().config == folder / "home-3.toml"
    assert talk.question("out").default == "home-3.toml"


def test_a_unit_runs_this_configuration(folder: Path) -> None:
    """The unit names the program, the configuration and its folder with whole paths."""
    given = Options({"url": URL, "out": "home.toml", "unit-file": "m.service"})
    unit, mode = Talk(findings_of(EM, EM_DATA), {}, given).draft().files[folder / "m.service"]
    assert f"run {folder}/home.toml\n" in unit
    assert f"WorkingDirectory={folder}\n" in unit
    assert mode == 0o644
