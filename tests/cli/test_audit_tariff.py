"""The audit of windows in l1: energies of bands pass, and noise that breaks their promise is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meteragent.cli import main
from meteragent.cli.exit_codes import EXIT_VIOLATED
from meteragent.core.noise import Noise
from meteragent.core.prices import Prices
from meteragent.core.window import Window
from meteragent.domain.prices import Price
from meteragent.privacy.mechanism.laplace import LInfLaplace
from tests.support.configurations import written

ZONE = "timezone = 'Europe/Amsterdam'"
BANDS = f"{ZONE}\nrest = 'night'\nband = [{{ name = 'day', days = 'mon-fri', hours = ['07/23'] }}]"
WEIGHTS = "{ bound = 0.5, default = 0.3, price = [{ hours = ['07/23'], price = 0.35 }] }"
SETTINGS = {
    "power": written(privacy="preset = 'tariff'", window=BANDS),
    "a register": written(
        privacy="preset = 'tariff'", window=BANDS, source="kind = 'register'\nunit = 'kWh'\ndead_band = 0.001"
    ),
    "amounts": written(
        window=f"{ZONE}\nlength = '1mo'\nweights = {WEIGHTS}",
        privacy="space = 'weighted'\nhide = '110Wh'",
    ),
    "a mean day in l1": written(privacy="preset = 'typical-day'\nmetric = 'l1'", window=ZONE),
}


@pytest.fixture
def checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, set[str]]]:
    """Audits a configuration; returns the exit code and the checks of messages that failed."""

    def audited(text: str, samples: int) -> tuple[int, set[str]]:
        path = tmp_path / "home.toml"
        path.write_text(text)
        code = main(["audit", str(path), "--json", "--samples", str(samples)])
        trials = json.loads(capsys.readouterr().out)["trials"]
        assert all(check["passed"] for trial in trials for check in trial["mechanism"]["checks"])
        return code, {c["name"] for trial in trials for c in trial["messages"]["checks"] if not c["passed"]}

    return audited


@pytest.mark.parametrize("name", SETTINGS)
def test_windows_in_l1_pass(name: str, checks: Callable[..., tuple[int, set[str]]]) -> None:
    """From readings to messages each slot has the law of one dimension, whatever the device states."""
    assert checks(SETTINGS[name], 200) == (0, set())


def test_one_noise_for_all_bands_is_refused(
    checks: Callable[..., tuple[int, set[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bands that share their noise are windows in succession that are not independent."""

    def begin(self: Window, noise: Noise, integrated_until_ms: int) -> None:
        _, drawn = noise.draw_window(self.terms_id, self.terms.mechanism)
        while self.draws < self.terms.n:
            self.open_slot(drawn, integrated_until_ms, noise.draw_dither(self.terms, self.draws))

    monkeypatch.setattr(Window, "open_first_slot", begin)
    code, failed = checks(SETTINGS["power"], 1000)
    assert code == EXIT_VIOLATED
    assert "law: windows in succession, from 0" in failed


def test_linf_that_is_claimed_for_independent_noise_is_refused(
    checks: Callable[..., tuple[int, set[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four bands with a noise bound each are not eps d_inf-private, and their law shows it."""

    def open_next(self: Window, noise: Noise, integrated_until_ms: int) -> None:
        one = LInfLaplace(self.terms.epsilon, self.terms.quantum, 1)
        self.noise_bound = one.draw_noise_bound(noise.bits)
        drawn = one.draw_slot(self.noise_bound, noise.bits)
        self.open_slot(drawn, integrated_until_ms, noise.draw_dither(self.terms, self.draws))

    monkeypatch.setattr(Window, "open_next_slot", open_next)
    code, failed = checks(written(privacy="preset = 'typical-day'", window=ZONE), 1000)
    assert code == EXIT_VIOLATED
    assert any(name.startswith("law:") for name in failed)


def test_prices_beyond_their_bound_are_refused(
    checks: Callable[..., tuple[int, set[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise is adapted to the bound: where a price is twice as large, an amount moves twice as far."""
    pieces = Prices.priced_pieces

    def doubled(*arguments: Any) -> list[Price]:
        return [(start_ms, end_ms, 2 * price_u) for start_ms, end_ms, price_u in pieces(*arguments)]

    monkeypatch.setattr(Prices, "priced_pieces", doubled)
    code, failed = checks(SETTINGS["amounts"], 200)
    assert code == EXIT_VIOLATED
    assert "same noise for any window" in failed
