"""The conversation of `init`, from a broker's address to the text of a configuration.

The only I/O is to check which files exist and which folders can be written to. `converse` yields each
task for its caller (`Question`, `Listen`, `Say`), receives the answer, and returns a `Draft`. Questions that
the command line answers are not asked.
"""

import os
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from meteragent import config, extras
from meteragent.cli import draft
from meteragent.cli.draft import Draft, MeterChoice, StatedQuantity
from meteragent.domain.errors import ConfigError
from meteragent.domain.identity import fits_segment
from meteragent.domain.presets import DEFAULT, OFFERED_PRESETS
from meteragent.domain.units import UNITS, Kind
from meteragent.mqtt import Endpoint, LoginRefused
from meteragent.report.language import say
from meteragent.tools.discover import Access, Findings

UNPLACED_MAX = 8  # the number of topics listed if no meter was found
DEFAULT_OUT, DEFAULT_UNIT = "home.toml", "meteragent.service"
YES, NO = "yes", "no"
_SOME_ANSWER = "an answer"


class Refused(Exception):
    """The conversation cannot continue; the text gives the reason and a remedy."""


class Question(NamedTuple):
    """A question to the operator; `key` is the option that answers it.

    With `choices` (value and text), the answer is one of the values or its number, counted from 1. Without a
    `default`, an answer is required. An answer to an `is_secret` question is not shown.
    """

    key: str
    text: str
    choices: tuple[tuple[str, str], ...] = ()
    default: str | None = None
    is_secret: bool = False


class Listen(NamedTuple):
    """A request to listen to a broker; the answer is Findings, or a LoginRefused error."""

    endpoint: Endpoint


class Say(NamedTuple):
    """A message to show."""

    text: str


@dataclass(slots=True)
class Options:
    """The answers on the command line, by option; the password file's content; whether to accept defaults."""

    answers: Mapping[str, str]
    yes: bool = False
    password: str | None = None
    timezone: str = "UTC"


Step = Question | Listen | Say
Conversation = Generator[Step, Any, Draft]


def converse(options: Options) -> Conversation:
    """Ask for everything that a configuration needs, and return the files to write. Raises Refused."""
    default_out = _default_out(options)
    result, access, password = yield from _listen(options)
    reading = yield from _choose_meter(options, result)
    has_solar = (yield from _ask(options, _yes_or_no("solar"))) == YES
    readings = yield from _choose_quantities(options, reading, has_solar)
    question = Question("name", say("init.name"), default="home")
    name = yield from _ask(options, question, _name_objection)
    base = draft.Base(access, name, readings, has_solar, options.timezone)
    preset = yield from _choose_preset(options, base, reading)
    question = Question("topic", say("init.topic"), default="private")
    topic = yield from _ask(options, question, _topic_objection(base, preset))
    may_have_page = extras.missing_module("page") is None
    has_page = may_have_page and (yield from _ask(options, _yes_or_no("page"))) == YES
    has_entities = (yield from _ask(options, _yes_or_no("home_assistant"))) == YES
    base = base._replace(has_page=has_page, has_entities=has_entities)
    question = Question("out", say("init.out"), default=default_out)
    out = yield from _ask(options, question, _file_objection)
    unit_file = yield from _choose_unit(options)
    return draft.draft_files(base, preset, topic, Path(out), password, unit_file)


