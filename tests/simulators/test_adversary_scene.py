"""Scenes: what is asked of attackers, made by a seed or cut from real traces."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

from meteragent.report.event import EVENTS
from simulators.adversary import library
from simulators.adversary.named import Unusable
from simulators.adversary.scene import Scene, with_or_without
from simulators.adversary.scene import library as one_each

W = Fraction(1)
KETTLE = library.event_named("kettle")


def test_points_are_windows_of_slots() -> None:
    """A scene knows its classes, windows and slots, and how often a guess is right."""
    scene = Scene("?", np.zeros((4, 2, 3), int), [0, 0, 0, 1], W)
    assert (scene.classes, scene.windows, scene.slots, scene.guess) == (2, 2, 3, 0.75)
    assert not scene.is_paired


@pytest.mark.parametrize(
    ("points", "labels", "error", "text"),
    [
        (np.zeros((2, 1, 1)), [0, 1], TypeError, "whole quanta"),
        (np.zeros((2, 1), int), [0, 1], ValueError, "shape"),
        (np.zeros((2, 0, 1), int), [0, 1], ValueError, "shape"),
        (np.zeros((2, 1, 1), int), [0, 1, 1], ValueError, "a label for each"),
        (np.zeros((2, 1, 1), int), [0, 0], ValueError, "at least two"),
        (np.zeros((2, 1, 1), int), [0, 2], ValueError, "each of them used"),
        (np.zeros((2, 1, 1), int), [1, 2], ValueError, "0 .. C-1"),
    ],
)
def test_what_is_no_scene_is_refused(points: ArrayLike, labels: list[int], error: type, text: str) -> None:
    """Points that are not windows of whole quanta, and labels that skip a class, are named."""
    with pytest.raises(error, match=text):
        Scene("?", points, labels, W)


def test_distances_of_windows_add() -> None:
    """The distance of two points is the sum over their windows of d_inf."""
    scene = Scene("?", [[[0, 5], [1, 1]], [[3, 4], [1, -6]]], [0, 1], W)
    assert scene.distances().tolist() == [[0, 10], [10, 0]]


def test_a_library_has_a_class_for_each_signature() -> None:
    """Each signature is a class of one point, and is the same in each of the windows."""
    scene = one_each("?", [[1, 2], [3, 4], [5, 6]], W, times=2)
    assert scene.labels.tolist() == [0, 1, 2]
    assert scene.points[1].tolist() == [[3, 4], [3, 4]]
    assert scene.guess == pytest.approx(1 / 3)


def test_with_or_without_is_paired() -> None:
    """The loads without the event are the first half, the same loads with it the second."""
    scene = with_or_without("?", [[[1]], [[2]]], [[[10]], [[20]]], W)
    assert scene.is_paired
    assert scene.points.ravel().tolist() == [1, 2, 11, 22]


def test_points_are_played_in_turn() -> None:
    """Every point is played as often as any other, but for one."""
    scene = one_each("?", [[1], [2], [3]], W)
    assert np.bincount(scene.play(11)).tolist() == [4, 4, 3]


@pytest.mark.parametrize("watts", [0.5, 1.49, -0.5, 2.5])
def test_watts_are_rounded_as_the_agent_rounds(watts: float) -> None:
    """A value becomes floor(x/q + 1/2) quanta, never half to even."""
    assert library.quanta(np.array([watts]))[0] == np.floor(watts + 0.5)
    assert library.quanta(np.array([watts]), Fraction(1, 10))[0] == round(watts * 10)


# Made by a seed -----------------------------------------------------------------------------------


def test_programmes_follow_from_the_seed() -> None:
    """A seed, also 0, makes the same programmes; another one makes others."""
    one, again, other = (library.programmes(5, 6, seed).points for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert one.shape == (5, 1, 6)
    assert len({point.tobytes() for point in one}) == 5


def test_an_event_moves_its_energy() -> None:
    """With and without a kettle, the half hour of every home differs by 110 Wh, to a quantum a slot."""
    scene = library.presence(KETTLE, homes=8, slots=30, seed=0)
    without, with_it = np.split(scene.points, 2)
    moved = (with_it - without)[:, 0]
    assert (moved.sum(axis=1) == 3 * 2200).all()
    assert ((moved != 0).sum(axis=1) == 3).all()
    assert len({row.tobytes() for row in moved}) > 1


def test_a_long_event_fills_the_half_hour() -> None:
    """Eight hours away move each slot of a half hour alike."""
    scene = library.presence(library.event_named("8 h away"), homes=3, slots=2, seed=0)
    assert (np.subtract(*np.split(scene.points, 2)) == -250).all()


def test_the_same_half_hour_may_leave_again() -> None:
    """Released three times, each point is three times the same window."""
    scene = library.presence(KETTLE, homes=2, slots=1, seed=0, times=3)
    assert scene.windows == 3
    assert (scene.points == scene.points[:, :1]).all()


@pytest.mark.parametrize("slots", [0, 7, 60])
def test_slots_divide_the_half_hour(slots: int) -> None:
    """Slots that are not whole minutes of a half hour are refused, and the right ones named."""
    with pytest.raises(Unusable, match="1, 2, 3, 5"):
        library.presence(KETTLE, homes=1, slots=slots, seed=0)


def test_an_event_has_a_name_that_check_prints() -> None:
    """Another name is refused with those that there are."""
    assert library.event_named("kettle") in EVENTS
    with pytest.raises(Unusable, match="a washing machine"):
        library.event_named("sauna")


# Cut from real traces -----------------------------------------------------------------------------


def test_real_programmes_are_windows_of_sets_that_are_on(data: Path) -> None:
    """Windows of tracebase's sets: on, in movement, without a gap, each another one."""
    scene = library.programmes(60, 30, 0, data=data)
    points = scene.points[:, 0]
    assert points.min() >= 20
    assert points.max() <= 400
    assert points.std(axis=1).min() > 2.9
    assert len({row.tobytes() for row in points}) == 60
    with pytest.raises(Unusable, match="windows of television; 100000 are needed"):
        library.programmes(100_000, 30, 0, data=data)


