"""What was measured of a broker, as rows of the tables of benchmarks/README.md."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.brokers.behaviours import BEHAVIOURS
from tests.brokers.makes import Make
from tests.brokers.trial import Measured

Row = Mapping[str, Measured]

CONNECTING: Final = ("MQTT 5", "MQTT 3.1.1", "auto")
KILLED: Final = ("agent killed", "broker killed")
DOES: Final = (*BEHAVIOURS, *KILLED)


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured: while connecting, and by version of MQTT what it does."""

    make: Make
    version: str
    connecting: Row
    does: Mapping[str, Row] = field(default_factory=dict)

    @property
    def failures(self) -> Iterator[str]:
        """What does not hold, and is not known not to."""
        for version, row in {"": self.connecting, **self.does}.items():
            for name, measured in row.items():
                if not measured.holds and name not in self.make.lacks:
                    yield f"FAILED: {self.make.name} {version} {name}: {measured.text}"


def tables(reports: Sequence[Report]) -> str:
    """Return both tables."""
    lines = _head("broker", *CONNECTING)
    lines += [_line(_name(report), *_cells(report.connecting, CONNECTING)) for report in reports]
    lines += ["", *_head("broker", "MQTT", *DOES)]
    for report in reports:
        lines += [_line(_name(report), spoken, *_cells(row, DOES)) for spoken, row in report.does.items()]
    return "\n".join(lines)


def _name(report: Report) -> str:
    """Return the broker, with the version that was run."""
    program, _, rest = report.make.name.partition("-")
    return f"{program} {report.version}" + (", its defaults" if rest.endswith("defaults") else "")


def _cells(row: Row, names: Sequence[str]) -> Iterator[str]:
    return (row[name].text if name in row else "–" for name in names)


def _head(*cells: str) -> list[str]:
    return [_line(*cells), "|" + "---|" * len(cells)]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
