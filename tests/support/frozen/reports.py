"""What is said about a case: what `consume` reads in its messages; what `check` and Home Assistant show."""

import io
import json
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np

from meteragent import __version__, cli, config, consume
from meteragent.consume import Series
from tests.support.frozen import agent, layout
from tests.support.frozen.agent import Outcome
from tests.support.frozen.cases import Case
from tests.support.stores import in_memory

HOUR_MS = 3_600_000
PRIOR: dict[Fraction | int, float] = {0: 1.0, 1: 2.0, 300: 3.0, 3000: 1.0}
_QUESTIONS: dict[str, Callable[[Series, int, int, str | None], Any]] = {
    "value": lambda home, start_ms, _, band: home.value(start_ms, band=band),
    "energy": lambda home, start_ms, end_ms, _: home.energy(start_ms, end_ms),
    "hour": lambda home, start_ms, _end, _: home.energy(start_ms, start_ms + HOUR_MS, cut="even"),
    "total": lambda home, *_: consume.total(home).high[-1],
    "curve": lambda home, start_ms, *_: consume.curve(home, start_ms),
    "mean_day": lambda home, start_ms, *_: consume.mean_day(home, start_ms),
    "band_energies": lambda home, start_ms, *_: consume.band_energies(home, start_ms),
    "weighted_total": lambda home, start_ms, *_: consume.weighted_total(home, start_ms),
    "energy_above": lambda home, start_ms, *_: consume.energy_above(home, start_ms),
    "highest_mean": lambda home, start_ms, *_: consume.highest_mean(home, start_ms),
    "nonnegative": lambda home, *_: consume.nonnegative(home).values[:3],
    "guess": lambda home, start_ms, _end, band: consume.guess_under_prior(home, start_ms, PRIOR, band=band),
}
"""Questions about a window; a question that does not suit its kind is answered by a refusal."""


def consumed(outcome: Outcome) -> dict[str, Any]:
    """Return what `consume` says about the first window of the first meter; {} if no record left."""
    payloads = [row.payload for row in outcome.rows if not row.topic.endswith("/total")]
    meters = consume.collect(payloads)
    if not meters:
        return {}
    return answers(meters[min(meters)])


def answers(home: Series) -> dict[str, Any]:
    """Return what `consume` says about the first window of a meter."""
    start_ms, record = int(home.window_ms[0]), home.records[0]
    terms = home.descriptor_of(record)
    answer_by_name = {
        name: _answer(ask, home, start_ms, start_ms + terms.length_ms, record.band)
        for name, ask in _QUESTIONS.items()
    }
    names = [item.name for item in fields(terms) if item.name not in ("facts", "id")]
    facts = {name: plain(getattr(terms, name)) for name in names}
    return {"descriptor": facts, **answer_by_name}


def _answer(ask: Callable[..., Any], *question: Any) -> Any:
    """Return the answer to a question, or its refusal."""
    try:
        return plain(ask(*question))
    except ValueError as error:
        return "refused" if "unpack" in str(error) else f"refused: {error}"


def plain(value: Any) -> Any:
    """Return a value as JSON has it: numbers with seven digits, exact numbers as strings."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | tuple | list):
        return [plain(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, float):
        return round(float(f"{value:.7g}"), 12)  # what is left of a sum of 0 depends on the processor
    if value is None or isinstance(value, bool | int):
        return value
    return str(value)


def checked(case: Case) -> tuple[list[str], list[dict[str, Any]], dict[str, Any]]:
    """Return what `check` prints: lines, the facts of each stream, and other facts as JSON."""
    with in_memory() as folder:
        settings = agent.load(case, folder)
        path = str(folder / "meteragent.toml")
        with agent.few_years(), patch.object(config, "load", return_value=settings):
            text, document = (_printed("check", path, *more) for more in (("--lang", "en"), ("--json",)))
    facts = json.loads(document.replace(str(folder), "FOLDER"))
    lines = text.replace(str(folder), "FOLDER").split("\nNext: ")[0].rstrip().split("\n")
    return lines, facts.pop("streams"), facts


def _printed(*arguments: str) -> str:
    """Return what a command prints."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = cli.main(arguments)
    assert code == 0, errors.getvalue()
    return out.getvalue()


def besides(facts: dict[str, Any], descriptor: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a stream that its descriptor does not state, and the names of missing ones."""
    extra_facts = {
        name: plain(fact)
        for name, fact in facts.items()
        if name != "id" and (name not in descriptor or json.dumps(fact) != json.dumps(descriptor[name]))
    }
    extra_facts["hidden"] = {event.pop("event"): event for event in extra_facts["hidden"]}
    missing = [name for name in descriptor if name not in {*facts, "meter", "store", "valid_from"}]
    return extra_facts | ({layout.MISSING: missing} if missing else {})


def discovered(outcome: Outcome) -> dict[str, Any]:
    """Return the first device for Home Assistant, by its topic; {} if there is none."""
    version = json.dumps(__version__).encode()
    for topic, payload in sorted(outcome.discovery.items()):
        return {topic: layout.document(payload.replace(version, b'"VERSION"'))}
    return {}
