"""What benchmarks report: ratios within rounds, medians, rows of a file, tables; and their load's packets."""

import json
import math
import re
import sys
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import __main__ as command
from benchmarks import compare, contestants, crash, harness, line, mechanisms, picture, shares, table, wire
from benchmarks.harness import Result, Row
from tests.commands import system_parts

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
    monkeypatch.setattr(harness, "calls_per_slice", lambda _: 3)
    monkeypatch.setattr(harness, "seconds", lambda call, _: next(took[call()]))
    [result] = harness.run([Row("a", "b", lambda: "ours", lambda: "theirs", 2.0, "n", (2, 2), "homes")])
    note = "1 and 0.333 homes per CPU-second; n"
    assert result == Result("a", "b", (2.0, 2.0, 3.0, 1.0, 1.0), 2.0, note)


def test_a_peer_may_do_less_and_a_limit_take_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratios are of work a second; what has no peer has the seconds that it may take, and rates are said."""
    monkeypatch.setattr(harness, "calls_per_slice", lambda _: 1)
    monkeypatch.setattr(harness, "seconds", lambda call, _: call())
    less = Row("a", "b", lambda: 2.0, lambda: 4.0, None, "n", (1000, 10), "homes")
    limited = Row("c", "d", lambda: 2.0, 3.0, 1.0)
    [one, other] = harness.run([less, limited])
    assert one == Result("a", "b", (200.0,) * 5, None, "500 and 2.5 homes per CPU-second; n")
    assert other == Result("c", "d", (1.5,) * 5, 1.0, "")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.05712, "0.0571"), (999.4, "999"), (7_312, "7,310"), (12_345_678, "12.3M"), (6_896_000_000, "6,896M")],
)
def test_rates_have_three_digits(value: float, text: str) -> None:
    """And M for millions: they are for people."""
    assert harness.rate(value) == text


def test_a_call_is_timed_over_as_many_as_fill_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of a millisecond is made fifty times in a round, one of a second once; a first is slower."""
    took_s = {"short": [0.9, *[0.001] * 9], "long": [1.0, 1.0], "very long": [1.1]}
    monkeypatch.setattr(harness, "seconds", lambda call, _: took_s[call()].pop(0))
    assert harness.calls_per_slice(lambda: "short") == 50
    assert harness.calls_per_slice(lambda: "long") == 1
    assert harness.calls_per_slice(lambda: "very long") == 1


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


def test_a_peer_that_is_missing_is_named_and_the_rest_is_written(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its rows are not there, all others are, its version is said to be missing, and it ends as a failure."""
    monkeypatch.setattr(harness, "_missing_peers", [])
    assert harness.peer("json") is json
    assert harness.peer("peer_nobody_has.part") is None
    with pytest.raises(SystemExit, match="NOT RUN: peer_nobody_has") as ended:
        harness.report([Result("a", "b", (1.0,))], ["peer_nobody_has"])
    assert ended.value.code != 0
    assert "NOT RUN: peer_nobody_has" in capsys.readouterr().err
    [row] = json.loads(out.read_text())
    assert row["versions"]["peer_nobody_has"] == "not installed"


def test_a_peer_that_cannot_be_built_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tried in turn: what is there, what can be installed, what can be unpacked; then it is reported."""
    tried: list[str] = []
    monkeypatch.setattr(harness, "_missing_peers", [])
    monkeypatch.setattr(contestants, "_compile", lambda *_: tried.append("gcc"))
    monkeypatch.setattr(system_parts, "install", tried.append)
    monkeypatch.setattr(system_parts, "unpack", tried.append)
    assert contestants.in_c() is None
    assert tried == ["gcc", *contestants.BUILD_PACKAGES, "gcc", "libmosquitto-dev", "gcc"]
    assert harness._missing_peers == ["libmosquitto in C"]
    packages = ", ".join(contestants.BUILD_PACKAGES)
    said = (
        f"NOT RUN: libmosquitto in C cannot be built: one of {packages} is missing and cannot be installed\n"
    )
    assert capsys.readouterr().err == said


def test_figures_of_a_peer_stand_beside_ours() -> None:
    """The ratio is such that more is better, of rates and of what is taken; the note has the medians."""
    pairs = [(1.0, 2.0), (3.0, 2.0), (9.0, 3.0)]
    taken = harness.compare("a", "b", pairs, "{:g} and {:g}")
    assert taken == Result("a", "b", (2.0, 2 / 3, 3 / 9), None, "3 and 2")
    assert harness.compare("a", "b", pairs, "", are_rates=True, goal=4.0).ratios == (0.5, 1.5, 3.0)
    allowed = harness.compare("a", "b", pairs, "", goal=1.0, allow=lambda theirs: theirs + 1)
    assert allowed == Result("a", "b", (3.0, 1.0, 4 / 9), 1.0, "")


def test_each_begins_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes first meets another machine; short calls are made once untimed before."""
    made: list[str] = []

    def timed(call: Callable[[], object], times: int) -> float:
        call()
        made.append(str(times))
        return 1.0

    monkeypatch.setattr(harness, "calls_per_slice", lambda call: 1 if call is long else 2)
    monkeypatch.setattr(harness, "seconds", timed)

    def short() -> None:
        made.append("short")

    def long() -> None:
        made.append("long")

    harness.run([Row("a", "b", long, short)])
    theirs, ours = ["short", "short", "2"], ["long", "1"]
    assert made == 2 * (theirs + ours + ours + theirs) + theirs + ours


def test_a_record_is_timed_from_the_reading_that_made_it_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes the oldest that is waiting, so that a delay of many readings counts whole."""
    at_s = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: at_s[0])
    for behind, expected_s in ((0, [5.0, 4.0, 4.0]), (1, [4.0, 3.0, 3.0])):
        load = wire.Paced(1, 1, behind=behind)
        load._sender = wire.Client("nobody", lambda _: None)
        for at_s[0] in (0.0, 1.0, 2.0, 3.0):
            load.send()
        for at_s[0] in (5.0, 5.0, 6.0):
            load.arrived(b"private/m0/power")
        assert load.latencies_s == expected_s


