"""What `check` says of tariffs before the run: errors of a month's cost, and recognised differences."""

import json
import math
import re
from pathlib import Path

import pytest

from meteragent import config
from meteragent.cli import main
from meteragent.report import facts, markdown, terminal, whole
from meteragent.report.guarantee import Guarantee
from tests.support.tariffs import REGISTER, text_of_bands

FLAT = "[[tariff]]\nname = 'flat'\nprices = { day = 0.3, weekend = 0.3, night = 0.3 }\nfee = 9.5\n"
NIGHT = "[[tariff]]\nname = 'night'\nprices = { day = 0.34, weekend = 0.34, night = 0.22 }\n"
EXACT = "hold = '60s'\nevery = '0s'\ndead_band = 0"
"""Power that is sent at each change."""
SD_KWH = math.sqrt(2)
"""The error of a band that hides 1 kWh at level 1, off the lattice."""
UNKNOWN = "Energy whose band is unknown"


def promised(text: str) -> Guarantee:
    """The guarantee of the first stream of a configuration, with its tariffs."""
    settings = config.parse(text)
    return whole.compute_whole_guarantee(settings, settings.stream[0], ())


def test_the_error_of_a_month_s_cost_is_that_of_its_bands_at_their_prices() -> None:
    """Three bands at 0.30: 0.73 EUR; its interval is that of three Laplace numbers, 2.05 errors."""
    errors = promised(text_of_bands(more=FLAT + NIGHT)).tariffs
    assert errors is not None
    flat, night = errors.costs
    assert (flat.tariff, night.tariff, errors.windows, errors.currency) == ("flat", "night", 1, "EUR")
    assert flat.sd == pytest.approx(0.30 * math.sqrt(3) * SD_KWH, rel=1e-3)
    assert night.sd == pytest.approx(math.hypot(0.34, 0.34, 0.22) * SD_KWH, rel=1e-3)
    # P(|sum| > 3 b x) of three Laplace numbers is e^-y (1 + 9y/16 + y^2/16 ..): solved by bisection here.
    low, high = 0.0, 20.0
    for _ in range(60):
        y = (low + high) / 2
        beyond = math.exp(-y) * (8 + 5 * y + y * y) / 8
        low, high = (y, high) if beyond > 0.05 else (low, y)
    assert flat.ci95 == pytest.approx(0.30 * high, rel=1e-3)


def test_a_difference_is_recognised_from_twice_its_quantile_on() -> None:
    """Tariffs that differ in one band: the chance of an error above x is e^(-x/b) / 2."""
    second = FLAT.replace("'flat'", "'second'").replace("night = 0.3", "night = 0.4")
    [pair] = promised(text_of_bands(more=FLAT + second)).tariffs.pairs  # type: ignore[union-attr]
    assert pair.tariffs == ("flat", "second")
    assert pair.recognised == pytest.approx(2 * 0.1 * math.log(0.5 / 0.05), rel=2e-3)
    fee = FLAT.replace("'flat'", "'fee'").replace("9.5", "9")
    [pair] = promised(text_of_bands(more=FLAT + fee)).tariffs.pairs  # type: ignore[union-attr]
    assert pair.recognised == 0


@pytest.mark.parametrize(("length", "counts"), [("1w", (4, 4, 4)), ("1d", (22, 8, 30))])
def test_shorter_windows_add_up_to_a_month(length: str, counts: tuple[int, int, int]) -> None:
    """Four weeks, or 30 days in which each band counts as often as it occurs."""
    errors = promised(text_of_bands(length=length, more=NIGHT)).tariffs
    assert errors is not None
    prices = (0.34, 0.34, 0.22)
    variance = sum(count * price**2 for count, price in zip(counts, prices, strict=True))
    assert errors.costs[0].sd == pytest.approx(math.sqrt(variance) * SD_KWH, rel=1e-3)


def test_energy_of_an_unknown_band_counts_at_the_highest_price() -> None:
    """A register has a fourth band; a note says that it widens intervals, unless each tariff prices it."""
    text = text_of_bands(source=REGISTER, more=NIGHT)
    errors = promised(text).tariffs
    assert errors is not None
    assert errors.costs[0].sd == pytest.approx(math.hypot(0.34, 0.34, 0.22, 0.34) * SD_KWH, rel=1e-3)
    assert UNKNOWN in terminal.guarantees_text([promised(text)], config.parse(text))
    priced = text.replace("night = 0.22", "night = 0.22, unknown = 0.1")
    assert UNKNOWN not in terminal.guarantees_text([promised(priced)], config.parse(priced))
    errors = promised(priced).tariffs
    assert errors is not None
    assert errors.costs[0].sd == pytest.approx(math.hypot(0.34, 0.34, 0.22, 0.1) * SD_KWH, rel=1e-3)


def test_check_prints_it_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each tariff and each pair, before the run; the statement has the same."""
    file = tmp_path / "home.toml"
    file.write_text(text_of_bands(source=EXACT, more=FLAT + NIGHT))
    assert main(["check", str(file)]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^  tariff flat +0\.735 EUR \(95% within ± 1\.\d+ EUR\)$", text, re.MULTILINE)
    assert re.search(
        r"^  flat or night +distinguishable if they differ by at least 0\.\d+ EUR a month$",
        text,
        re.MULTILINE,
    )
    assert "A month is one window." in text
    long_name = "a rather long name of a tariff"
    file.write_text(file.read_text().replace("'flat'", f"'{long_name}'"))
    assert main(["check", str(file)]) == 0
    assert f"{long_name} or night  distinguishable" in capsys.readouterr().out
    file.write_text(file.read_text().replace(f"'{long_name}'", "'flat'"))
    page = markdown.statement_text(config.load(file))
    assert "- tariff flat: 0.735 EUR (95% within ± 1." in page
    assert "- flat or night: distinguishable if they differ by at least " in page


def test_the_facts_have_the_same_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON; without tariffs there is no such fact."""
    file = tmp_path / "home.toml"
    file.write_text(text_of_bands(source=EXACT, more=FLAT + NIGHT))
    assert main(["check", "--json", str(file)]) == 0
    [stream] = json.loads(capsys.readouterr().out)["streams"]
    known = promised(file.read_text()).tariffs
    assert known is not None
    assert stream["tariffs"]["costs"] == [cost._asdict() for cost in known.costs]
    assert stream["tariffs"]["pairs"] == [
        {"tariffs": ["flat", "night"], "recognised": known.pairs[0].recognised}
    ]
    assert "tariffs" not in facts.facts_of(promised(text_of_bands()))
    assert "tariff" not in terminal.guarantees_text(
        [promised(text_of_bands())], config.parse(text_of_bands())
    )
