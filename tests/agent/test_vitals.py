"""The state of the agent in words, as JSON and for Prometheus."""

import json
import re
from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from meteragent.agent.vitals import AgentVitals, StreamVitals
from meteragent.cli import health
from meteragent.domain.counters import COUNTERS
from meteragent.domain.problem import PROBLEMS, Alarms
from meteragent.service.vitals import as_json, as_metrics
from tests.support.vitals import agent_vitals

MAIN = StreamVitals("main", True, True, 2, 0.5, 3, {"a": Fraction(1, 220), "b": Fraction(2, 220)})
WELL = AgentVitals(
    service="agent",
    version="1.0",
    running_s=90.0,
    counts={"received": 7, "late": 2},
    store_bytes=4096,
    stands=None,
    streams=(MAIN,),
)
STATES = {
    "processing paused: no usable clock": replace(WELL, stands="no usable clock"),
    "stream main: no connection to the broker of the source": replace(
        WELL, streams=(replace(MAIN, source_up=False),)
    ),
    "stream main: no connection to the broker of the sink": replace(
        WELL, streams=(replace(MAIN, sink_up=False),)
    ),
    "stream main: messages waiting: 2, the first for 1 min 1 s": replace(
        WELL, streams=(replace(MAIN, lag_s=61.0),)
    ),
}


def as_text(vitals: AgentVitals) -> str:
    """Return what `health` prints."""
    return health.as_text(json.loads(as_json(vitals)))


def families(vitals: AgentVitals) -> dict[str, dict[tuple[str, ...], float]]:
    """Return every family of the metrics: its samples' values by their labels, as Prometheus reads them."""
    return {
        family.name: {tuple(sample.labels.values()): sample.value for sample in family.samples}
        for family in text_string_to_metric_families(as_metrics(vitals))
    }


def test_each_problem_is_named_and_alone() -> None:
    """Each problem is one sentence, in words and in JSON; without a problem there is none."""
    assert WELL.problems == ()
    assert "All is well." in as_text(WELL)
    for sentence, vitals in STATES.items():
        [found] = vitals.problems
        assert found.text == sentence
        assert f"Problem: {sentence}\n  What to do: {found.cure} ({found.code})\n" in as_text(vitals)
        assert json.loads(as_json(vitals))["problems"] == [sentence]
        assert families(vitals)["meteragent_healthy"] == {(): 0}


def test_each_problem_has_its_code_wherever_it_is_told() -> None:
    """Code, stream, cause and cure are in the JSON, code and stream in the metrics."""
    assert families(WELL)["meteragent_problem"] == {}
    codes = ["no_clock", "source_down", "sink_down", "messages_wait"]
    for code, vitals in zip(codes, STATES.values(), strict=True):
        told = json.loads(as_json(vitals))
        assert told["problem_codes"] == [code]
        [detail] = told["problem_details"]
        stream = None if code == "no_clock" else "main"
        assert (detail["code"], detail["stream"]) == (code, stream)
        assert detail["cure"] == PROBLEMS[code].cure
        assert families(vitals)["meteragent_problem"] == {(code, stream or ""): 1}


def test_what_a_broker_names_is_told_in_place_of_a_lost_connection() -> None:
    """Each side has its own keys in the advice; two sides with one fault are two problems of one metric."""
    faults = {"source": "login_refused", "sink": "login_refused"}
    down = replace(MAIN, source_up=False, sink_up=False, faults=faults)
    vitals = replace(WELL, streams=(down,))
    assert [item.code for item in vitals.problems] == ["login_refused", "login_refused"]
    assert [item.cure.split()[1] for item in vitals.problems] == ["source.username", "sink.username"]
    assert families(vitals)["meteragent_problem"] == {("login_refused", "main"): 1}
    assert agent_vitals(as_json(vitals)) == vitals
    [item] = replace(WELL, streams=(replace(MAIN, faults={"sink": "no_retain"}),)).problems
    assert item.code == "no_retain"


def test_refused_topics_are_told_by_their_number() -> None:
    """Their number is a problem of the stream and a metric; their names are not disclosed."""
    [stream] = WELL.streams
    vitals = replace(WELL, streams=(replace(stream, refused_topics=2),))
    [actual] = vitals.problems
    assert (actual.code, actual.stream) == ("topic_refused", "main")
    assert "refused by the sink's broker: 2;" in actual.text
    assert families(vitals)["meteragent_refused_topics"] == {("main",): 2}
    assert agent_vitals(as_json(vitals)) == vitals


