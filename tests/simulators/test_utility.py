"""`python -m simulators utility`: errors as they are, beside what was promised."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from meteragent.consume import collect, mean_value
from meteragent.domain.units import DAY_MS
from meteragent.privacy import SeededBits, half_width
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from simulators.__main__ import main
from simulators.commands.arguments import WITHIN_A_DAY
from simulators.commands.utility import Street, _sums, report
from simulators.utility.row import Row
from tests.support.messages import SPLIT

SMALL = ["utility", "--homes", "2", "--days", "1"]


@pytest.fixture(scope="module")
def street() -> Street:
    """A few homes for a few days."""
    return Street.of("appliance", 12, 8, 0)


@pytest.fixture(scope="module")
def rows(street: Street) -> dict[tuple[str, int], Row]:
    """The report by use and homes."""
    return {(row.quantity, row.homes): row for row in report(street)}


def test_it_has_a_row_for_each_use(rows: dict[tuple[str, int], Row]) -> None:
    """One home's number and day, feeders of 1 and 10 of 12 homes, their peaks; no month of 8 days."""
    assert list(rows) == [
        ("a home, 30min", 1),
        ("a home, day", 1),
        *(("feeder, 30min", size) for size in (1, 10)),
        *((what, size) for size in (1, 10) for what in ("peak, 30min", "largest mean, 30min")),
    ]
    assert [row.count for row in rows.values()] == [12 * 8 * 48, 12 * 8, 12 * 8 * 48, 8 * 48, 84, 84, 7, 7]


def test_errors_are_what_left_less_what_was(street: Street, rows: dict[tuple[str, int], Row]) -> None:
    """By hand: of numbers, of days in kWh, of the mean of ten homes; 95 of 100 are within `measured`."""
    private = street.released * float(street.described.terms.mechanism.quantum)
    off = private - street.true_w
    expected = {
        ("a home, 30min", 1): off.ravel(),
        ("a home, day", 1): np.array([day.sum() / 2000 for home in off for day in home]),
        ("feeder, 30min", 10): sum(off[home] for home in range(10)).ravel() / 10,
    }
    for key, errors in expected.items():
        row = rows[key]
        assert row.count == errors.size
        assert row.bias == pytest.approx(errors.mean())
        assert np.mean(np.abs(errors) <= row.measured) == pytest.approx(0.95, abs=1 / errors.size)
        assert row.held == pytest.approx(np.mean(np.abs(errors) <= (row.promised or 0)))
    assert rows["a home, 30min", 1].use == pytest.approx(street.true_w.mean())
    assert rows["a home, day", 1].use == pytest.approx(24 * street.true_w.mean() / 1000)


def test_truth_is_inside_as_often_as_promised(rows: dict[tuple[str, int], Row]) -> None:
    """Of 4,608 numbers 95 of 100, to 5 standard errors: a scale 10% off would be seen. No bias beyond 5."""
    row = rows["a home, 30min", 1]
    assert row.held == pytest.approx(0.95, abs=5 * math.sqrt(0.95 * 0.05 / row.count))
    assert row.measured == pytest.approx(row.promised, rel=0.08)
    assert abs(row.bias) < 5 * row.measured / math.sqrt(row.count)
    assert all((one.held or 0) > 0.9 for key, one in rows.items() if key[0] == "peak, 30min")


@pytest.mark.parametrize("preset", WITHIN_A_DAY)
def test_promises_are_those_that_a_receiver_is_told(preset: str) -> None:
    """The half width of a number, a day, and a mean of two homes, as `consume` tells them."""
    street = Street.of(preset, 2, 1, 0)
    half = half_width(street.described.terms.mechanism, 0.95, "dithered")
    assert street.promised(1, None) == pytest.approx(half, rel=1e-3)
    agrees_with_consume(street)


def test_slots_of_one_window_are_promised_together() -> None:
    """Where a window has three slots, which share a radius, a day is promised by windows, not by slots."""
    generator = np.random.default_rng(0)
    left = generator.integers(-500, 500, (2, 1, 144))
    agrees_with_consume(Street(describe_terms(SPLIT), np.zeros(left.shape), left))


