"""What benchmarks report: ratios within rounds, medians, rows of a file, and the packets of their load."""

import json
import sys
from itertools import accumulate
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import harness, picture, wire
from benchmarks.harness import Result, Row

ROWS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "against": {"type": "string"},
            "ratio": {"type": "number"},
            "spread": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
            "goal": {"type": ["number", "null"]},
            "rounds": {"type": "integer", "minimum": 1},
            "versions": {"type": "object", "additionalProperties": {"type": "string"}},
            "note": {"type": "string"},
        },
        "required": ["name", "against", "ratio", "spread", "goal", "rounds", "versions", "note"],
        "additionalProperties": False,
    },
}


def test_a_result_is_the_median_of_its_rounds_with_the_least_and_the_greatest() -> None:
    """One slow round moves the spread and hardly the ratio."""
    result = Result("a", "b", (1.0, 3.0, 0.5, 2.0, 90.0))
    assert (result.ratio, result.spread) == (2.0, (0.5, 90.0))


def test_a_ratio_is_taken_within_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours and theirs are measured one after the other: more than 1 is faster than theirs."""
    took = {"ours": iter([2.0, 4.0, 2.0, 2.0, 8.0]), "theirs": iter([4.0, 8.0, 6.0, 2.0, 8.0])}
    monkeypatch.setattr(harness, "times_in_a_slice", lambda _: 3)
    monkeypatch.setattr(harness, "seconds", lambda call, _: next(took[call()]))
    [result] = harness.run([Row("a", "b", lambda: "ours", lambda: "theirs", 2.0, "n")])
    assert result == Result("a", "b", (2.0, 2.0, 3.0, 1.0, 1.0), 2.0, "n")


def test_a_call_is_timed_over_as_many_as_fill_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of a millisecond is made fifty times in a round, one of a second once."""
    took_s = {"short": 0.001, "long": 1.0}
    monkeypatch.setattr(harness, "seconds", lambda call, _: took_s[call()])
    assert harness.times_in_a_slice(lambda: "short") == 50
    assert harness.times_in_a_slice(lambda: "long") == 1


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a report puts its rows."""
    path = tmp_path / "results.json"
    monkeypatch.setattr(sys, "argv", ["bench", "--out", str(path)])
    return path


def test_rows_have_the_fields_that_readers_rely_on(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Name, against, ratio, spread, goal, rounds, versions, note; and a goal that is missed is said."""
    harness.report([Result("a", "b", (1.0, 2.0), 3.0, "n"), Result("c", "d", (1.23456,))], ["numpy"])
    rows = json.loads(out.read_text())
    jsonschema.validate(rows, ROWS)
    assert [row["ratio"] for row in rows] == [1.5, 1.235]
    assert rows[0]["rounds"] == 2
    assert {"numpy", "processor", "cores", "kernel", "python"} <= rows[0]["versions"].keys()
    assert capsys.readouterr().out.count("MISSED") == 1


def test_a_new_row_takes_the_place_of_the_one_before(out: Path) -> None:
    """A program that runs again replaces its own rows and leaves the others alone."""
    harness.report([Result("a", "b", (1.0,)), Result("a", "c", (2.0,))], [])
    harness.report([Result("a", "b", (3.0,))], [], {"mosquitto": "2"})
    found = {(row["name"], row["against"]): row["ratio"] for row in json.loads(out.read_text())}
    assert found == {("a", "b"): 3.0, ("a", "c"): 2.0}


def test_all_rows_make_a_picture(tmp_path: Path) -> None:
    """With goals met and missed, without goals, and with none of either."""
    rows = [Result("a", "b", (1.0, 2.0), goal).as_json({}) for goal in (1.0, 4.0, None)]
    for number, some in enumerate((rows, rows[:1], rows[2:])):
        where = tmp_path / f"{number}.png"
        picture.draw(some, where)
        assert where.read_bytes().startswith(b"\x89PNG")


BODIES = st.one_of(st.binary(max_size=9), st.sampled_from([127, 128, 300, 16_384]).map(bytes))


@given(
    st.lists(st.tuples(st.sampled_from([0x30, 0x32, 0x40]), BODIES), max_size=6),
    st.integers(0, 20),
)
def test_packets_come_apart_as_they_were_made(packets: list[tuple[int, bytes]], cut: int) -> None:
    """Kind and body of each whole packet, in order; of one that is not all there, nothing."""
    raw = bytearray(b"".join(wire.packet(kind, body) for kind, body in packets))
    found, at = [], 0
    while (one := wire.split(raw, at)) is not None:
        kind, begin, at = one
        found.append((kind, bytes(raw[begin:at])))
    assert found == packets
    assert at == len(raw)
    short, at = raw[: max(len(raw) - cut, 0)], 0
    ends = accumulate((len(wire.packet(kind, body)) for kind, body in packets), initial=0)
    while (one := wire.split(short, at)) is not None:
        at = one[2]
    assert at == max(end for end in ends if end <= len(short))


def test_lengths_are_written_as_mqtt_writes_them() -> None:
    """Seven bits a byte, the least first (MQTT 3.1.1, 2.2.3)."""
    assert wire.packet(0x30, bytes(127))[1:2] == b"\x7f"
    assert wire.packet(0x30, bytes(128))[1:3] == b"\x80\x01"
    assert wire.packet(0x30, bytes(16_384))[1:4] == b"\x80\x80\x01"
