"""Wrong readings of a register among right ones: what docs/signs.md says that they cost."""

from collections.abc import Sequence
from fractions import Fraction

import pytest

from meteragent.core.pending import Pending
from meteragent.core.register import RegisterTimeline
from meteragent.domain.terms import Terms
from meteragent.domain.units import MICRO
from tests.core.test_register import REGISTER, opened
from tests.support.not_run import ROOT
from tests.support.terms import terms_with

HOUR_MS = 3_600_000
HALF_HOUR: Terms = terms_with(
    REGISTER, interval_ms=HOUR_MS, high_u=20_000 * MICRO, length_ms=HOUR_MS // 2, step_ms=HOUR_MS // 2
)
LOAD_W = 1000
SIGNS = (ROOT / "docs/signs.md").read_text("utf-8")


def read(every_ms: int, glitch_wh: int) -> tuple[float, Sequence[str]]:
    """Return what a half hour at 1 kW uses according to a register with one wrong reading, and the counts."""
    meter = RegisterTimeline(HALF_HOUR, 0)
    meter.windows, meter.next_ms = [opened(HALF_HOUR)], HALF_HOUR.length_ms
    for time_ms in range(0, HALF_HOUR.length_ms + 1, every_ms):
        register_wh = Fraction(LOAD_W * time_ms, HOUR_MS) + 5000 + glitch_wh * (time_ms == 600_000)
        meter.accept_reading(Pending(time_ms, int(register_wh * MICRO), str(time_ms)))
        meter.integrate_to_watermark(HALF_HOUR.length_ms)
    meter.integrate_until(HALF_HOUR.length_ms)
    (energy,) = meter.windows[0].slots.values()
    return float(Fraction(energy, HOUR_MS * MICRO)), meter.take_counts()


@pytest.mark.parametrize("every_ms", [10_000, 60_000, 300_000])
@pytest.mark.parametrize("glitch_wh", [-100, -500, -5000, 4000, 100_000])
def test_a_wrong_reading_costs_nothing(every_ms: int, glitch_wh: int) -> None:
    """A fall, or a rise above the range: it is dropped and counted."""
    used_wh, counts = read(every_ms, glitch_wh)
    assert used_wh == pytest.approx(LOAD_W / 2)
    assert counts == ["register_glitch"]
    assert "`register_glitch`" in SIGNS


def test_a_rise_within_the_range_cannot_be_told_from_a_load() -> None:
    """It counts, and the fall from it is a reset, whose span is a gap."""
    used_wh, counts = read(10_000, 50)
    assert round(used_wh - LOAD_W / 2) == 47
    assert counts == ["register_reset"]
    assert "47 Wh" in SIGNS
