"""The contents of the frozen files: for each case, what left and what is said about it.

The id of a descriptor follows from all its facts. So a file states it only in the descriptor; elsewhere it is
replaced by its number, and a changed fact is a change of a few lines.
"""

from collections.abc import Mapping
from typing import Any

from meteragent.domain.grid import iso_time
from meteragent.store.outbox import WaitingRow
from tests.support.frozen import agent, archive, cases, crowd, layout, reports, special
from tests.support.frozen.agent import Outcome
from tests.support.frozen.cases import Case

ELSE = "as the file's first descriptor, except"


def groups() -> dict[str, list[Case]]:
    """Return the cases of each file, by its name."""
    other_groups = {
        "calendars": special.calendars(),
        "presets": special.presets(),
        "streams": special.streams(),
        "crowd": special.crowd(),
        "archive": [],
    }
    return cases.kinds() | other_groups


def contents(name: str) -> dict[str, str]:
    """Return the files of a group of cases, by their paths: the messages, and what is said about them.

    Refusals come last, each with the cases that it concerns.
    """
    if name == "archive":
        return archive.contents()
    messages: dict[str, Any] = {}
    reports_by_case: dict[str, Any] = {}
    refused: dict[str, list[str]] = {}
    base, first_case = dict[str, Any](), Base()
    for case in groups()[name]:
        outcomes = agent.outcomes(case)
        if isinstance(outcomes, str):
            refused.setdefault(outcomes, []).append(case.name)
            continue
        streams = {stream: _stream(outcome) for stream, outcome in outcomes.items()}
        reports_by_case[case.name] = first_case.differences(case, outcomes, streams)
        for stream in streams.values():
            base = base or next(iter(stream["descriptors"].values()), {})
            stream["descriptors"] = {
                number: value if value is base else {ELSE: layout.difference(base, value)}
                for number, value in stream["descriptors"].items()
            }
        messages[case.name] = streams["main"] if set(streams) == {"main"} else streams
    more = {"refused": refused} if refused else {}
    return {
        f"{name}.json": layout.text(messages | more),
        f"{name}.said.json": layout.text(reports_by_case),
    }


class Base:
    """What is said about the first case of a file; of the others, only the differences are stated."""

    def __init__(self) -> None:
        self._first: dict[str, Any] = {}

    def differences(
        self, case: Case, outcomes: Mapping[str, Outcome], streams: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return what is said about a case, as differences from the first case.

        In kW and kWh, texts and devices say the same as in W and Wh, so only the first case has them.
        """
        lines, facts, shared_facts = reports.checked(case)
        is_told = case.readings.wh == 1 and case.is_told
        contents: dict[str, Any] = {"check": lines} if is_told else {}
        for stream in facts:
            name = stream["stream"]
            descriptor: dict[str, Any] = next(iter(streams[name]["descriptors"].values()), {})
            contents[name] = {
                "consume": reports.consumed(outcomes[name]) if descriptor else {},
                "facts": reports.besides(stream, descriptor),
            }
            if is_told:
                contents[name]["home assistant"] = reports.discovered(outcomes[name])
        contents |= shared_facts
        if not self._first:
            self._first = contents
            return contents
        return {name: self._difference(name, part) for name, part in contents.items()}

    def _difference(self, name: str, part: Any) -> Any:
        """Return the difference of a part from the first case's part of the same name, or of its stream."""
        base = self._first.get(name, self._first.get("main"))
        if layout.is_text(part) and base:
            return layout.new_lines(base, part)
        return layout.difference(base, part) if isinstance(part, dict) and base else part


def _stream(outcome: Outcome) -> dict[str, Any]:
    """Return what left a stream."""
    descriptors: dict[str, Any] = {}
    announced: dict[str, list[Any]] = {}
    messages: dict[str, list[tuple[str, Any]]] = {}
    for row in outcome.rows:
        due = iso_time(row.due_ms)
        if "/privacy" in row.topic:
            topic, number = _described(row.topic, layout.document(row.payload), descriptors)
            announced.setdefault(topic, []).append([due, number, row.retain])
        else:
            messages.setdefault(row.topic, []).append((due, _message(row, descriptors)))
    latest = {
        topic: _described(topic, layout.document(payload), descriptors)[1]
        for topic, payload in outcome.descriptors.items()
    }
    return {
        "descriptors": {f"d{place}": value for place, value in enumerate(descriptors.values(), 1)},
        "announced": announced,
        "latest descriptors": latest,
        "messages": {topic: layout.changes(entries) for topic, entries in messages.items()},
        "counts": dict(sorted(outcome.counts.items())),
    }


def _message(row: WaitingRow, descriptors: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a record, a total or a report to a crowd says."""
    if row.topic.startswith("crowd/"):
        return crowd.opened(row.payload) | {"until": iso_time(row.until_ms or 0)}
    value: dict[str, Any] = layout.document(row.payload)
    number = {"d": _number(value["d"], descriptors)} if "d" in value else {}
    return value | number | ({"retained": True} if row.retain else {})


def _described(topic: str, value: dict[str, Any], descriptors: dict[str, Any]) -> tuple[str, list[str]]:
    """Note a descriptor; return its topic with a number for its id, and what only this meter's states."""
    first = descriptors.setdefault(value["id"], value)
    meter_facts = [f"{name}: {fact}" for name, fact in value.items() if first.get(name) != fact]
    assert list(first) == list(value), "two descriptors of the same terms differ in their fields"
    number = _number(value["id"], descriptors)
    return topic.replace(value["id"], number), [number, *meter_facts]


def _number(id_: str, descriptors: Mapping[str, Any]) -> str:
    """Return the number of a descriptor's id."""
    return f"d{1 + list(descriptors).index(id_)}"
