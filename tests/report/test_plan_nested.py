"""Planning nested streams: shares of a level for several lengths, or one stream if that is no worse."""

import json
import math
from fractions import Fraction

import pytest

from meteragent import config
from meteragent.privacy import nested as tree
from meteragent.privacy.nested import Node
from meteragent.report.plan import ask, nested
from meteragent.report.plan.nested import Division, NestedAnswer, NestedQuestion

ALL = (ask.HALF_HOUR, ask.DAY, ask.MONTH)


def answered(hide: str, share: str, error: str = "", timezone: str = "UTC") -> NestedAnswer:
    """Return the answer to a question as text."""
    lengths, goals = ask.parse_shares(share), ask.parse_goals(error) if error else []
    assert isinstance(lengths, list)
    assert isinstance(goals, list)
    return nested.solve(NestedQuestion(ask.parse_hide(hide), tuple(lengths), tuple(goals), timezone=timezone))


def test_shares_are_proposed_where_they_beat_one_stream() -> None:
    """Days to 0.7 kWh and months to 1.5 kWh: one stream of half hours has 1.08 and 5.9."""
    answer = answered("110Wh", "half-hour,day,month", "any,0.7kWh,1.5kWh")
    assert answer.is_possible
    assert answer.is_better
    day_w, month_w = answer.best.errors_w[1:]
    assert day_w * 24 <= 700
    assert month_w * 720 <= 1500
    assert answer.single.errors_w[1] * 0.024 == pytest.approx(1.08, abs=5e-3)
    assert answer.single.errors_w[2] * 0.72 == pytest.approx(5.90, abs=5e-3)


def test_the_errors_are_those_of_the_configuration() -> None:
    """What is promised is what the streams of the configuration have, combined as by a receiver."""
    answer = answered("kettle", "half-hour,day,month", timezone="Europe/Amsterdam")
    streams = config.parse(answer.text).stream
    assert sum(stream.privacy.level or 0 for stream in streams) == 1
    kinds = []
    for terms in map(config.terms, streams):
        hours = Fraction(terms.length_ms, 3_600_000)
        kinds.append(Node(terms.mechanism, terms.rounding, float(hours / 1000)))
    path = tree.regular_path(kinds, (48, 30))
    errors_kwh = [tree.sd(path[: 3 - place]) for place in range(3)]
    promised_kwh = [
        watts * float(length.hours) / 1000 for watts, length in zip(answer.best.errors_w, ALL, strict=True)
    ]
    assert errors_kwh == pytest.approx(promised_kwh, rel=0.01)


def test_a_length_without_a_share_is_a_sum() -> None:
    """Days without a stream of their own are sums of half hours, better for the month above them."""
    with_month = Division(ALL, (Fraction(1, 2), Fraction(0), Fraction(1, 2)), Fraction(110), Fraction(1))
    alone = Division(ALL, (Fraction(1), Fraction(0), Fraction(0)), Fraction(110), Fraction(1))
    half_hour_w = alone.errors_w[0]
    assert alone.errors_w[1] * 24 == pytest.approx(math.sqrt(48) * half_hour_w / 2, rel=1e-4)
    assert alone.errors_w[2] * 720 == pytest.approx(math.sqrt(1440) * half_hour_w / 2, rel=1e-4)
    own, month = 2 * 110**2 * 4, 2 * 110**2 * 4
    best = 1 / (1 / (1440 * own) + 1 / month)
    day = 48 * own - (1440 * own - best) / 30**2
    assert with_month.errors_w[1] * 24 == pytest.approx(math.sqrt(day), rel=1e-3)
    assert with_month.errors_w[2] * 720 == pytest.approx(math.sqrt(best), rel=1e-3)


def test_one_stream_is_proposed_where_shares_are_no_better() -> None:
    """Half hours to 312 W leave nothing to share: the configuration has one stream."""
    answer = answered("110Wh", "half-hour,day", "312W,2kWh")
    assert answer.is_possible
    assert not answer.is_better
    (stream,) = config.parse(answer.text).stream
    assert config.terms(stream).level == 1
    assert "A single stream does just as well." in " ".join(nested.as_text(answer).split())


def test_goals_out_of_reach_have_the_nearest_shares() -> None:
    """Half hours to 300 W are impossible at 110 Wh: the answer says so."""
    answer = answered("110Wh", "half-hour,day", "300W,0.1kWh")
    assert not answer.is_possible
    assert "NOT possible" in nested.as_text(answer)


def test_the_answer_is_written_in_words_and_as_json() -> None:
    """Both have the shares, the errors and the configuration to paste."""
    answer = answered("110Wh", "half-hour,day,month", "any,0.7kWh,1.5kWh")
    text, facts = nested.as_text(answer), json.loads(nested.as_json(answer))
    assert answer.text.splitlines()[-2] in text
    assert facts["configuration"] == answer.text
    assert facts["nested_is_better"] is True
    assert sum(Fraction(row["part_of_level"]) for row in facts["lengths"]) == 1
    assert [row["share"] for row in facts["lengths"]] == ["half hours", "days", "months"]


@pytest.mark.parametrize(
    ("share", "error", "timezone", "expected"),
    [
        ("day,half-hour", "", "UTC", "from fine to coarse"),
        ("half-hour,typical-day", "", "UTC", "two or more of 15min"),
        ("half-hour,day", "1kWh,1kWh,1kWh", "UTC", "an error for each length"),
        ("hour,day", "any,1kWh", "Asia/Kathmandu", "lengths that nest in Asia/Kathmandu"),
    ],
)
def test_questions_without_an_answer_are_refused(
    share: str, error: str, timezone: str, expected: str
) -> None:
    """Lengths in the wrong order, with bands or slots, or that no local day is filled by."""
    with pytest.raises(ValueError, match=expected):
        answered("110Wh", share, error, timezone)


def test_lists_are_read() -> None:
    """One word is one share or error, as before; several make lists."""
    assert ask.parse_shares("day") == ask.DAY
    assert ask.parse_shares("half-hour, day") == [ask.HALF_HOUR, ask.DAY]
    assert ask.parse_goals("5%") == ask.parse_goal("5%")
    assert ask.parse_goals("any,1kWh") == [None, ask.parse_goal("1kWh")]
