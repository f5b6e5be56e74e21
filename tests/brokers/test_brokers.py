"""The matrix of brokers: how it ends, its judge, and the configurations it starts brokers with."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from meteragent.domain.grid import iso_time
from meteragent.mqtt import WEEK_S
from simulators.long_run import LongRun, Part
from tests.brokers import makes, report
from tests.brokers.behaviours import SHORTER
from tests.brokers.makes import MAKES, Make, replaced
from tests.brokers.report import Report, tables
from tests.brokers.root import Missing, Root
from tests.brokers.trial import Measured, warned
from tests.commands import brokers
from tests.integration import broker_kills as kills
from tests.integration.service import Sent
from tests.support.fake_broker import FakeBroker, Wire
from tests.support.mqtt_peer import connected
from tests.support.not_run import ROOT

VERSIONS = {"mosquitto": "2.0.21-1", "nats-server": "2.10.27-1+b2", "rabbitmq-server": "1:4.0.5-6+deb13u2"}
SHIPPED = [make for make in MAKES if make.shipped and make.lasts]


def missing() -> makes.Ready:
    """A broker that cannot be had."""
    raise Missing("there is none")


def test_a_broker_that_cannot_be_had_is_not_run_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is said, and the command ends with 0."""
    monkeypatch.setitem(brokers.BY_NAME, "aedes", Make("aedes", missing, ("3.1.1",)))
    assert brokers.main(["aedes"]) == 0
    assert "NOT RUN: aedes: there is none" in capsys.readouterr().out


def test_an_unknown_broker_is_refused() -> None:
    """A name that is none of the matrix ends the command with 2."""
    with pytest.raises(SystemExit, match="2"):
        brokers.main(["mosquito"])


def test_what_does_not_hold_is_a_failure_unless_it_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker that lacks what it is not known to lack ends the command with 1 and is named."""
    make = Make("some", missing, ("5",), lacks={"retained": "known"})
    row = {"retained": Measured("topic", holds=False), "again": Measured("10 of 10", holds=True)}
    known = Report(make, "1.0", {}, {"5": row})
    assert list(known.failures) == []
    bad = replace(known, does={"5": row | {"again": Measured("9 of 10", holds=False)}})
    assert list(bad.failures) == ["FAILED: some 5 again: 9 of 10"]
    for found, code in ((known, 0), (bad, 1)):
        monkeypatch.setattr(brokers, "_run", lambda names, rounds, log, found=found: [found])
        assert brokers.main([]) == code
    assert "9 of 10" in capsys.readouterr().out


@pytest.mark.parametrize("make", SHIPPED, ids=lambda make: make.name)
def test_a_broker_is_started_with_what_is_shipped(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every setting of the shipped file is in the trial's, and all addresses are of the loopback."""
    monkeypatch.setattr(makes, "_root", lambda suite: Root(tmp_path / "root", VERSIONS))
    server = make.obtain().server(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.suffix == ".conf" or path.name == "conf"]
    text = "\n".join(path.read_text() for path in files)
    assert str(server.port) in text
    assert {*re.findall(r"\d+\.\d+\.\d+\.\d+", text)} == {"127.0.0.1"}
    assert "1883" not in text
    kind = make.name.partition("-")[0]
    bounds = {
        "mosquitto": ["max_inflight_messages 1000", "persistent_client_expiration 7d"],
        "rabbitmq": ["mqtt.prefetch = 10000", "604800"],
        "nats": ['ack_wait: "2s"', "max_ack_pending: 10000"],
    }
    assert all(bound in text for bound in bounds[kind])


def test_a_shipped_line_that_is_gone_is_noticed() -> None:
    """What a trial changes must stand once in the shipped file."""
    assert replaced("listen here", "here", "there") == "listen there"
    for text in ("listen", "here and here"):
        with pytest.raises(ValueError, match="times"):
            replaced(text, "here", "there")


@pytest.mark.parametrize(
    ("package", "version"),
    [("mosquitto", "2.0.21"), ("nats-server", "2.10.27"), ("rabbitmq-server", "4.0.5")],
)
def test_a_version_is_the_program_s(package: str, version: str, tmp_path: Path) -> None:
    """The packager's epoch and revision are left out."""
    assert Root(tmp_path, VERSIONS).version(package) == version


def test_slots_by_the_clock_are_judged() -> None:
    """A slot that never came, one with two values and one that is a watt off are each counted."""
    start_ms, slots = 1_700_000_000_000, 5
    last_ms = start_ms + (slots - 1) * kills.STEP_MS
    sent = [Sent(home, start_ms - 1 + at, 100) for home in kills.HOMES for at in (0, 10)]
    messages = {
        f"private/main/{home}": [
            json.dumps({"t": iso_time(start_ms + at * kills.STEP_MS), "value": 100}).encode()
            for at in range(slots)
        ]
        for home in kills.HOMES
    }
    right = kills.Judged(2, 3 * slots, 0, 0, 0)
    assert kills.by_clock(2, sent, messages, last_ms) == right
    assert right.is_kept()
    topic = f"private/main/{kills.HOMES[0]}"
    first, second = messages[topic][:2]
    messages[topic] += [first.replace(b"100", b"101")]
    messages[topic][1] = second.replace(b"100", b"99")
    del messages[f"private/main/{kills.HOMES[1]}"][3]
    judged = kills.by_clock(2, sent, messages, last_ms)
    assert judged == kills.Judged(2, 3 * slots - 1, 1, 1, 2)
    assert not judged.is_kept()
    assert judged.text == "2×: 14 slots, 1 missing, 1 doubled, 2 wrong"