def test_a_stream_of_a_group_names_it_and_missing_keys() -> None:
    """Its line has the group; missing keys are a problem if a connection could bring them."""
    crowd = replace(MAIN, group="elm-street")
    well = replace(WELL, streams=(crowd,))
    assert (
        "Stream main: 3 meters, in the total of the group elm-street, 2 reports waiting to be sent"
        in as_text(well)
    )
    assert well.problems == ()
    without = replace(well, streams=(replace(crowd, has_keys=False),))
    assert [(item.code, item.stream) for item in without.problems] == [("no_keys", "main")]
    assert agent_vitals(as_json(without)) == without
    down = replace(well, streams=(replace(crowd, has_keys=False, sink_up=False),))
    assert [item.code for item in down.problems] == ["sink_down"]


def test_a_full_store_has_a_code_of_its_own() -> None:
    """A pause for want of room differs from a pause for want of a clock."""
    full = replace(WELL, stands="no room in the store")
    assert [(item.code, item.text) for item in full.problems] == [
        ("store_full", "processing paused: no room in the store")
    ]


def test_what_parts_of_the_agent_raise_is_told_until_they_clear_it() -> None:
    """A raised problem is shown with those that follow from figures, once, with its newest cause."""
    alarms = Alarms()
    alarms.raise_("messages_wait", "main", waiting=2, since_ms=120_000)
    alarms.raise_("messages_wait", "main", waiting=3, since_ms=180_000)
    alarms.raise_("sink_down", "other")
    alarms.clear("source_down", "main")
    raised = replace(WELL, raised=alarms.problems)
    texts = [item.text for item in raised.problems]
    assert texts == [
        "stream main: messages waiting: 3, the first for 3 min",
        "stream other: no connection to the broker of the sink",
    ]
    assert agent_vitals(as_json(raised)) == raised
    alarms.clear("messages_wait", "main")
    assert [item.code for item in alarms.problems] == ["sink_down"]


def test_every_problem_says_what_to_do() -> None:
    """A cause is a clause, a cure is one sentence or more, and a code is a plain word."""
    for code, meaning in PROBLEMS.items():
        assert re.fullmatch(r"[a-z][a-z_]+", code)
        assert not meaning.cause.endswith(".")
        assert meaning.cure.endswith(".")


def test_a_minute_of_lag_is_no_problem() -> None:
    """Only what has been due for more than a minute is a problem."""
    assert replace(WELL, streams=(replace(MAIN, lag_s=60.0),)).problems == ()


def test_words_name_the_counters_that_counted() -> None:
    """Counters above zero are shown with their meaning, in the order of the list."""
    lines = as_text(WELL).splitlines()
    shown = [line for line in lines if line.startswith("  ")]
    assert [line.split()[0] for line in shown] == ["received", "late"]
    assert all(line.endswith(COUNTERS[line.split()[0]]) for line in shown)


def test_prometheus_reads_every_figure() -> None:
    """Every counter is there, also at zero, and every gauge with its labels."""
    actual = families(WELL)
    assert {f"meteragent_{name}" for name in COUNTERS} < actual.keys()
    assert (actual["meteragent_received"], actual["meteragent_shed"]) == ({(): 7}, {(): 0})
    assert actual["meteragent_connected"] == {("main", "source"): 1, ("main", "sink"): 1}
    assert actual["meteragent_spent_per_watt"] == {
        ("main", "a"): 0.004545454545,
        ("main", "b"): 0.009090909091,
    }
    assert actual["meteragent_waiting_messages"] == {("main",): 2}
    assert actual["meteragent_lag_seconds"] == {("main",): 0.5}
    assert actual["meteragent_store_bytes"] == {(): 4096}


@given(st.text(min_size=1, max_size=20))
def test_any_name_can_be_a_label(name: str) -> None:
    """A meter's name may hold whatever a topic may, and is read back unchanged."""
    actual = families(replace(WELL, streams=(replace(MAIN, spent_per_w={name: Fraction(1)}),)))
    assert actual["meteragent_spent_per_watt"] == {("main", name): 1}


def test_json_is_exact() -> None:
    """As JSON the epsilon spent is an exact fraction, and `healthy` says whether there is a problem."""
    actual = json.loads(as_json(WELL))
    assert actual["healthy"] is True
    assert actual["streams"][0]["spent_per_w"] == {"a": "1/220", "b": "1/110"}
    assert actual["counts"] == {"received": 7, "late": 2}
    for vitals in (WELL, *STATES.values()):
        assert agent_vitals(as_json(vitals)) == vitals