def _ask(
    options: Options, question: Question, objection: Callable[[str], str | None] = lambda _: None
) -> Generator[Step, Any, str]:
    """Return a valid answer: from the command line, or else the default with --yes, or else the operator's.

    `objection` returns what is expected instead of an invalid answer; None for a valid one. Raises Refused if
    an answer on the command line is invalid, or if --yes is given and the question has no default.
    """
    values = [value for value, _ in question.choices]
    option = options.answers.get(question.key)
    if option is None and options.yes:
        option = question.default
        if option is None:
            raise Refused(f"--yes needs --{question.key}: one of {', '.join(values)}")
    while True:
        answer = option if option is not None else (yield question)
        answer = answer.strip() or question.default or ""
        if values and answer not in values and answer.isdecimal() and 0 < int(answer) <= len(values):
            answer = values[int(answer) - 1]
        answer = next(
            (
                value
                for value, text in question.choices
                if answer.lower() in (value.lower(), text.partition(":")[0])
            ),
            answer,
        )
        expected = f"one of {', '.join(values)}" if values and answer not in values else None
        expected = expected or (objection(answer) if answer else _SOME_ANSWER)
        if expected is None:
            return answer
        if option is not None:
            raise Refused(f"--{question.key}: found {answer!r}; expected {expected}")
        if values and answer not in values:
            expected = say("init.number", count=len(values))
        yield Say(say("init.some") if expected == _SOME_ANSWER else say("init.expected", expected=expected))


# The broker -----------------------------------------------------------------------------------------


def _listen(options: Options) -> Generator[Step, Any, tuple[Findings, Access, str | None]]:
    """Listen to a broker, with a login if required; return findings, access and the password, if typed."""
    question = Question("url", say("init.url"), default="mqtt://127.0.0.1")
    option_url = options.answers.get("url", "").strip()
    if option_url and (fault := _url_fault(option_url)):
        raise Refused(f"--url: found {fault}; expected {_url_objection(option_url)}")
    url = yield from _ask(options, question, _url_objection)
    login = {key.replace("-", "_"): answer for key, answer in options.answers.items()}
    password, typed_password = options.password, None
    while True:
        try:
            result = yield Listen(Access.of(url, login).endpoint(password))
        except ValueError as error:  # a password without a user, or TLS files with mqtt://
            raise Refused(str(error)) from None
        if not isinstance(result, LoginRefused):
            break
        if options.yes or "username" in options.answers:
            raise Refused(f"{result}: set --username and --password-file, or check them")
        username = login.get("username")
        yield Say(say("init.login" if username is None else "init.login_refused"))
        question = Question("username", say("init.username"), default=username)
        login["username"] = yield from _ask(options, question)
        question = Question("password", say("init.password"), is_secret=True)
        password = typed_password = yield from _ask(options, question)
    if not result.proposals and not draft.unstated_choices(result):
        raise Refused("\n".join(_failure_lines(result)))
    login |= {key: str(Path(file).absolute()) for key, file in login.items() if key.endswith("_file")}
    return result, Access.of(url, login), typed_password


def _url_objection(url: str) -> str | None:
    """Return the expected form of an address; None if the address is valid."""
    if _url_fault(url) is None:
        return None
    login = "; a login belongs in --username and --password-file" if "@" in url else ""
    return f"mqtt://host[:port] or mqtts://host[:port]{login}"


def _url_fault(url: str) -> str | None:
    """Return the fault in an address, but not the address, which may hold a password; None if it is valid."""
    try:
        Endpoint.parse(url)
    except ValueError as error:
        return "an address with a user name or password" if "@" in url else str(error)
    return None


def _failure_lines(result: Findings) -> list[str]:
    """Return lines with the reason why no meter can be chosen, and a remedy."""
    lines = ["no meter was recognised. Some meters send rarely: --seconds 600 listens for ten minutes."]
    lines += [f"  {entry.topic}: {entry.reason}" for entry in result.unplaced[:UNPLACED_MAX]]
    return [*lines, "`meteragent discover` shows everything that arrives."] if result.unplaced else lines


# The meter ------------------------------------------------------------------------------------------


def _yes_or_no(key: str) -> Question:
    """Return a question whose default is no."""
    choices = tuple((answer, say(f"init.{key}_{answer}")) for answer in (NO, YES))
    return Question(key, say(f"init.{key}"), choices, default=NO)


