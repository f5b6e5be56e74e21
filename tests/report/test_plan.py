"""Planning backwards: from any two of what to hide, what to share and at what error, the third."""

import math
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.domain.shapes import SHAPES
from meteragent.report import plan
from meteragent.report.event import EVENTS, Event, parse_event
from meteragent.report.format import MEAN_W
from meteragent.report.plan import ask, setting
from meteragent.report.plan.setting import Setting
from tests.support.guarantees import facts_of

ONE = Fraction(1)
KETTLE, TV, AWAY_8H, AWAY_DAY = (EVENTS[place] for place in (1, 2, 5, 6))
NUMBERS = (ask.HALF_HOUR, ask.DAY, ask.TYPICAL_DAY, ask.MONTH)
QUICK = (KETTLE, TV, EVENTS[4])
"""Events that keep the search for a setting short."""


def hide(event: Event) -> ask.Change:
    """Return an event to hide."""
    return ask.Change(event.name, event.energy_wh, event)


def asking(**given: Any) -> plan.Question:
    """Return a question as text."""
    read: dict[str, Any] = {
        "hide": ask.parse_hide,
        "share": ask.parse_share,
        "homes": ask.parse_homes,
        "goal": ask.parse_goal,
    }
    found: dict[str, Any] = {name: read.get(name, lambda own: own)(text) for name, text in given.items()}
    return plan.Question(**found)


def answered(**given: Any) -> plan.Answer:
    """Return the answer to a question as text."""
    return plan.solve(asking(**given))


def found(**given: Any) -> Setting:
    """Return the setting of a question that has one."""
    answer = answered(**given)
    assert answer.is_possible
    assert answer.setting is not None
    return answer.setting


def facts(one: Setting) -> dict[str, Any]:
    """What `check` says of a setting's configuration."""
    return facts_of(one.stream)


# What is asked --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("kettle", "a kettle"),
        ("The Kettle", "a kettle"),
        ("tv evening", "a TV evening"),
        ("television", "a TV evening"),
        ("washing machine", "a washing machine"),
        ("oven", "the oven, 45 min"),
        ("away 8h", "8 h away"),
        ("a day away", "a day away"),
        ("week", "a week away"),
        ("programme", "which programme was on, 1 h"),
    ],
)
def test_an_event_is_found_by_its_words(text: str, name: str) -> None:
    """Some of an event's words suffice, whatever their case, articles or spaces."""
    asked = ask.parse_hide(text)
    assert asked.name == name
    assert asked.event in EVENTS


def test_what_to_hide_is_an_energy_or_an_event_of_ones_own() -> None:
    """An energy has no shape; watts for a time are an event of one's own."""
    for text, energy_wh in (("110Wh", 110), (" 0.3 kWh", 300)):
        assert ask.parse_hide(text).energy_wh == energy_wh
        assert ask.parse_hide(text).event is None
    own = ask.parse_hide("2000W 30min")
    assert own.energy_wh == 1000
    assert own.event == parse_event("2000W 30min")


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (ask.parse_hide, "away", "'8 h away', 'a day away', 'a week away'"),
        (ask.parse_hide, "kettel", "'a kettle', or one of"),
        (ask.parse_hide, "", "one of 'which programme was on"),
        (ask.parse_hide, "0Wh", "a positive energy of at most 10000kWh"),
        (ask.parse_hide, "10001kWh", "a positive energy of at most 10000kWh"),
        (ask.parse_hide, "2W 32d", "an event of at most 31 days"),
        (ask.parse_share, "fortnight", "half-hour, day, month or typical-day"),
        (ask.parse_goal, "5", "a percentage of a home's 330 W such as 5%, a power such as 20W"),
        (ask.parse_goal, "0W", "a percentage of a home"),
        (ask.parse_homes, "0", "a whole number of at least 1"),
        (ask.parse_homes, "ten", "a whole number of at least 1"),
    ],
)
def test_what_is_not_understood_is_refused(read: Any, text: str, expected: str) -> None:
    """A text that is not understood is refused with what it could be."""
    with pytest.raises(ValueError, match=re.escape(expected)):
        read(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("half-hour", "half hours"),
        ("half hours", "half hours"),
        ("30min", "half hours"),
        ("Day", "days"),
        ("1mo", "months"),
        ("typical-day", "a typical day of each month"),
        ("hour", "hours"),
        ("15min", "quarter hours"),
        ("curve", "days as curves"),
    ],
)
def test_what_to_share_has_several_names(text: str, name: str) -> None:
    """Shares have the names that people use, singular or plural."""
    assert ask.parse_share(text).name == name