def test_a_reading_stands_for_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means by sample and hold; a window with a gap of more than 30 s is left out."""
    times_s = np.array([0, 5, 10, 40, 45, 100, 110, 119, 121], np.float64)
    watts = np.array([10, 30, 50, 60, 70, 80, 90, 100, 0], np.float64)
    monkeypatch.setattr(library, "_load_trace", lambda path: (times_s, watts))
    # Windows of two slots: 0-20, 20-40, 40-60, then a gap, 60-80, 80-100, 100-120.
    expected = [[20, 50], [50, 50], [65, 70], [80, 91]]
    assert library._load_windows(Path("trace"), 2).tolist() == expected


def test_a_home_of_ones_own_is_a_file(tmp_path: Path) -> None:
    """A CSV file as other programs write it is a trace, in kW, with semicolons and decimal commas."""
    minutes = np.datetime64("2026-03-02T00:00:00") + np.arange(3 * 1440 + 7) * np.timedelta64(60, "s")
    rows = [f"{str(time).replace('T', ' ')};0,{100 + index % 800}" for index, time in enumerate(minutes)]
    own = tmp_path / "own.csv"
    own.write_text("\n".join(["Zeit;Leistung [kW]", *rows, ""]))
    days = library.real_days(own, 3)
    expected = 100 + np.arange(3 * 1440) % 800
    assert np.array_equal(days.reshape(-1), expected)
    with pytest.raises(Unusable, match="3 whole stretches of 1 day; 4 are needed"):
        library.presence(library.event_named("kettle"), 4, 1, 0, data=own)


def test_real_homes_are_whole_days(data: Path) -> None:
    """Days by the minute, of both homes; more than there are is refused."""
    days = library.real_days(data, 6, 2)
    assert days.shape == (6, 2, 1440)
    assert (days.mean(axis=(1, 2)) > 20).all()
    assert not np.array_equal(days[0], days[-1])
    with pytest.raises(Unusable, match="stretches of 2 days"):
        library.real_days(data, 1000, 2)
