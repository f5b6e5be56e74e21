"""The crowd's demo without its processes: its files, its clock, and what is made of messages."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from meteragent import config
from meteragent.crowd import group as groups
from meteragent.crowd.group import Group
from meteragent.crowd.total import TotalFormat
from meteragent.domain.shapes import Means, Share
from meteragent.operators import configuration
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from simulators.crowd import files as crowd_files
from simulators.crowd.files import SLOT_MS
from simulators.crowd.outcome import CrowdOutcome
from simulators.crowd.picture import draw
from simulators.crowd.screen import text
from simulators.crowd.stage import Received
from simulators.crowd.staged import StagedClock
from simulators.homes.street import START_MS, Street
from tests.support.not_run import ROOT

HOMES = 10
SD_ALONE_WH, SD_CROWD_WH = 110 * (2 * HOMES) ** 0.5, 220.0


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the demo's files."""
    folder = tmp_path_factory.mktemp("files")
    crowd_files.write(folder, "mqtt://127.0.0.1", HOMES)
    return folder


@pytest.fixture(scope="module")
def street() -> Street:
    """Ten homes, one day."""
    return Street.simulated(1, HOMES, 1)


@pytest.fixture(scope="module")
def received(street: Street, files: Path) -> Received:
    """Every number 100 W too high, which is 500 Wh in all; totals that are 300 Wh too low, up to rounding."""
    alone, _ = config.load(files / "agent.toml").stream
    descriptor = describe_terms(config.terms(alone))
    means_w, numbers = np.floor(street.means_w(SLOT_MS) + 0.5).astype(int) + 100, []
    for meter, row in zip(street.meters, means_w.tolist(), strict=True):
        numbers.append(descriptor.encode_message(meter, START_MS))
        numbers += [
            RecordFormat.of(descriptor).encode(meter, START_MS + slot * SLOT_MS, 0, value)
            for slot, value in enumerate(row)
        ]
    format_ = TotalFormat(group(files))
    quanta = np.floor((street.means_w(SLOT_MS).sum(axis=0) / 2 - 300) * 2).astype(int)
    totals = [
        format_.encode_record((START_MS + slot * SLOT_MS) // 1000, value, HOMES)
        for slot, value in enumerate(quanta.tolist())
    ]
    return Received(numbers, [format_.encode_descriptor(), *totals])


def group(files: Path) -> Group:
    """The demo's group."""
    return groups.parse_group((files / "group.toml").read_text())


@pytest.fixture
def outcome(street: Street, received: Received) -> CrowdOutcome:
    """What the demo makes of the messages."""
    return CrowdOutcome.of(street, received)


def test_both_ways_promise_the_same(files: Path) -> None:
    """Noise in every home and noise of the operators hide the same energy in the same slots at one level."""
    alone, crowd = (config.terms(stream) for stream in config.load(files / "agent.toml").stream)
    for terms in (alone, crowd):
        assert (int(terms.hides_wh), int(terms.level), terms.step_ms) == (110, 1, SLOT_MS)
    assert (alone.shape, crowd.shape) == (
        Means(SLOT_MS, SLOT_MS),
        Share(SLOT_MS, group(files).id.hex(), 1_200_000),
    )


def test_the_operators_files(files: Path) -> None:
    """Each operator's file is accepted, and its identity is the one that the group names."""
    for role in groups.ROLES:
        operation = configuration.load(files / f"{role}.toml", role)
        assert operation.group.id == group(files).id
        assert operation.store == files / f"{role}.db"


def test_a_small_street_has_totals(tmp_path: Path) -> None:
    """Fewer homes than the smallest crowd of a real group make a total, too."""
    crowd_files.write(tmp_path, "mqtt://127.0.0.1", 2)
    assert group(tmp_path).smallest_crowd == 2


def test_clock(tmp_path: Path) -> None:
    """The clock stands at what any process has set, and an instant that has come is not waited for."""
    clock, other = StagedClock(tmp_path / "clock"), StagedClock(tmp_path / "clock")
    clock.set(START_MS + 1500)
    assert (other.now_ms(), other.now_s()) == (START_MS + 1500, START_MS // 1000 + 1)
    assert other.pause_s(other.now_s()) == 0
    assert other.pause_s(other.now_s() + 1) > 0
    clock.set(START_MS + 2500)
    assert other.pause_s(START_MS // 1000 + 2) == 0


def test_errors(outcome: CrowdOutcome) -> None:
    """An error is what was published less the truth, in Wh of all homes in a slot."""
    assert outcome.alone.errors_wh == pytest.approx(500, abs=0.5 * HOMES / 2)
    assert outcome.crowd.errors_wh == pytest.approx(-300, abs=0.5)
    assert outcome.alone.spread_wh().measured == pytest.approx(500, abs=2.5)
    assert outcome.crowd.spread_wh().measured == pytest.approx(300, abs=0.5)


def test_stated(outcome: CrowdOutcome) -> None:
    """The stated deviations follow from the laws: 110 Wh in each home, or twice in all."""
    assert outcome.alone.spread_wh().promised == pytest.approx(SD_ALONE_WH, rel=1e-3)
    assert outcome.crowd.spread_wh().promised == pytest.approx(SD_CROWD_WH, rel=1e-3)
    assert outcome.crowd.half_width_wh == pytest.approx(453, abs=1)
    assert outcome.hides_wh == 110


def test_intervals(street: Street, received: Received) -> None:
    """A truth 300 Wh away is in an interval of 453 Wh, and one 500 Wh away is not."""
    outcome = CrowdOutcome.of(street, received)
    assert (outcome.crowd.inside(), outcome.alone.inside()) == (48, 48)
    busier = Street(street.seed, street.watts + 40)  # 200 Wh more in each slot
    outcome = CrowdOutcome.of(busier, received)
    assert outcome.crowd.inside() == 0
    assert not outcome.crowd.is_inside(5)


def test_missing(street: Street, received: Received) -> None:
    """A slot without a total, and a total of fewer homes, are errors, not gaps."""
    with pytest.raises(ValueError, match="one total of all homes"):
        CrowdOutcome.of(street, received._replace(totals=received.totals[:-1]))
    fewer = received.totals[-1].replace(b'"homes":10', b'"homes":9')
    with pytest.raises(ValueError, match="one total of all homes"):
        CrowdOutcome.of(street, received._replace(totals=[*received.totals[:-1], fewer]))


def test_text(outcome: CrowdOutcome) -> None:
    """The text has both totals side by side, their stated and measured errors, and whom a home trusts."""
    shown = text(outcome, 30)
    true = f"{outcome.crowd.true_wh[36]:,.0f}"
    alone, crowd = r"[\d,]+ +\+\d+ +492 +± 9\d\d", r"[\d,]+ +-30\d +220 +± 453"
    assert re.search(rf"^18:00 +{true} +{alone} +{crowd}$", shown, re.MULTILINE)
    assert len(re.findall(r"^\d+:00 ", shown, re.MULTILINE)) == 12
    assert re.search(r"stated \(sd\) +492 Wh +220 Wh", shown)
    assert re.search(r"measured \(± its own sd\) +50\d ± \d+ Wh +300 ± \d+ Wh", shown)
    assert re.search(r"95% promised\) +48 of 48 +48 of 48", shown)
    assert "the leader and the helper do not pool their data" in " ".join(shown.split())
    assert "!" not in shown.replace("(! not this time)", "")
    assert max(map(len, shown.splitlines())) <= 100


def test_text_marks_misses(street: Street, received: Received) -> None:
    """Each interval that does not contain the truth is marked."""
    shown = text(CrowdOutcome.of(Street(street.seed, street.watts + 40), received), 30)
    assert len(re.findall(r"^\d+:00 .* ± 453!$", shown, re.MULTILINE)) == 12


def test_picture(outcome: CrowdOutcome, tmp_path: Path) -> None:
    """The picture is a PNG, and changes with the totals."""
    draw(outcome, tmp_path / "crowd.png")
    draw(CrowdOutcome(outcome.street, 110, outcome.crowd, outcome.alone), tmp_path / "other.png")
    crowd, other = ((tmp_path / name).read_bytes() for name in ("crowd.png", "other.png"))
    assert crowd[:8] == b"\x89PNG\r\n\x1a\n"
    assert crowd != other


def test_missing_cryptography(tmp_path: Path) -> None:
    """Without the extra, `demo --crowd` ends with 1 and says what to install, before anything runs."""
    code = (
        "import sys; sys.modules['cryptography'] = None; from simulators.__main__ import main;"
        f" exit(main(['demo', '--crowd', '--out', {str(tmp_path / 'out')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "demo: cryptography is missing: pip install . './simulators[crowd]' in a clone of the repository\n"
    )
    assert not (tmp_path / "out").exists()