def test_a_reading_that_opens_nothing_releases_nothing(tmp_path: Path) -> None:
    """Every 10 s into windows of half an hour: they open with the first readings and stay open."""
    with line.open_store(tmp_path / "worst") as first, line.open_store(tmp_path / "db") as second:
        worst, usual = line.Line(first, 2), line.Line(second, 2, 10_000)
        for one in (worst, usual):
            one.feed(one.messages(10))  # with what stands behind the first, the description of the noise
        assert worst.feed(worst.messages(10)) == 10
        assert usual.feed(usual.messages(340)) == 0
        assert {len(state.windows) for state in second.snapshot(line.STREAM).states.values()} == {1}


def test_a_store_is_killed_with_something_to_replay(tmp_path: Path) -> None:
    """The log holds committed rows; the next process opens the store, and releases after what it held."""
    path = tmp_path / "db"
    assert crash.kill_in_commit(path, 20) >= crash.MIN_LOG_BYTES
    assert crash.recovery_s(path, 20) > 0
    with line.open_store(path) as store:
        assert store.clock_ms > line.NOW_MS


def test_a_program_that_fails_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named at the end, with the time that all took; and so is one that cannot even begin."""
    ran = []

    def run(name: str, rounds: int, _: Path) -> str:
        ran.append((name, rounds))
        return "b exited with code 1" if name == "b" else ""

    assert command.run("no_such_program", 1, tmp_path / "out") == "no_such_program exited with code 1"
    monkeypatch.setattr(command, "run", run)
    assert command.run_all(["a", "b", "c"], 7, tmp_path / "out") == ["b exited with code 1"]
    assert ran == [("a", 7), ("b", 7), ("c", 7)]
    said = capsys.readouterr().out
    assert "FAILED: b exited with code 1" in said
    assert re.search(r"7 rounds, \d+ s in all", said)


def test_no_benchmark_is_forgotten() -> None:
    """Every program here that reports rows is one of those that `make bench` runs."""
    programs = (path for path in harness.ROOT.glob("benchmarks/*.py") if path.stem != "harness")
    found = {path.stem for path in programs if re.search(r"^ +report\(", path.read_text(), re.MULTILINE)}
    assert len(found) > 4
    assert found <= set(command.PROGRAMS)


@pytest.mark.parametrize("name", ["collect", "crowd", "crowd_home", "shares"])
def test_a_program_that_runs_by_itself_is_described(name: str) -> None:
    """What writes no rows is in the README with its command."""
    assert name not in command.PROGRAMS
    assert (harness.ROOT / "benchmarks" / f"{name}.py").exists()
    assert f"`python -m benchmarks.{name}`" in (harness.ROOT / "benchmarks" / "README.md").read_text("utf-8")


@pytest.mark.parametrize(("names", "kept"), [([], {"new"}), (["store"], {"old", "new"})])
def test_a_whole_run_makes_the_file_anew(
    names: list[str], kept: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that no program makes any more is gone then; the programs that are named replace their own."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps([Result("old", "b", (1.0,)).as_json({})]))

    def run_all(_: object, __: int, out: Path) -> list[str]:
        harness._merge(out, [Result("new", "b", (1.0,)).as_json({})])
        return ["store exited with code 1"]

    monkeypatch.setattr(command, "run_all", run_all)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--out", str(path), *names])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 1
    assert {row["name"] for row in json.loads(path.read_text())} == kept


def test_tables_show_what_was_missed_and_what_has_no_goal() -> None:
    """Goals in lines of their own; the rest by name; blocks are made again, what is around them stays."""
    versions = {"python": "3", "load before": "1.50", "load after": "2.00"}
    rows = [
        Result("a", "b", (1.0, 2.0, 9.0), 3.0, "n").as_json(versions),
        Result("a", "c", (12345.0,), 2.0).as_json(versions | {"load before": "0.10", "x": "7"}),
        *(Result("d", against, (0.25,)).as_json(versions) for against in ("e", "f")),
    ]
    found = table.goals(rows)
    assert "| a | b | 2 | 1 – 9 | 3 | **missed** | n |" in found
    assert "| a | c | 12,300 | 12,300 | 2 | met |  |" in found
    assert "| d | e: **0.25** [0.25]<br>f: **0.25** [0.25] |" in table.others(rows)
    assert "load average 1.5 before the run, and at most 2 at the end of a benchmark" in table.machine(rows)
    assert "x 7" in table.machine(rows)
    page = "head\n<!-- bench: goals -->\n\nold\n\n<!-- bench end -->\ntail\n"
    again = table.renew(page, rows)
    assert again == page.replace("old\n", found)
    assert table.renew(again, rows) == again
    assert table.renew(again, []) == page.replace("old\n", table.NONE_YET)


def test_no_sampler_takes_fewer_random_bytes_than_its_law_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entropy, worked out from what was drawn, is a floor; and no sampler takes ten times as much."""
    monkeypatch.setattr(mechanisms, "ROUNDS", 1)
    monkeypatch.setattr(mechanisms, "LEAST_SAMPLE", 1000)
    for case in mechanisms.cases():
        if case.count * case.n <= 4000:
            assert 0.1 < mechanisms.random_bytes(case).ratio < 1