def test_a_goal_is_a_power_over_a_numbers_time() -> None:
    """Percentages are of an average home's use, energies are spread over the number's time."""
    assert ask.parse_goal("5%").power_w(ask.DAY) == 0.05 * MEAN_W
    assert ask.parse_goal("0.02kW").power_w(ask.DAY) == 20
    assert ask.parse_goal("0.48kWh").power_w(ask.DAY) == 20
    assert ask.parse_goal("10Wh").power_w(ask.HALF_HOUR) == 20
    for share in (ask.TYPICAL_DAY, ask.CURVE):
        with pytest.raises(ValueError, match="a percentage such as 5%, or watts such as 20W"):
            ask.parse_goal("1kWh").power_w(share)


@pytest.mark.parametrize("given", [{}, {"hide": "kettle"}, {"share": "day"}, {"goal": "5%"}, {"homes": "9"}])
def test_one_of_three_is_not_enough(given: dict[str, str]) -> None:
    """Two of the three must be given; a number of homes without an error does not count."""
    with pytest.raises(ValueError, match="give two of --hide, --share and --error"):
        answered(**given)


# What to hide and what to share ---------------------------------------------------------------------


@pytest.mark.parametrize("share", [*NUMBERS, *ask.MORE_SHARES], ids=lambda share: share.name)
@pytest.mark.parametrize("event", QUICK, ids=lambda event: event.name)
def test_the_configuration_means_what_was_planned(share: ask.Share, event: Event) -> None:
    """The configuration is accepted, has the terms that were planned, and hides what was asked for."""
    one = plan.Question(timezone="Europe/Amsterdam").least_error_setting(hide(event), share)
    assert config.terms(one.stream) == replace(one.terms, preset=one.preset)
    said = facts(one)
    (row,) = (row for row in said["hidden"] if row["event"] == event.name)
    assert row["right_of_100"]["1"] <= 70
    assert said["errors"]["number"] == pytest.approx(one.error_w(), rel=1e-3)
    assert said["errors"]["mean_of_1000"] == pytest.approx(one.error_w(1000), rel=1e-3)


@pytest.mark.parametrize("event", [KETTLE, TV, AWAY_8H, AWAY_DAY], ids=lambda event: event.name)
def test_nothing_less_hides_it(event: Event) -> None:
    """The energy is the least, to three figures and the quantum: with 2% less the event is not hidden."""
    for share in (ask.HALF_HOUR, ask.DAY):
        one = setting.least_energy_setting(hide(event), Setting(share, 1, event.energy_wh, ONE))
        assert setting.hides(one, event)
        assert not setting.hides(replace(one, hide_wh=one.hide_wh * 98 / 100), event)


@pytest.mark.parametrize(
    "name", [name for name, preset in config.FULL_PRESETS.items() if SHAPES[preset.space].is_additive]
)
def test_presets_are_called_by_their_names(name: str) -> None:
    """A setting that equals a preset, to the quantum, is called by its name."""
    preset = config.FULL_PRESETS[name]
    share = {"30min": "half-hour", "1d": "day", "1mo": "month"}.get(str(preset.length), "half-hour")
    share = "typical-day" if preset.blocks > 1 else share
    one = found(hide=f"{preset.hide_wh}Wh", share=share)
    assert one.preset == config.terms(one.stream).preset == name
    assert f'privacy.preset = "{name}"' in one.text
    assert "hide" not in one.text