def test_a_broker_that_keeps_nothing_may_lose_records_and_readings() -> None:
    """A record of the export that was not received is lost; a slot in neither is missing."""
    start_ms = 1_700_000_000_000
    sent = [Sent(home, start_ms - 1 + at, 100) for home in kills.HOMES for at in (0, 10)]
    times = [iso_time(start_ms + at * kills.STEP_MS) for at in range(3)]
    lines = [
        f"main,{home},{time},{value}"
        for home in kills.HOMES
        for time, value in zip(times, (100, 100, 7), strict=True)
    ]
    delivered = kills.exported("\n".join(["stream,meter,t,value", *lines]))
    received = {
        f"private/main/{home}": [json.dumps({"t": times[0], "value": 100}).encode()] for home in kills.HOMES
    }
    judged = kills.by_clock(1, sent, received, start_ms + 3 * kills.STEP_MS, delivered)
    assert judged == kills.Judged(1, 9, missing=3, doubled=0, wrong=3, lost=6)
    assert judged.text == "1×: 9 slots, 3 missing, 3 wrong, 6 lost by the broker"
    received["private/main/a"] = [json.dumps({"t": times[2], "value": 100}).encode()]
    assert kills.by_clock(1, sent, received, start_ms + 3 * kills.STEP_MS, delivered).doubled == 1


def _part(cell: brokers.Cell, seed: int, *judged: int) -> Part:
    return {**cell._asdict(), "kills": judged[0], "seed": seed, "judged": judged}


def test_a_run_of_kills_continues_in_its_log(tmp_path: Path) -> None:
    """Only the parts that the log lacks are run, each with a seed of its own; the table has the totals."""
    cell, other = (
        brokers.Cell("nats-2.9", "3.1.1", "agent killed"),
        brokers.Cell("nats-2.9", "3.1.1", "broker killed"),
    )
    assert [*brokers.cells(["nats-2.9", "nats-2.9-defaults"])] == [cell, other]
    for seed, judged in enumerate([(5, 20, 0, 0, 0, 0), (5, 22, 0, 0, 0, 0)]):
        with LongRun(tmp_path / "log", "brokers", ()) as log:
            assert [part for part in brokers.missing_parts(["nats-2.9"], 12, log) if part[0] == cell] == [
                (cell, size, seed + index) for index, size in enumerate([5, 5, 2][seed:])
            ]
            log.append(_part(cell, seed, *judged))
    with LongRun(tmp_path / "log", "brokers", ()) as log:
        assert cell.measured(log) == ("10×: 42 slots, all right", True)
        assert other.measured(log) is None
        assert [part[1:] for part in brokers.missing_parts(["nats-2.9"], 10, log)] == [(5, 0), (5, 1)]
        log.append({**cell._asdict(), "kills": 2, "seed": 2, "failed": "TimeoutError"})
        assert cell.measured(log) == ("failed: TimeoutError", False)


@pytest.mark.parametrize(
    ("name", "column", "exact"),
    [
        ("mosquitto-2.0.21", "broker killed", True),
        ("nats-2.10", "agent killed", True),
        ("aedes", "agent killed", True),
        ("aedes", "broker killed", False),
        ("amqtt", "agent killed", False),
    ],
)
def test_values_must_be_right_where_the_broker_keeps_messages(name: str, column: str, exact: bool) -> None:
    """A broker that keeps nothing may lose readings; everywhere each slot leaves once."""
    cell = brokers.Cell(name, "3.1.1", column)
    log = LongRun(None, "brokers", ())
    for judged, holds in (
        ((4, 9, 0, 0, 2, 0), not exact),
        ((4, 8, 1, 0, 0, 0), False),
        ((4, 9, 0, 1, 0, 0), False),
    ):
        log.parts = [_part(cell, 0, *judged)]
        measured = cell.measured(log)
        assert measured is not None
        assert measured.holds == holds


async def test_a_shorter_session_is_recognized_in_the_agent_s_warning() -> None:
    """The matrix reads the time that a broker grants from the warning of the agent's client."""

    async def script(wire: Wire) -> None:
        await wire.accept(properties=b"\x11\0\0\x0e\x10")
        await wire.end()

    async with FakeBroker(script) as broker, connected(broker.url) as peer:
        await peer.session()
        less = warned(peer, SHORTER)
    assert less is not None
    assert less.groups() == ("3600", str(WEEK_S))


def test_the_documentation_has_what_is_measured() -> None:
    """benchmarks/README.md has both tables: a row for each broker and each version of MQTT that it speaks."""
    text = (ROOT / "benchmarks" / "README.md").read_text()
    for head in tables([]).splitlines():
        assert head in text
    columns = len(report.DOES) + 2
    rows = [line for line in text.splitlines() if line.startswith("| ") and line.count("|") == columns + 1]
    names = [[cell.strip() for cell in line.split("|")[1:3]] for line in rows[1:]]
    expected = [(make, spoken) for make in MAKES for spoken in make.speaks]
    for (name, spoken), (make, version) in zip(names, expected, strict=True):
        assert name.startswith(make.name.partition("-")[0])
        assert name.endswith("defaults") != make.shipped
        assert spoken == version
