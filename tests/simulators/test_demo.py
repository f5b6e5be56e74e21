"""simulators.commands.demo without its processes: the street, what is made of messages, text and picture."""

import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from meteragent import config
from meteragent.domain.errors import RecordError
from meteragent.report import facts, guarantee
from meteragent.report.guarantee import Guarantee
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from simulators import __main__ as simulators
from simulators.commands.demo import SEED
from simulators.demo.outcome import Outcome
from simulators.demo.picture import draw
from simulators.demo.screen import text
from simulators.demo.stage import configuration
from simulators.homes.street import START_MS, Street
from tests.support.not_run import ROOT

HALF_HOUR_MS = 1_800_000


@pytest.fixture(scope="module")
def promised(tmp_path_factory: pytest.TempPathFactory) -> Guarantee:
    """What `check` says of the demo's configuration."""
    return guarantee.compute_guarantee(stream(tmp_path_factory.mktemp("facts")))


def stream(folder: Path) -> config.Stream:
    """The demo's configuration, as the agent reads it."""
    return config.load(configuration(folder)).stream[0]


def messages(street: Street, folder: Path, noise_w: np.ndarray) -> list[bytes]:
    """What the agent would send if this were its noise."""
    descriptor = describe_terms(config.terms(stream(folder)))
    values = np.floor(street.means_w(HALF_HOUR_MS) + 0.5) + noise_w
    found = []
    for meter, row in zip(street.meters, values.tolist(), strict=True):
        found.append(descriptor.encode_message(meter, START_MS))
        found += [
            RecordFormat.of(descriptor).encode(meter, START_MS + at * HALF_HOUR_MS, 0, int(value))
            for at, value in enumerate(row)
        ]
    return found


@pytest.fixture(scope="module")
def street() -> Street:
    """Ten homes, one day."""
    return Street.simulated(SEED, 10, 1)


@pytest.fixture
def outcome(street: Street, tmp_path: Path) -> Outcome:
    """Every number 100 W too high."""
    return Outcome.of(street, messages(street, tmp_path, np.full((10, 48), 100)))


def test_configuration(tmp_path: Path) -> None:
    """The demo's agent hides what the preset `appliance` does, and speaks what the embedded broker does."""
    found = stream(tmp_path)
    terms = config.terms(found)
    assert (terms.preset, terms.step_ms, int(terms.hides_wh)) == ("appliance", HALF_HOUR_MS, 110)
    assert (found.source.protocol, found.sink.protocol) == ("3.1.1", "3.1.1")


def test_street_messages(street: Street) -> None:
    """A home's messages are its readings in order of time, and the last one again, a step later."""
    mine = [json.loads(payload) for home, payload in street.messages() if home == 3]
    assert [one["t"] * 1000 for one in mine] == [START_MS + at * 300_000 for at in range(289)]
    assert [one["power"] for one in mine] == [*street.watts[3], street.watts[3, -1]]
    assert len(list(street.messages())) == street.readings == 10 * 289


def test_street_order(street: Street) -> None:
    """Homes send side by side: nobody's reading is older than one already sent."""
    times_s = [json.loads(payload)["t"] for _, payload in street.messages()]
    assert times_s == sorted(times_s)


def test_street_same(street: Street) -> None:
    """The first homes and days of a longer street are those of the shorter one."""
    longer = Street.simulated(SEED, 12, 2)
    assert np.array_equal(longer.watts[:10, :288], street.watts)
    assert (longer.homes, longer.days) == (12, 2)


def test_street_means(street: Street) -> None:
    """A slot's truth is the mean of the readings that stand in it."""
    assert street.means_w(HALF_HOUR_MS)[2, 7] == pytest.approx(street.watts[2, 42:48].mean())


def test_outcome_power(outcome: Outcome) -> None:
    """A number and the mean of homes are off by the noise that was added, up to rounding to 1 W."""
    for count in (1, 10):
        power = outcome.power_w(count)
        assert power.true is not None
        assert power.private is not None
        assert power.private - power.true == pytest.approx(100, abs=0.5)
    assert outcome.power_w(1).within == pytest.approx(659.5)
    assert outcome.power_w(10).within == pytest.approx(1.96 * 311.1 / 10**0.5, rel=0.03)


def test_outcome_energy(outcome: Outcome) -> None:
    """A day's energy is off by the sum of its noise: 48 half hours of 100 W are 2.4 kWh."""
    energy = outcome.energy_kwh(10, 1)
    assert energy.true is not None
    assert energy.private is not None
    assert energy.true == pytest.approx(outcome.street.watts.mean() * 0.024)
    assert energy.private - energy.true == pytest.approx(2.4, abs=0.002)


@pytest.mark.parametrize(("count", "days", "kwh"), [(1, 30, 11.57), (1000, 1, 0.0668), (1000, 30, 0.366)])
def test_outcome_promised(outcome: Outcome, count: int, days: int, kwh: float) -> None:
    """What was not simulated is promised only: 1.96 · 0.5 h · 311.1 W · sqrt(48 days / homes)."""
    energy = outcome.energy_kwh(count, days)
    assert (energy.true, energy.private) == (None, None)
    assert energy.within == pytest.approx(kwh, rel=0.01)


