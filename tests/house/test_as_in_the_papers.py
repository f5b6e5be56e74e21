"""The page "As in the papers" and its example file: what they say is what `check` says."""

import re
from pathlib import Path

import pytest

from meteragent import config
from meteragent.cli import main
from meteragent.domain.shapes import Space
from meteragent.report import wording
from meteragent.report.guarantee import Guarantee, compute_guarantee
from tests.support.not_run import ROOT

PAGE = (ROOT / "simulators" / "papers" / "README.md").read_text("utf-8")
FILE = (ROOT / "deploy" / "papers.toml").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:1] == "|"
]
READINGS = [row for row in ROWS if len(row) == 6][2:]
CURVES = [row for row in ROWS if len(row) == 3][2:]
PRESET = 'preset = "signature"'


def promised(text: str) -> tuple[Guarantee, dict[str, str]]:
    """Return the guarantee of a configuration, and its costs as `check` prints them, by their labels."""
    guarantee = compute_guarantee(config.parse(text).stream[0])
    return guarantee, {label: cost for label, cost, _ in wording.cost_rows(guarantee)}


@pytest.mark.parametrize("row", READINGS, ids=lambda row: row[0])
def test_noise_on_each_reading_costs_what_the_page_says(row: list[str]) -> None:
    """The file with the row's radius is accepted as it stands, and has the errors of the row."""
    radius = re.search(r"radius = \d+", row[0])
    text = FILE.replace("#radius = 10", radius[0] if radius else "#")
    guarantee, costs = promised(text)
    assert not config.reading_refusals(config.parse(text))
    assert guarantee.terms.n == 30 * guarantee.terms.level
    assert row[1] == f"{guarantee.terms.radius} W"
    assert f"{row[2]} (95% within ± {row[3]})" == costs["one number"]
    assert row[4:] == [costs["one day"], costs["the mean of 1,000 homes"]]


@pytest.mark.parametrize("row", CURVES, ids=lambda row: row[0])
def test_curves_cost_what_the_page_says(row: list[str]) -> None:
    """Each is a window of as many blocks, with the radius of the row."""
    blocks = re.findall(r"in (\d+) blocks", row[0])[0]
    privacy, window = "", ""
    if PRESET not in row[0]:
        window = f'[window]\nlength = "1d"\nblocks = {blocks}\n'
        privacy = 'radius = 220\naccept = ["sparse_readings"]\n'
    text = FILE.replace("#space", f"{privacy}space").replace("[sink]", f"{window}[sink]")
    guarantee, costs = promised(text.replace(PRESET, "") if privacy else text)
    terms = guarantee.terms
    assert (terms.shape.space, terms.n, f"{terms.radius} W") == (Space.CURVE, int(blocks), row[1])
    assert row[2] == costs["one number"].partition(" (")[0]


def test_check_states_the_promise_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The promise on readings, and with curves the one on C([0, T]); what it reveals is on the page."""
    path = tmp_path / "papers.toml"
    path.write_text(FILE.replace("#space", "space"))
    assert main(["check", str(path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "whose slot means differ by at most 36 W, what leaves in one window" in told
    assert "For any two load curves in C([0, 5 min]) that differ by at most 36 W at every moment" in told
    for printed, shown in (("on, 1 h (96%)", "up to 96% of cases"), ("windows: 288 a day", "to 288 a day")):
        assert printed in told
        assert shown in PAGE


def test_a_radius_needs_no_detour_where_slots_are_readings() -> None:
    """Slots with a reading at most are not refused as sparse; longer ones, and energies, still are."""
    window = "[window]\nlength = '5min'\nstep = '10s'\n"
    base = FILE.replace(PRESET, "radius = 36").replace("[sink]", f"{window}[sink]")
    assert not config.reading_refusals(config.parse(base))
    [(_, refusal)] = config.reading_refusals(config.parse(base.replace("step = '10s'", "step = '20s'")))
    assert (refusal.key, refusal.found.partition(";")[0]) == ("privacy.radius", "36 W within a slot")
    hidden = base.replace("radius = 36", "hide = '0.1Wh'")
    assert config.terms(config.parse(hidden).stream[0]).radius == 36
    assert [error.key for _, error in config.reading_refusals(config.parse(hidden))] == ["privacy.hide"]
    slower = FILE.replace('every = "10s"', 'every = "11s"')
    assert [error.key for _, error in config.reading_refusals(config.parse(slower))] == ["privacy.hide"]
