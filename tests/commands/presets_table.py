"""Generate the table of `docs/choosing.md`: which meter may have which preset.

`python -m tests.commands.presets_table` rewrites it from the profiles, as `check` judges them.
"""

from collections.abc import Iterator
from pathlib import Path

from meteragent.domain.presets import PRESETS
from meteragent.domain.shapes import Space
from meteragent.domain.units import Kind
from meteragent.report.plan.meters import judge_meters
from tests.support.not_run import ROOT

PAGE: Path = ROOT / "docs" / "choosing.md"
BEGIN, END = "<!-- meters: begin -->\n", "<!-- meters end -->\n"
BANDS = 'window.rest = "night"\nwindow.band = [{ name = "day", hours = ["07:00/23:00"] }]\n'
_CELLS = {"fine": "yes", "coarse": "–", "unknown": "?"}
_KINDS = {Kind.POWER: "power", Kind.REGISTER: "register", Kind.INTERVAL_ENERGY: "interval energy"}


def setting(name: str) -> str:
    """Return a configuration with a preset, without its source."""
    preset = PRESETS[name]
    zone = 'window.timezone = "Europe/Amsterdam"\n' if preset.has_calendar else ""
    bands = BANDS if preset.space is Space.BANDS else ""
    return f'sink.topic = "private/{{meter}}/x"\nprivacy.preset = "{name}"\n{zone}{bands}'


def rows() -> Iterator[str]:
    """Yield a row for the profiles of each kind that may have the same presets."""
    cells: dict[tuple[Kind, str], list[str]] = {}
    for preset in PRESETS:
        for kind, names_by_verdict in judge_meters(setting(preset)).items():
            for verdict, names in names_by_verdict.items():
                for name in names:
                    cells.setdefault((kind, name), []).append(_CELLS[verdict])
    names_by_row: dict[tuple[Kind, tuple[str, ...]], list[str]] = {}
    for (kind, name), row in cells.items():
        names_by_row.setdefault((kind, tuple(row)), []).append(f"`{name}`")
    for kind, title in _KINDS.items():
        rows_of_kind = [row for of_kind, row in names_by_row if of_kind is kind]
        for row_cells in sorted(rows_of_kind, key=lambda row: [-row.count(cell) for cell in ("yes", "–")]):
            yield f"| {title}: {', '.join(names_by_row[kind, row_cells])} | {' | '.join(row_cells)} |"


def renewed(text: str) -> str:
    """Return the page with its table generated again."""
    head, _, tail = text.partition(BEGIN)
    title = f"| what is read, by profile | {' | '.join(f'`{name}`' for name in PRESETS)} |"
    table = "\n".join([title, "|---" * (len(PRESETS) + 1) + "|", *rows()])
    return f"{head}{BEGIN}\n{table}\n\n{END}{tail.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