def _choose_meter(options: Options, result: Findings) -> Generator[Step, Any, MeterChoice]:
    """Return the chosen meter. Raises Refused as `_ask` does, and if --meter names no meter or several."""
    proposed = [reading for proposal in result.proposals for reading in draft.meter_choices(proposal)]
    meters = proposed + draft.unstated_choices(result)
    choices = tuple((reading.names[0], reading.text) for reading in meters)
    requested_name = options.answers.get("meter")
    if requested_name is None:
        default = choices[0][0] if proposed and (len(meters) == 1 or proposed[0].is_main) else None
        chosen = yield from _ask(options, Question("meter", say("init.meter"), choices, default))
        matches = [next(reading for reading in meters if reading.names[0] == chosen)]
    else:
        matches = [reading for reading in meters if requested_name in reading.names]
    if len(matches) != 1:
        names = ", ".join(name for name, _ in choices)
        reason = f"found {requested_name!r}, which names {len(matches)} meters"
        raise Refused(f"--meter: {reason}; expected one of {names}")
    return (yield from _complete_choice(options, matches[0]))


def _complete_choice(options: Options, reading: MeterChoice) -> Generator[Step, Any, MeterChoice]:
    """Ask for the kind, unit and interval that neither the broker nor a topic's name states.

    Raises Refused if another key is missing, such as the place of the value in a message.
    """
    if not reading.missing:
        return reading
    if unasked := [f"source.{key}" for key in reading.missing if key not in ("kind", "unit")]:
        raise Refused(
            f"{reading.names[0]}: nothing states {' or '.join(unasked)}, which init does not ask for. Write"
            " the configuration yourself, with the keys of [source] that `meteragent discover` shows"
        )
    source = dict(reading.source)
    if "kind" in reading.missing:
        kinds = tuple((kind, say(f"init.{kind}")) for kind in ("register", "interval_energy"))
        source["kind"] = yield from _ask(options, Question("kind", say("init.kind"), kinds))
    if "unit" in reading.missing:
        units = tuple((unit, unit) for unit in UNITS[Kind(source["kind"])])
        source["unit"] = yield from _ask(options, Question("unit", say("init.unit"), units))
    if source["kind"] == Kind.INTERVAL_ENERGY:
        question = Question("interval", say("init.interval"), default="15min")
        source["interval"] = yield from _ask(options, question)
    return replace(reading, offers=(StatedQuantity(source),))


def _choose_quantities(
    options: Options, reading: MeterChoice, has_solar: bool
) -> Generator[Step, Any, tuple[draft.Stream, ...]]:
    """Return the streams to release. Raises Refused if there are none, or --quantity names no selection."""
    selections = draft.possible_selections(reading, has_solar)
    if not selections:
        raise Refused(f"{reading.names[0]} has no quantity that can be released")
    choices = tuple((selection.names[0], selection.text) for selection in selections)
    chosen = options.answers.get("quantity")
    if chosen is None and len(choices) == 1:
        return selections[0].streams
    if chosen is None:
        question = Question("quantity", say("init.quantity"), choices, default=choices[0][0])
        chosen = yield from _ask(options, question)
        return next(selection.streams for selection in selections if selection.names[0] == chosen)
    matches = [selection for selection in selections if chosen in selection.names]
    if not matches:
        names = ", ".join(name for name, _ in choices)
        raise Refused(f"--quantity: found {chosen!r}; expected one of {names}")
    return matches[0].streams


def _name_objection(name: str) -> str | None:
    """Return the expected form of a meter's name; None if the name fits a topic."""
    return (
        None if fits_segment(name) and "/" not in name else "a name without /, +, #, $ or control characters"
    )