def agrees_with_consume(street: Street) -> None:
    """What two homes' first day is promised is what a receiver makes of the descriptor."""
    homes = [street.series(home, 0) for home in range(2)]
    number, day, both = homes[0].value(0), homes[0].energy(0, DAY_MS), mean_value(homes, 0)
    assert street.promised(1, None) == pytest.approx(number.high - number.value, rel=1e-3)
    assert street.promised(1, 1) == pytest.approx(day.high - day.value, rel=1e-4)
    assert street.promised(2, None) == pytest.approx(both.high - both.value, rel=1e-3)
    assert day.value == pytest.approx(street.private_w[0, 0].sum() * street.kwh)


def test_homes_and_noise_follow_from_the_seed() -> None:
    """Another seed has other homes, and other noise."""
    one, other = Street.of("appliance", 1, 1, 0), Street.of("appliance", 1, 1, 1)
    noises = [np.rint(street.private_w - street.true_w).tolist() for street in (one, other)]
    assert one.true_w.tolist() != other.true_w.tolist()
    assert noises[0] != noises[1]
    fresh = one.described.terms.mechanism.release(np.zeros((1, 48, 1), int), bits=SeededBits(1))
    assert np.rint(other.private_w - other.true_w).ravel() == pytest.approx(fresh.ravel(), abs=1)


def test_months_are_counted_from_the_first_day() -> None:
    """Of eight days two stretches of three are the first six."""
    watts = np.arange(16.0).reshape(1, 8, 2)
    assert _sums(watts, 3, 2).tolist() == [[sum(range(6)), sum(range(6, 12))]]


def test_a_receiver_s_series_is_that_of_the_agent_s_messages(street: Street) -> None:
    """The records that the peak is told from are those that the agent would have sent, and at their time."""
    shared = street.described
    sent = [
        RecordFormat.of(shared).encode("home-3", 2 * DAY_MS + at * shared.terms.length_ms, 0, value)
        for at, value in enumerate(street.released[3, 2].tolist())
    ]
    assert collect([shared.encode_message("home-3", 0), *sent])["home-3"] == street.series(3, 2)


def test_the_peak_is_less_biased_than_the_largest_mean(rows: dict[tuple[str, int], Row]) -> None:
    """One home: picking the largest of 48 noisy numbers is too high, the peak by much less."""
    told, largest = rows["peak, 30min", 1], rows["largest mean, 30min", 1]
    assert (largest.promised, largest.held) == (None, None)
    assert told.use == largest.use
    assert largest.bias > 100
    assert abs(told.bias) < largest.bias


def test_the_report_repeats_from_a_seed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The same seed gives the same JSON and picture, another seed other numbers; 0 is a seed."""
    said: list[str] = []
    plots = [tmp_path / "a.png", tmp_path / "b.png"]
    for rest in (["--plot", str(plots[0])], ["--seed", "0", "--plot", str(plots[1])], ["--seed", "1"]):
        assert main([*SMALL, "--json", *rest]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != said[2]
    assert plots[0].read_bytes() == plots[1].read_bytes()
    found = json.loads(said[0])
    assert (found["preset"], found["homes"], found["days"], found["seed"]) == ("appliance", 2, 1, 0)
    assert main(SMALL) == 0
    table = capsys.readouterr().out
    assert table.startswith("Preset appliance, simulated homes: 2, days: 1, seed 0")
    for row in found["rows"]:
        assert f"| {row['what']} | {row['homes']} | " in table


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (["--preset", "kitchen"], "kitchen"),
        (["--plot", "p.gif"], "a plot is a .pdf or .png"),
        (["--plot", "no/such/folder/p.png"], "No such file"),
    ],
)
def test_what_cannot_be_ends_with_2(wrong: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A preset that is not there, a file that cannot be written: said, with exit code 2."""
    assert main([*SMALL, *wrong]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--homes", "0"], ["--days", "x"], ["--seed", "18446744073709551616"]])
def test_numbers_that_cannot_be_are_refused(wrong: list[str]) -> None:
    """Homes and days are above 0, a seed has 64 bits."""
    with pytest.raises(SystemExit):
        main(["utility", *wrong])