def test_the_entropy_is_that_of_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Laplace noise of scale b has about log2(2 e b) bits."""
    monkeypatch.setattr(mechanisms, "ROUNDS", 1)
    [case] = [one for one in mechanisms.cases() if one.name == "discrete Laplace, a vector of 1,440"]
    least = re.search(r"at least ([\d.]+)", mechanisms.random_bytes(case).note)
    assert least is not None
    assert float(least[1]) * 8 == pytest.approx(math.log2(2 * math.e * mechanisms.SCALE), abs=0.15)


def test_every_shape_is_measured_and_every_goal_is_one_of_theirs() -> None:
    """Three mechanisms, five sizes, one and a thousand at once; each goal belongs to a case and a peer."""
    found = {(case.kind, case.count, case.n) for case in mechanisms.cases()}
    assert len(found) == 30
    assert {(kind, count, n) for kind, _, count, n in mechanisms.GOALS} <= found
    assert {name for _, name, _, _ in mechanisms.GOALS} <= mechanisms.PEERS.keys()


def functions_of(path: str) -> dict[str, Any]:
    """Return functions of a file of ours: one calls another function, one takes CPU time."""
    text = """
def call(function): return function()
def compute(duration_s):
    end_s = time.process_time() + duration_s
    while time.process_time() < end_s: pass
"""
    functions: dict[str, Any] = {"time": time}
    exec(compile(text, f"{shares.OURS}/{path}", "exec"), functions)
    return functions


def test_the_time_of_others_is_that_of_the_part_that_called_them() -> None:
    """A library's time goes to the innermost part of ours that waits for it; without one it is else."""
    window, file = functions_of("window.py")["call"], functions_of("store/file.py")["call"]
    assert file(lambda: shares.running(sys._getframe())) == "store"
    assert window(lambda: file(lambda: shares.running(sys._getframe()))) == "store"
    assert file(lambda: window(lambda: shares.running(sys._getframe()))) == "window"
    assert shares.running(sys._getframe()) == "else"


def test_the_times_of_the_parts_add_up_to_the_cpu_time_of_the_run() -> None:
    """No part's time comes from another run: 0.1 s in one part and 0.2 s in another are 0.3 s."""
    start_s = time.process_time()
    with shares.sampling() as times_s:
        functions_of("core/window.py")["compute"](0.1)
        functions_of("store/file.py")["compute"](0.2)
    assert sum(times_s.values()) == pytest.approx(time.process_time() - start_s, abs=0.03)
    assert times_s["core"] == pytest.approx(0.1, abs=0.03)
    assert times_s["store"] == pytest.approx(0.2, abs=0.03)


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


def test_a_comparison_names_what_became_slower_than_its_spread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row is slower if all its rounds are, a median outside the former range is only mentioned."""
    spreads = {
        "slower": ([1.0, 0.9, 1.1], [0.5, 0.4, 0.8]),
        "perhaps": ([1.0, 0.9, 1.1], [0.85, 0.8, 1.0]),
        "same": ([1.0, 0.9, 1.1], [0.95, 0.5, 3.0]),
        "faster": ([1.0, 0.9, 1.1], [2.0, 1.2, 2.5]),
    }
    for place, name in enumerate(("before", "after")):
        rows = [
            {"name": key, "against": "b", "ratio": values[place][0], "spread": values[place][1:]}
            for key, values in spreads.items()
        ]
        rows.append({"name": f"only {name}", "against": "b", "ratio": 1, "spread": [1, 1]})
        (tmp_path / name).write_text(json.dumps(rows))
    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    assert compare.main([before, after]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "SLOWER   x 0.5    slower: b",
        "perhaps  x 0.85   perhaps: b",
        "faster   x 2      faster: b",
        "- only before: b",
        "+ only after: b",
    ]
    assert compare.main([before, before]) == 0
    assert compare.main([before]) == 2