@pytest.mark.parametrize(
    ("event", "share", "name"),
    [
        ("kettle", "half-hour", "appliance"),
        ("tv evening", "half-hour", "appliance"),
        ("tv evening", "day", "day"),
        ("a day away", "month", "bill"),
        ("8 h away", "typical-day", "typical-day"),
    ],
)
def test_the_presets_hide_what_they_are_for(event: str, share: str, name: str) -> None:
    """Asking for what a preset is made for gives that preset."""
    assert found(hide=event, share=share).preset == name


def test_a_level_is_kept() -> None:
    """Another level is in the configuration, exactly; with half of it the error is twice as large."""
    one, half = (found(hide="110Wh", share="half-hour", level=level) for level in (ONE, ONE / 3))
    assert config.terms(half.stream).level == ONE / 3
    assert half.error_w() == pytest.approx(3 * one.error_w(), rel=1e-4)
    assert half.preset is None


def test_the_number_of_slots_is_the_best_there_is() -> None:
    """Of all windows of up to a day that hide an event of several slots, the least error is chosen."""
    tried = setting.candidate_settings(hide(AWAY_8H), ask.HALF_HOUR, ONE, "UTC")
    assert [one.slots for one in tried] == [1, 2, 3, 4, 6]
    assert all(setting.hides(one, AWAY_8H) for one in tried)
    best = found(hide="8 h away", share="half-hour")
    assert best.error_w() == min(one.error_w() for one in tried)
    assert setting.least_energy_setting(hide(AWAY_8H), replace(best, slots=16)).error_w() > best.error_w()
    week = found(hide="250W 7d", share="hour")
    assert week.slots == 2


def test_one_slot_is_best_for_what_fits_into_it() -> None:
    """Energy of any shape, and an event that fits into a slot, have windows of one slot."""
    for text in ("kettle", "5kWh"):
        assert [
            one.slots for one in setting.candidate_settings(ask.parse_hide(text), ask.HALF_HOUR, ONE, "UTC")
        ] == [1]


def test_the_odds_of_a_whole_event_add() -> None:
    """An evening of 100 W costs 50 Wh of the 110 Wh that are hidden, six times; off the grid a quantum."""
    one = found(hide="tv evening", share="half-hour")
    assert setting.odds_level(one, TV) == pytest.approx(601 / 220)
    assert setting.odds_level(found(hide="kettle", share="half-hour"), KETTLE) == pytest.approx(221 / 220)


@given(st.sampled_from(NUMBERS), st.integers(1, 10**6), st.sampled_from([ONE, ONE / 3, ONE * 2]))
def test_the_floor_is_met(share: ask.Share, energy_wh: int, level: Fraction) -> None:
    """No noise with this promise is below sqrt((n+1)(n+2)/3) radius/level; ours attains it but for quanta."""
    one = Setting(share, share.blocks, Fraction(energy_wh), level)
    n = one.slots
    assert one.floor_w == pytest.approx(math.sqrt((n + 1) * (n + 2) / 3) * float(one.radius_w / level))
    assert one.error_w() == pytest.approx(one.floor_w, rel=1e-3)


@pytest.mark.parametrize("level", [Fraction(1, 1000), Fraction(1, 3), Fraction(4)])
def test_what_is_said_to_be_hidden_is(level: Fraction) -> None:
    """At low and high levels, too, what is called hidden is as hard to detect as the radius."""
    one = Setting(ask.HALF_HOUR, 1, Fraction(110), level)
    assert KETTLE in setting.covered_events(one)
    assert EVENTS[3] not in setting.covered_events(one)
    assert EVENTS[7] not in setting.covered_events(one)


# And at what error ----------------------------------------------------------------------------------


def test_with_an_error_enough_homes_are_found() -> None:
    """Hide, share and error give the least number of homes; one less is not enough."""
    answer = answered(hide="kettle", share="half-hour", goal="5%")
    assert answer.is_possible
    assert answer.setting is not None
    goal_w = 0.05 * MEAN_W
    assert answer.setting.error_w(answer.homes) <= goal_w < answer.setting.error_w(answer.homes - 1)
    assert answer.homes == 356
    assert answered(hide="kettle", share="half-hour", homes="356", goal="5%").is_possible
    assert not answered(hide="kettle", share="half-hour", homes="355", goal="5%").is_possible


