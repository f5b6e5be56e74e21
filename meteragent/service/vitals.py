"""The state of a service, in the same form for all: as JSON, and as metrics for Prometheus."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

from meteragent import __version__
from meteragent.domain.problem import Problem

METRICS_QUESTION = b"metrics"
"""The question for the vitals with their metrics."""


class Figure(NamedTuple):
    """A metric of Prometheus: its name without "meteragent_", kind and meaning, and its labelled values."""

    name: str
    kind: Literal["counter", "gauge"]
    text: str
    samples: Iterable[tuple[Mapping[str, str], float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals(ABC):
    """The state of a service. A subclass for each service adds fields; all fields are in its JSON.

    service    what runs: "agent", "leader", "helper" or "collect"
    running_s  the time since the start, in seconds
    counts     the counts since the start, by name
    """

    service: str
    version: str = __version__
    running_s: float
    counts: Mapping[str, int]

    @property
    @abstractmethod
    def problems(self) -> tuple[Problem, ...]:
        """The problems that need a person's attention; empty if there are none."""

    @property
    def is_waiting(self) -> bool:
        """Whether nothing has arrived yet, but not for long enough to be a problem."""
        return False

    @property
    def state(self) -> str:
        """The state in a word: "problem", or else "waiting" for a first message, or "well"."""
        return "problem" if self.problems else "waiting" if self.is_waiting else "well"

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that all metrics of this process have."""
        return {}

    @abstractmethod
    def metrics(self) -> Iterator[Figure]:
        """Yield the metrics that only this service has."""


def as_json(vitals: Vitals, question: bytes = b"") -> str:
    """Return the vitals as JSON, exact numbers as strings, and with `metrics` if they are asked for."""
    problems = vitals.problems
    document = asdict(vitals) | {
        "counts": {**vitals.counts},
        "healthy": not problems,
        "state": vitals.state,
        "problems": [item.text for item in problems],
        "problem_codes": [item.code for item in problems],
        "problem_details": [asdict(item) for item in problems],
    }
    if question == METRICS_QUESTION:
        document["metrics"] = as_metrics(vitals)
    return json.dumps(document, default=str)


def as_metrics(vitals: Vitals) -> str:
    """Return the vitals in the text format of Prometheus, version 0.0.4."""
    lines = []
    for name, kind, text, samples in (*_shared_figures(vitals), *vitals.metrics()):
        metric = f"meteragent_{name}"
        lines += [f"# HELP {metric} {text}", f"# TYPE {metric} {kind}"]
        lines += [f"{metric}{_format({**vitals.labels, **labels})} {value:.10g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _shared_figures(vitals: Vitals) -> Iterator[Figure]:
    yield Figure(
        "info", "gauge", "the service", [({"service": vitals.service, "version": vitals.version}, 1)]
    )
    yield Figure("healthy", "gauge", "1: there is no problem", [({}, not vitals.problems)])
    problems = dict.fromkeys((item.code, item.stream or "") for item in vitals.problems)
    text = "1: a problem that needs attention; absent otherwise"
    yield Figure("problem", "gauge", text, [({"code": code, "stream": name}, 1) for code, name in problems])
    yield Figure("waiting", "gauge", "1: nothing has arrived yet", [({}, vitals.state == "waiting")])
    yield Figure("running_seconds", "gauge", "seconds since the start", [({}, vitals.running_s)])


def count_figures(prefix: str, texts: Mapping[str, str], counts: Mapping[str, int]) -> Iterator[Figure]:
    """Yield a metric for each count whose meaning is in `texts`."""
    for name, text in texts.items():
        yield Figure(f"{prefix}{name}_total", "counter", text, [({}, counts.get(name, 0))])


def _format(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels.items())
    return "{" + pairs + "}"


def _escape_label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
