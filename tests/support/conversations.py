"""Conversations of `init` with an operator who answers by keys."""

import json
from typing import Any

from meteragent import config
from meteragent.cli.conversation import Listen, Options, Question, Step, converse
from meteragent.cli.draft import Draft
from meteragent.tools.discover import Findings, Listener, find_meters

URL = "mqtt://broker"


def findings_of(*messages: tuple[str, object]) -> Findings:
    """Return what discovery finds in topics and payloads, each sent five times, ten seconds apart."""
    now_ms = [0]
    listener = Listener(lambda: now_ms[0])
    for _ in range(5):
        for topic, payload in messages:
            text = payload if isinstance(payload, str) else json.dumps(payload)
            listener.on_message(topic, text.encode(), retain=False)
        now_ms[0] += 10_000
    return find_meters(listener)


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

    def __init__(self, findings: object, answers: dict[str, str], options: Options | None = None) -> None:
        self.steps: list[Step] = []
        self.heard = list(findings) if isinstance(findings, list) else [findings]
        self.answers = {key: [value] for key, value in answers.items()}
        self.given = options or Options({"url": URL, "out": "home.toml"})

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
        """Return the first question of a key."""
        return next(step for step in self.steps if isinstance(step, Question) and step.key == key)


def settings(draft: Draft) -> config.Config:
    """Parse the configuration of a draft, which is accepted as it stands."""
    return config.parse(draft.files[draft.config][0])