@pytest.mark.parametrize(
    ("homes", "goal", "share"),
    [("1000", "5%", "half hours"), ("100", "5%", "days"), ("1", "1%", "a typical day of each month")],
)
def test_the_finest_that_is_good_enough_is_shared(homes: str, goal: str, share: str) -> None:
    """Hide and error give the finest share that is good enough; those before it are not."""
    answer = answered(hide="kettle", homes=homes, goal=goal)
    assert answer.setting is not None
    assert answer.setting.share.name == share
    for one in answer.considered_settings:
        good = one.error_w(int(homes)) <= ask.parse_goal(goal).power_w(one.share)
        assert good or one.share != answer.setting.share
        if one.share == answer.setting.share:
            break
        assert not good


@pytest.mark.parametrize("share", ["half-hour", "day", "month", "typical-day", "curve"])
def test_the_most_that_can_be_hidden(share: str) -> None:
    """Share and error give the largest energy, to three figures, that can be hidden, and no more."""
    one = found(share=share, homes="1000", goal="10%")
    assert one.error_w(1000) <= 0.1 * MEAN_W < replace(one, hide_wh=one.hide_wh * 102 / 100).error_w(1000)
    assert config.terms(one.stream) == replace(one.terms, preset=one.preset)


@given(st.sampled_from(NUMBERS), st.integers(100, 10**6))
def test_hiding_and_error_are_each_others_inverse(share: ask.Share, energy_wh: int) -> None:
    """With the error of what hides an energy, at least that energy can be hidden, to its third figure."""
    one = Setting(share, share.blocks, Fraction(energy_wh), ONE)
    back = setting.most_hiding_setting(share, ONE, "UTC", one.error_w() * (1 + 1e-9))
    assert back is not None
    assert 0.98 * energy_wh <= back.hide_wh <= 1.02 * energy_wh
    assert back.error_w() <= one.error_w() * (1 + 1e-6)


@pytest.mark.parametrize(
    "given",
    [
        {"hide": "kettle", "share": "half-hour", "homes": "100", "goal": "1%"},
        {"hide": "washing machine", "share": "day", "homes": "10", "goal": "0.1kWh"},
        {"hide": "42kWh", "homes": "1", "goal": "5%"},
        {"share": "half-hour", "homes": "1", "goal": "1W"},
        {"share": "curve", "homes": "1", "goal": "1W"},
    ],
)
def test_what_is_near_is_possible(given: dict[str, str]) -> None:
    """If the question has no solution, each setting offered instead meets the goal and is accepted."""
    answer = answered(**given)
    assert not answer.is_possible
    assert len(answer.nearest) >= 2
    for near in answer.nearest:
        goal_w = ask.parse_goal(given["goal"]).power_w(near.setting.share)
        assert near.setting.error_w(near.homes) <= goal_w * (1 + 1e-9)
        terms = config.terms(near.setting.stream)
        assert terms == replace(near.setting.terms, preset=near.setting.preset)
        if "hide" in given and near.kind != "less":
            assert near.setting == plan.Question().least_error_setting(
                ask.parse_hide(given["hide"]), near.setting.share
            )
    more = [near for near in answer.nearest if near.kind in {"homes", "event"}]
    for near in more:
        goal_w = ask.parse_goal(given["goal"]).power_w(near.setting.share)
        assert near.setting.error_w(near.homes - 1) > goal_w


# The number of blocks -------------------------------------------------------------------------------


def test_the_number_of_blocks_is_advised_from_public_examples() -> None:
    """A curve has the blocks of least worst-case error for a day of all public events, each up and down."""
    variation_w = 2 * sum(event.power_w for event in EVENTS)
    counts = set()
    for energy_wh in (20, 110, 300, 1200, 9000):
        one = found(hide=f"{energy_wh}Wh", share="curve")
        bounds = {
            k: variation_w / (2 * k) + (k + 1) * Fraction(energy_wh * k, 24) / 2
            for k in (1, 2, 3, 4, 6, 8, 12, 24, 48)
        }
        assert one.slots == min(bounds, key=lambda k: bounds[k])
        counts.add(one.slots)
    assert len(counts) == 5
