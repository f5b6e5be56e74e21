"""Resets and rollovers of registers (simulators.homes.reset)."""

import numpy as np
import pytest

from meteragent.domain.units import DAY_MS, HOUR_MS
from simulators.homes.meter import Meter, Readings
from simulators.homes.reset import Resets

SENT_MS = np.arange(24 * 200, dtype=np.int64) * HOUR_MS + 20_000 * DAY_MS


def register(start_wh: float = 0.0) -> Readings:
    """A home of 500 W for 200 days, read every hour, that has not rolled over yet."""
    watts = np.full(len(SENT_MS), 500.0)
    return Meter(rollover_wh=1e12).register(watts, int(SENT_MS[0]), 3600, start_wh)


def test_energy_is_kept_but_where_it_was_struck() -> None:
    """Between two readings of which none is struck, the register rises by what was used."""
    shown, rows = Resets(reset=0.05, rollover_wh=1e5).strike(0, 7, SENT_MS, register())
    struck = {row.sent_ms for row in rows}
    rises = np.diff(shown.values)
    whole = np.array([ms not in struck for ms in SENT_MS[1:].tolist()])
    assert (rises[whole] == 500).all()
    assert ((shown.values >= 0) & (shown.values < 1e5)).all()


def test_every_fault_is_in_the_ground_truth() -> None:
    """A reset shows the use since the previous reading, a rollover the amount past the modulus."""
    shown, rows = Resets(reset=0.05, rollover_wh=1e5).strike(0, 7, SENT_MS, register())
    at = {int(ms): place for place, ms in enumerate(SENT_MS)}
    resets = [at[row.sent_ms] for row in rows if row.fault == "reset"]
    rolled = [at[row.sent_ms] for row in rows if row.fault == "rollover"]
    assert 3 <= len(resets) <= 25  # of 200 days at 0.05: outside with a chance below 1e-3, for a fixed seed
    assert rolled
    assert (shown.values[resets] == 500).all()
    assert all(shown.values[i] == shown.values[i - 1] + 500 - 1e5 for i in rolled)
    falls = set((np.flatnonzero(np.diff(shown.values) < 0) + 1).tolist())
    assert falls == {*resets, *rolled}


def test_the_same_whatever_the_batch() -> None:
    """A day's reset does not depend on what else is looked at; another seed has others."""
    _, rows = Resets(reset=0.05).strike(0, 7, SENT_MS, register())
    half = len(SENT_MS) // 2
    later = Readings(register().times_ms[half:], register().values[half:])
    _, some = Resets(reset=0.05).strike(0, 7, SENT_MS[half:], later)
    assert some == [row for row in rows if row.sent_ms > SENT_MS[half]]
    assert Resets(reset=0.05).strike(1, 7, SENT_MS, register())[1] != rows
    assert Resets(reset=0.0).strike(0, 7, SENT_MS, register())[1] == []


def test_what_makes_no_register_is_refused() -> None:
    """A chance beyond 1, a rollover at 0, and a register that has rolled over before are refused."""
    for wrong in ({"reset": 1.5}, {"rollover_wh": 0.0}):
        with pytest.raises(ValueError, match="must be a probability"):
            Resets(**wrong)
    with pytest.raises(ValueError, match="already rolled over"):
        Resets().strike(0, 1, SENT_MS[:2], Readings(SENT_MS[:2], np.array([5.0, 1.0])))
