"""The figures of `check` before the attackers: what is played, and what is said of it."""

from fractions import Fraction

import numpy as np
import pytest

from meteragent import config
from meteragent.privacy.statistics import clopper_pearson
from meteragent.report import guarantee
from meteragent.report.event import EVENTS, Event, window_distances
from simulators.adversary import hidden
from simulators.adversary.measure import ALARM
from simulators.adversary.named import Unusable
from simulators.adversary.scene import Floats, Scene
from simulators.commands.arguments import WITHIN_A_DAY
from tests.support.guarantees import facts_of


def loads(homes: int) -> Floats:
    """Homes of whole watts that change every minute."""
    return np.random.default_rng(0).integers(80, 900, (homes, hidden.DAYS, 1440)).astype(np.float64)


def moved(event: Event, days: int, preset: str) -> Scene:
    """One home with and without an event."""
    return hidden._scene(event, days, config.terms(hidden.stream_of(preset)), loads(1)[0])


@pytest.mark.parametrize("preset", WITHIN_A_DAY)
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_what_is_played_is_what_check_speaks_of(event: Event, preset: str) -> None:
    """An event moves its windows by the distances of the worst way to lie on the grid, to a quantum."""
    terms = config.terms(hidden.stream_of(preset))
    scene = moved(event, 1, preset)
    assert scene.is_paired
    found = sorted(np.abs(np.subtract(*np.split(scene.points, 2))).max(axis=(0, 2)), reverse=True)
    played = [Fraction(int(k)) * terms.quantum for k in found]
    ways = [way for way in window_distances(event, terms) if len(way) == len(played)]
    assert any(all(abs(one - d) <= terms.quantum for one, d in zip(played, way, strict=True)) for way in ways)


def test_a_daily_event_moves_as_many_days() -> None:
    """A kettle on 14 days is in 14 half hours, each moved alike; all other windows are left out."""
    scene = moved(EVENTS[1], 14, "appliance")
    assert scene.points.shape == (2, 14, 1)
    assert (np.diff(scene.points, axis=0) == 220).all()


@pytest.mark.parametrize("preset", ["bill", "typical-day", "nothing", '"'])
def test_only_windows_that_divide_a_day(preset: str) -> None:
    """Months, mean days, and presets that there are not, are refused with a text."""
    with pytest.raises(Unusable, match=r"divide a day|expected one of|preset"):
        hidden.stream_of(preset)


def test_every_row_of_check_has_its_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event and each number of days of `check` once, with what it says there."""
    monkeypatch.setattr(guarantee, "REPETITIONS", (1, 2))
    stream = hidden.stream_of("street")
    rows = hidden.confirm(stream, loads(2), ["bayes"], 8, 0)
    said = facts_of(stream)["hidden"]
    expected = [(one["event"], int(d), most) for one in said for d, most in one["right_of_100"].items()]
    assert [(row.event, row.days, row.claimed) for row in rows] == expected
    assert rows == hidden.confirm(stream, loads(2), ["bayes"], 8, 0)
    assert rows != hidden.confirm(stream, loads(2), ["bayes"], 8, 1)
    assert all(row.low <= row.rate <= row.high for row in rows)
    text = hidden.table(rows, "street", "2 homes", 8, 0)
    assert text.count("\n") == len(rows) + 3
    assert "more than claimed" not in text


def test_more_than_said_is_marked() -> None:
    """A rate that is surely above what `check` says is not confirmed, and the table says so."""
    row = hidden.Row.of("a kettle", 1, 70, {"edges": 500, "bayes": 800}, 1000)
    assert not row.is_confirmed
    assert (row.worst, row.rate) == ("bayes", 0.8)
    assert "**more than claimed**" in hidden.table([row], "appliance", "1 home", 1000, 0)


def test_what_may_be_chance_is_no_refutation() -> None:
    """Right in 73.5 of 100 where 70 is said: above 95%'s interval, no proof."""
    row = hidden.Row.of("a kettle", 1, 70, {"bayes": 735}, 1000)
    assert row.low > 0.7
    assert row.is_confirmed
    low, high = clopper_pearson(735, 1000, ALARM / 2)
    both = hidden.Row.of("a kettle", 1, 70, {"bayes": 735, "edges": 1}, 1000)
    assert (both.low, both.high) == (float(low), float(high))


def test_the_best_attacker_is_reported() -> None:
    """Of several, the row is that of the one that was right most often."""
    stream = hidden.stream_of("appliance")
    rows = hidden.confirm(stream, loads(1), ["edges", "bayes"], 100, 0)
    assert rows[3].worst == "bayes"  # a kettle once: a single value has no edge
