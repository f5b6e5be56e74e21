"""One wrong reading of a register between two right ones: what docs/signs.md says that it costs."""

from dataclasses import replace
from fractions import Fraction

import pytest

from meteragent.core.register import RegisterTimeline
from meteragent.core.timeline import Pending
from meteragent.domain.terms import Terms
from meteragent.domain.units import MICRO
from tests.core.test_register import REGISTER, opened
from tests.support.not_run import ROOT

HOUR_MS = 3_600_000
HALF_HOUR: Terms = replace(
    REGISTER, interval_ms=HOUR_MS, high_u=20_000 * MICRO, length_ms=HOUR_MS // 2, step_ms=HOUR_MS // 2
)
LOAD_W = 1000
SIGNS = (ROOT / "docs/signs.md").read_text("utf-8")


def read(every_ms: int, glitch_wh: int) -> tuple[float, list[str]]:
    """Return what a half hour at 1 kW uses according to a register with one wrong reading, and the counts."""
    meter = RegisterTimeline(HALF_HOUR, 0)
    meter.windows, meter.next_ms = [opened(HALF_HOUR)], HALF_HOUR.length_ms
    for time_ms in range(0, HALF_HOUR.length_ms + 1, every_ms):
        register_wh = Fraction(LOAD_W * time_ms, HOUR_MS) + 5000 + glitch_wh * (time_ms == 600_000)
        meter.accept(Pending(time_ms, int(register_wh * MICRO), str(time_ms)))
        meter.integrate_to_watermark(HALF_HOUR.length_ms)
    (energy,) = meter.windows[0].slots.values()
    return float(Fraction(energy, HOUR_MS * MICRO)), meter.counts()


@pytest.mark.parametrize(("every_ms", "glitch_wh", "more_wh"), [(10_000, 50, 47), (60_000, 50, 33)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_single_wrong_reading_adds_what_the_runbook_says(
    every_ms: int, glitch_wh: int, more_wh: int, sign: int
) -> None:
    """Above or below: it is counted as a reset, and its rise counts; the fall after or before it is a gap."""
    used_wh, counts = read(every_ms, sign * glitch_wh)
    assert round(used_wh - LOAD_W / 2) == more_wh
    assert counts == ["register_reset"]
    assert f"{more_wh} Wh" in SIGNS


@pytest.mark.parametrize("glitch_wh", [500, -500, 100_000, -4000])
def test_a_large_one_adds_no_more_than_the_range_allows(glitch_wh: int) -> None:
    """The rise is clamped to the range for the time of one reading, and this is counted, too."""
    used_wh, counts = read(10_000, glitch_wh)
    limit_wh = HALF_HOUR.high_u / MICRO * 10_000 / HOUR_MS
    assert 0 < used_wh - LOAD_W / 2 < limit_wh < 56
    assert sorted(counts) == ["clamped", "register_reset"]
    assert "56 Wh" in SIGNS
