"""The `receivers` command: list the receivers with their state and cost, or pause, resume or end one."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from meteragent import config
from meteragent.agent.link.receivers import refusal_of
from meteragent.cli import admission
from meteragent.cli.exit_codes import fail
from meteragent.domain.errors import StoreError, StoreInUse
from meteragent.domain.figures import exact_text
from meteragent.domain.grid import iso_time
from meteragent.domain.identity import END
from meteragent.report import together
from meteragent.report.format import figures_text
from meteragent.report.language import language_of_environment, say, use_language
from meteragent.service import boot_clock
from meteragent.service.health import ask_socket, socket_path
from meteragent.store import Store, grants
from meteragent.store.grants import Action

_WAIT_S = 20.0
"""How long, in seconds, the command waits while an agent that does not answer uses the store."""
_PAUSE_S = 0.2


def run(options: argparse.Namespace) -> int:
    """List the receivers, or act on one. Raises StoreError without a usable store."""
    settings = config.load(options.config)
    names = [receiver.name for receiver in settings.receiver]
    with use_language(language_of_environment(os.environ)):
        if options.verb is None:
            _print_list(settings, is_json=options.json)
            return 0
        if options.name not in names:
            return fail(say("receivers.known", names=", ".join(names) or "–"))
        if options.verb == END and not options.yes:
            return fail(say("receivers.final", name=options.name))
        refusal = _act(settings, Action(0, options.name, options.verb, "command", boot_clock.wall_ms()))
        if refusal is not None:
            return fail(f"{options.name}: {say(f'refused.{refusal}')}")
        print(say(f"receivers.did_{options.verb}", name=options.name))
    return 0


def _act(settings: config.Config, action: Action) -> str | None:
    """Have the running agent act, or act on the store if none runs; return the code of a refusal, if any."""
    path, end_s = settings.store.path, time.monotonic() + _WAIT_S
    while (answer := ask_socket(socket_path(path), f"{action.verb} {action.receiver}".encode())) is None:
        try:
            return act_on_file(path, settings, action)
        except StoreInUse:  # the agent starts, stops, or opens the store again
            if time.monotonic() >= end_s:
                raise
            time.sleep(_PAUSE_S)
    refusal: str | None = json.loads(answer)["refused"]
    return refusal


def act_on_file(path: Path, settings: config.Config, action: Action) -> str | None:
    """Write an action to a store that no agent uses; return the code of the refusal, if any."""
    if not path.exists():  # a store that this user creates may not be the agent's
        raise StoreError(f"{path}: there is no store yet: set `paused` in the file, or start the agent first")
    with Store.open(path, now_ms=action.at_ms, recovery_floor_ms=None) as store:
        return refusal_of(settings, action) or grants.add_action(store, action)


def _print_list(settings: config.Config, *, is_json: bool) -> None:
    """Print what `check` says of the receivers and, for each receiver, its cost and its last action."""
    actions = admission.stored_actions(settings, sys.stderr)
    settings = config.with_actions(settings, actions)
    pairs = [(receiver, stream) for stream in settings.stream for receiver in stream.receivers]
    costs = [config.terms(stream).epsilon_per_w_day * (not receiver.state) for receiver, stream in pairs]
    last = [actions.get(receiver.name) for receiver, _ in pairs]
    if is_json:
        facts = together.receiver_facts(settings) or {"receivers": []}
        for row, epsilon, action in zip(facts["receivers"], costs, last, strict=True):
            row |= {"epsilon_per_day": exact_text(epsilon), "last_action": action and action._asdict()}
        print(json.dumps(facts, indent=2))
        return
    lines = [*together.receiver_lines(settings)] if pairs else [say("receivers.none")]
    for index, (epsilon, action) in enumerate(zip(costs, last, strict=True)):
        lines[index] += f"; {say('receivers.cost', epsilon=figures_text(epsilon))}"
        if action is not None:
            lines[index] += f"; {say('receivers.last', **action._asdict(), time=iso_time(action.at_ms))}"
    print("\n".join(lines))