def test_outcome_month(tmp_path: Path) -> None:
    """Thirty simulated days are measured, not promised."""
    street = Street.simulated(SEED, 2, 30)
    month = Outcome.of(street, messages(street, tmp_path, np.zeros((2, 1440)))).energy_kwh(1, 30)
    assert month.true == pytest.approx(month.private, abs=0.1)


def test_outcome_middle(outcome: Outcome) -> None:
    """The home shown is the one in the middle by use."""
    use = outcome.street.watts.mean(axis=1)
    assert sorted(use).index(use[outcome.median_index]) == 5


def test_outcome_measures(outcome: Outcome) -> None:
    """Noise of 100 W in every number is found: as typical error, as bias, and never beyond 659 W."""
    assert outcome.spread_w().measured == pytest.approx(100, abs=0.5)
    assert outcome.bias_w().measured == pytest.approx(100, abs=0.5)
    assert outcome.covered().measured == 1


def test_outcome_uncovered(street: Street, tmp_path: Path) -> None:
    """A quarter of the numbers off by 700 W is three quarters within the band."""
    noise = np.where(np.arange(480).reshape(10, 48) % 4 == 0, 700, 0)
    covered = Outcome.of(street, messages(street, tmp_path, noise)).covered()
    assert (covered.promised, covered.measured) == (0.95, 0.75)
    assert covered.error == pytest.approx((0.95 * 0.05 / 480) ** 0.5)


def test_outcome_spread_error(street: Street, tmp_path: Path) -> None:
    """The standard error of the typical error is that of a Laplace law: sd · sqrt(5 / 4N), within a third."""
    noise = np.round(np.random.default_rng(1).laplace(0, 220, (10, 48)))
    spread = Outcome.of(street, messages(street, tmp_path, noise)).spread_w()
    assert spread.error == pytest.approx(311.1 * (5 / 4 / 480) ** 0.5, rel=0.33)


def test_outcome_missing(street: Street, tmp_path: Path) -> None:
    """A slot that is missing, a home that is missing and a value that changes are errors, not gaps."""
    all_of_them = messages(street, tmp_path, np.zeros((10, 48)))
    with pytest.raises(ValueError, match="every slot"):
        Outcome.of(street, all_of_them[:-1])
    with pytest.raises(ValueError, match="homes"):
        Outcome.of(street, all_of_them[49:])
    with pytest.raises(RecordError):
        Outcome.of(street, [*all_of_them, messages(street, tmp_path, np.ones((10, 48)))[1]])


def test_text(outcome: Outcome, promised: Guarantee) -> None:
    """The screen states what is hidden, the errors of numbers, and what is not hidden, as `check` does."""
    shown = text(outcome, promised, 20)
    for event in facts.facts_of(promised)["hidden"]:
        right = [str(number) for number in event["right_of_100"].values()]
        assert re.search(re.escape(event["event"]) + r" +[\d,]+ Wh +" + " +".join(right), shown)
    flat = " ".join(shown.split())
    assert all(text in flat for text in facts.facts_of(promised)["does_not_hide"])
    for promise in ("± 659 W", "± 2.1 kWh", "± 12 kWh", "± 19 W", "± 0.067 kWh", " 311", " 95.0"):
        assert promise in shown


def test_text_for_newcomers(outcome: Outcome, promised: Guarantee) -> None:
    """The screen has no jargon of the trade and fits 100 columns."""
    shown = text(outcome, promised, 20)
    assert not re.search("epsilon|laplace|lattice|quantum|linf|metric|slot mean", shown, re.IGNORECASE)
    assert max(map(len, shown.splitlines())) <= 100


def test_picture(outcome: Outcome, tmp_path: Path) -> None:
    """The picture is a PNG of 1200 by 1080 pixels, and changes with the messages received."""
    draw(outcome, tmp_path / "one.png")
    draw(Outcome(outcome.street, outcome.homes[::-1], outcome.terms), tmp_path / "other.png")
    one, other = (tmp_path / "one.png").read_bytes(), (tmp_path / "other.png").read_bytes()
    assert one[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", one[16:24]) == (1200, 1080)
    assert one != other


@pytest.mark.parametrize("options", [["--homes", "1"], ["--homes", "many"], ["--days", "0"]])
def test_bad_options(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A street of less than two homes, and less than a day, are refused with 2 and what was wrong."""
    with pytest.raises(SystemExit) as ended:
        simulators.main(["demo", *options])
    assert ended.value.code == 2
    assert f"{options[1]} is not a number of" in capsys.readouterr().err


def test_missing_part() -> None:
    """Without a package that it needs the demo ends with 1 and says what to install."""
    code = (
        "import sys; sys.modules['amqtt'] = None; from simulators.__main__ import main; exit(main(['demo']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        done.stderr
        == "demo: amqtt is missing: pip install . './simulators[demo]' in a clone of the repository\n"
    )


def test_unwritable_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that cannot be made ends the demo with 1 and its name, before anything runs."""
    (tmp_path / "file").write_text("")
    assert simulators.main(["demo", "--homes", "2", "--out", str(tmp_path / "file" / "out")]) == 1
    assert "file" in capsys.readouterr().err
