"""The `init` command: from a broker's address to a saved configuration, in one conversation."""

import argparse
import asyncio
import getpass
import logging
import os
import select
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TextIO

from meteragent import config, mqtt
from meteragent.cli import admission, check, common, discover, exit_codes
from meteragent.cli.conversation import Conversation, Listen, Options, Question, Refused, Say, Step, converse
from meteragent.cli.draft import Draft
from meteragent.decode.profile import Profile
from meteragent.domain.errors import ConfigError, LinkError
from meteragent.report.format import WIDTH, wrap_text
from meteragent.report.language import language_of_environment, say, use_language
from meteragent.service.whole_file import whole_file
from meteragent.tools.discover import Findings, Listener, find_meters

_NO_ANSWERS = {"command", "seconds", "yes", "refuse"}
"""The options that are not answers to questions."""


def run(options: argparse.Namespace) -> int:
    """Ask the questions, write the files and show the promises; return the exit code."""
    with use_language(language_of_environment(os.environ)):
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    logging.getLogger("meteragent").addHandler(logging.NullHandler())  # failures are printed below
    if not options.yes and not sys.stdin.isatty():
        if _is_at_end(sys.stdin):
            return exit_codes.fail(
                "nobody can answer the questions: run init in a terminal, or use --yes to accept all"
                " defaults. Nothing was written.",
                exit_codes.EXIT_INTERRUPTED,
            )
        print(
            "meteragent: standard input is not a terminal, so answers are read from it; use --yes to accept"
            " all defaults",
            file=sys.stderr,
            flush=True,
        )
    try:
        folder = (options.out or Path()).parent / config.PROFILES_FOLDER
        profiles = config.all_profiles(folder)
        draft = _converse(partial(converse, _options(options)), options.seconds, profiles)
        _write(draft)
    except (KeyboardInterrupt, EOFError):
        print("\nmeteragent: stopped before the last answer; nothing was written.", file=sys.stderr)
        return exit_codes.EXIT_INTERRUPTED
    except (Refused, ConfigError, LinkError, OSError) as error:
        return exit_codes.fail(error)
    for path in draft.files:
        print(f"Wrote {path}")
    return _show_promises(draft)


def _is_at_end(stdin: TextIO) -> bool:
    """Return whether standard input is known to have ended, as with `</dev/null`."""
    try:
        is_readable = bool(select.select([stdin], [], [], 0)[0])
    except (OSError, ValueError):  # it has no file descriptor
        return False
    return is_readable and not stdin.buffer.peek(1)  # type: ignore[attr-defined]  # a BufferedReader


def _options(options: argparse.Namespace) -> Options:
    """Return the answers on the command line. Raises ConfigError or Refused if a file cannot be used."""
    answers = {
        name.replace("_", "-"): str(value)
        for name, value in vars(options).items()
        if name not in _NO_ANSWERS and value is not None
    }
    for name, path in (("out", options.out), ("unit-file", options.unit_file)):
        if path is not None and path.exists():
            raise Refused(f"{path} exists, and `init` never overwrites files: name another with --{name}")
    path = options.password_file
    password = None if path is None else config.read_password("--password-file", path)
    return Options(answers, yes=options.yes, password=password, timezone=local_timezone())


def local_timezone(link: Path = Path("/etc/localtime")) -> str:
    """Return the name of the local time zone: from TZ, or else from this machine's settings, or else UTC."""
    _, separator, name = str(os.path.realpath(link)).partition("/zoneinfo/")
    return os.environ.get("TZ") or (name if separator else "UTC")


def _converse(start: Callable[[], Conversation], seconds: int, profiles: Mapping[str, Profile]) -> Draft:
    """Perform a conversation; going back restarts it with the earlier answers. Raises EOFError."""
    history: list[tuple[Step, object]] = []
    while True:
        conversation, answer = start(), None
        try:
            for _, known_answer in history:
                conversation.send(answer)
                answer = known_answer
            while True:
                step = conversation.send(answer)
                is_first = not any(isinstance(old_step, Question) for old_step, _ in history)
                answer = _perform(step, seconds, profiles, is_first=is_first)
                history.append((step, answer))
        except StopIteration as end:
            draft: Draft = end.value
            return draft
        except _GoBack:
            while history and not isinstance(history.pop()[0], Question):
                continue


class _GoBack(Exception):
    """The operator wants to answer the previous question again."""


def _perform(step: Step, seconds: int, profiles: Mapping[str, Profile], *, is_first: bool) -> object:
    """Perform a step; return the answer, if there is one."""
    match step:
        case Say():
            print(_wrap(step.text))
        case Question():
            if is_first:
                print(_wrap(say("init.keys", back=say("init.back"))))
            return _ask(step)
        case Listen():
            return _listen(step.endpoint, seconds, profiles)
    return None


def _wrap(text: str, hanging: str = "") -> str:
    """Return a paragraph, wrapped at the width of the terminal."""
    return wrap_text(text, hanging=hanging, width=min(WIDTH, shutil.get_terminal_size().columns))


def _ask(question: Question) -> str:
    """Ask a question on the terminal, and return the answer. Raises EOFError if the input ends."""
    print(f"\n{_wrap(question.text)}")
    for number, (_, text) in enumerate(question.choices, 1):
        print(_wrap(f"  {number}. {text}", "     "))
    values = [value for value, _ in question.choices]
    default = question.default
    default_text = str(values.index(default) + 1) if default in values else default
    prompt = "> " if default_text is None else f"[{default_text}] > "
    answer = getpass.getpass(prompt) if question.is_secret else input(prompt)
    if not question.is_secret and answer.strip().lower() == say("init.back"):
        raise _GoBack
    return answer


def _listen(endpoint: mqtt.Endpoint, seconds: int, profiles: Mapping[str, Profile]) -> Findings | LinkError:
    """Return the findings on a broker, or its refusal of the login. Raises LinkError or Refused."""
    print(f"Listening to {endpoint.host}:{endpoint.port} for {seconds} s …", flush=True)
    listener = Listener(lambda: time.monotonic_ns() // 1_000_000)
    try:
        asyncio.run(discover.listen(endpoint, "init", "#", seconds, listener))
    except mqtt.LoginRefused as error:
        return error
    except LinkError as error:
        raise LinkError(common.connection_failure(error)) from None
    if not listener.message_count:
        raise Refused(discover.silence_advice(seconds))
    return find_meters(listener, profiles)


def _write(draft: Draft) -> None:
    """Write all files. Raises OSError if a file exists or cannot be written; then no new file remains."""
    new_files: list[Path] = []
    try:
        for path, (text, mode) in draft.files.items():
            with whole_file(path, is_new=True, mode=mode) as file:
                file.write(text.encode())
            new_files.append(path)
    except BaseException:
        for path in new_files:
            with suppress(OSError):
                path.unlink()
        raise


def _show_promises(draft: Draft) -> int:
    """Show the promises, the next steps, and the commands that install the unit; return the exit code."""
    print()
    try:
        settings = admission.load_admitted(draft.config, sys.stderr)
    except ConfigError as refusal:
        print(refusal, file=sys.stderr)
        return exit_codes.EXIT_CONFIG
    check.print_promises(settings, draft.config, is_new=True)
    if draft.unit is not None:
        print("To start the agent with the machine, as a service of your user:")
        for line in draft.files[draft.unit][0].splitlines():
            if line.startswith("#   "):  # a command in the unit's header
                print(line.removeprefix("# ").replace("THIS-FILE", shlex.quote(str(draft.unit))))
    return 0