def _choose_preset(options: Options, base: draft.Base, reading: MeterChoice) -> Generator[Step, Any, str]:
    """Return the chosen preset. Raises Refused, with the reason, if that or every preset is impossible."""
    offers, remark = draft.lines_of_presets(base), ""
    coarse = {name: reason for name in OFFERED_PRESETS if (reason := draft.refusal_of_preset(base, name))}
    if coarse:
        remark = say(
            "init.coarse", presets=", ".join(coarse), reason="; ".join(dict.fromkeys(coarse.values()))
        )
        register = draft.finer_register(base, reading, coarse)
        remark += " " + (say("init.see") if register is None else say("init.use_register", name=register))
    if not offers or options.answers.get("preset") in coarse:
        raise Refused(f"--preset: {remark}")
    text = f"{say('init.preset')} {remark}".strip()
    default = DEFAULT if DEFAULT in offers else next(iter(offers))
    return (yield from _ask(options, Question("preset", text, tuple(offers.items()), default)))


# The sink and the files -----------------------------------------------------------------------------


def _topic_objection(base: draft.Base, preset: str) -> Callable[[str], str | None]:
    """Return a function of a topic root: it returns None for a valid root, or else the expected form."""

    def objection(topic: str) -> str | None:
        """Return what is expected instead of an invalid topic; None if the topic is valid."""
        try:
            config.parse(draft.configuration_text(base, preset, topic, "x.db", None))
        except ConfigError as error:
            return error.expected
        return None

    return objection


def _default_out(options: Options) -> str:
    """Return the configuration's default name: --out, or the first free one of home.toml, home-2.toml, ...

    Raises Refused if the file cannot be created or, with --yes and without --out, home.toml exists.
    """
    for key, objection in (("out", _file_objection), ("unit-file", _unit_objection)):
        option = options.answers.get(key)
        if option is not None and (expected := objection(option)):
            raise Refused(f"--{key}: found {option!r}; expected {expected}")
    if "out" in options.answers:
        return options.answers["out"]
    if folder := _expected_folder(Path(DEFAULT_OUT)):
        raise Refused(f"nothing can be written here: with --out, name a file in {folder}")
    if options.yes and (file := _existing_file(Path(DEFAULT_OUT))):
        raise Refused(f"{file.name} already exists: name another file with --out")
    names = chain([DEFAULT_OUT], (f"home-{number}.toml" for number in count(2)))
    return next(name for name in names if _existing_file(Path(name)) is None)


def _choose_unit(options: Options) -> Generator[Step, Any, Path | None]:
    """Return the path of the systemd unit to write; None if the operator wants no unit."""
    if options.yes and "unit-file" not in options.answers:
        return None
    question = Question("unit-file", say("init.unit_file"), default=say("init.page_no"))
    answer = yield from _ask(options, question, _unit_objection)
    name = _unit_name(answer)
    return None if name == NO else Path(name)


def _unit_name(answer: str) -> str:
    """Return "no" for the answer "no", the default file for "yes", or else the file that the answer names."""
    words = {YES: DEFAULT_UNIT, say("init.page_yes"): DEFAULT_UNIT, say("init.page_no"): NO}
    return words.get(answer.lower(), answer)


def _unit_objection(name: str) -> str | None:
    """Return None for the answer "no" or a file that can be created, else the expected answer."""
    name = _unit_name(name)
    return None if name == NO else _objection(name, name if os.path.lexists(name) else None)


def _existing_file(path: Path) -> Path | None:
    """Return the first existing file among a configuration, its password file and its store, or None."""
    paths = (path, draft.path_beside(path, ".password"), draft.path_beside(path, ".db"))
    return next((path for path in paths if os.path.lexists(path)), None)


def _expected_folder(path: Path) -> str | None:
    """Return None if a file can be created in a path's folder, else a description of a usable folder."""
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"a folder that exists, not {folder}"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"a folder that you may write to, not {folder}"


def _file_objection(name: str) -> str | None:
    """Return the expected answer if the configuration cannot be created; None if it can."""
    return _objection(name, _existing_file(Path(name)))


def _objection(name: str, file: Path | str | None) -> str | None:
    """Return None if there is no `file` yet and `name` can be created, else the expected answer."""
    if file is not None:
        return f"another name: {file} exists, and `init` never overwrites files"
    folder = _expected_folder(Path(name))
    return None if folder is None else f"a file in {folder}"
