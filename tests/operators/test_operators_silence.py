"""Slots without reports or requests are noticed, but not right after an operator has begun."""

import os
from pathlib import Path
from typing import Final

import pytest

from meteragent.crowd.machine import RowKey
from meteragent.mqtt import Endpoint
from meteragent.operators.clock import Clock
from meteragent.operators.configuration import Operation
from meteragent.operators.desk import LedgerLine, Step
from meteragent.operators.service import Service
from meteragent.operators.silence import PATIENCE_S, SilenceWatch
from meteragent.service.process import Notify
from tests.support.crowd import LEADER, SLOT_S, make_group

GROUP: Final = make_group()
LATER_S: Final = PATIENCE_S["leader"]
TABLES: Final = {"leader": "report", "helper": "batch"}


def silence(role: str, *slots: int) -> SilenceWatch:
    """Return what an operator knows that began with a slot and accepted messages for some."""
    silent = SilenceWatch(role, GROUP, SLOT_S)
    for slot_s in slots:
        silent.note_rows({RowKey(TABLES[role], slot_s, "a"): b"", RowKey("mark", 0, "serial"): b""})
    return silent


def test_a_slot_after_one_with_reports_is_missed() -> None:
    """It counts as silent from a minute after its deadline, until a report of a later slot comes."""
    silent, next_s = silence("leader", SLOT_S), SLOT_S + GROUP.slot_s
    deadline_s = GROUP.closing_s(next_s)
    assert silent.silent_slot_s(deadline_s + LATER_S - 1) is None
    assert silent.silent_slot_s(deadline_s + LATER_S) == next_s
    silent.note_rows({RowKey("report", next_s + GROUP.slot_s, "a"): b""})
    assert silent.silent_slot_s(deadline_s + LATER_S) is None


def test_an_operator_that_has_just_begun_waits() -> None:
    """Without any report, the first problem comes two slots and a deadline after the start."""
    silent = silence("leader")
    first_s = SLOT_S + 2 * GROUP.slot_s + GROUP.deadline_s + LATER_S
    assert silent.silent_slot_s(first_s - 1) is None
    assert silent.silent_slot_s(first_s) == SLOT_S + GROUP.slot_s


def test_deleted_rows_are_no_reports() -> None:
    """A slot that is closed deletes its reports, and that is no sign of a home."""
    silent = silence("leader", SLOT_S)
    next_s = SLOT_S + GROUP.slot_s
    silent.note_rows({RowKey("report", next_s, "a"): None})
    assert silent.silent_slot_s(GROUP.closing_s(next_s) + LATER_S) == next_s


def test_a_helper_waits_for_the_request_of_a_large_crowd() -> None:
    """A request leaves minutes after the deadline, so the helper waits for half an hour."""
    silent, next_s = silence("helper", SLOT_S), SLOT_S + GROUP.slot_s
    deadline_s = GROUP.closing_s(next_s)
    assert silent.silent_slot_s(deadline_s + 1799) is None
    assert silent.silent_slot_s(deadline_s + 1800) == next_s


def test_a_clock_that_is_set_back_reports_nothing() -> None:
    """A slot that has not ended is not missed."""
    assert silence("leader", SLOT_S).silent_slot_s(SLOT_S - 10 * GROUP.slot_s) is None


class Manual(Clock):
    """A clock that stands until it is set."""

    time_s = SLOT_S

    def now_s(self) -> int:
        """Return the time."""
        return self.time_s


def make_leader(clock: Clock) -> Service:
    """Return a leader that has not connected."""
    address = Endpoint("localhost", 1883, tls=False)
    return Service(
        Operation("leader", GROUP, LEADER, address, Path("unused.db")), os.urandom, clock, Notify()
    )


def test_homes_that_stop_reporting_are_a_problem() -> None:
    """The slot after one with reports has none by its deadline: `no_reports`, until another report comes."""
    clock, next_s = Manual(), SLOT_S + GROUP.slot_s
    leader = make_leader(clock)

    def codes() -> set[str]:
        return {problem.code for problem in leader.vitals().problems}

    leader._finish(Step(rows={RowKey("report", SLOT_S, "a"): b""}), [])
    clock.time_s = GROUP.closing_s(next_s) + LATER_S - 1
    assert "no_reports" not in codes()
    clock.time_s += 1
    assert "no_reports" in codes()
    leader._finish(Step(rows={RowKey("report", next_s + GROUP.slot_s, "a"): b""}), [])
    assert "no_reports" not in codes()


def test_the_log_shows_a_slot_in_utc(caplog: pytest.LogCaptureFixture) -> None:
    """A finished slot has the time that the ledger and the totals show."""
    caplog.set_level("INFO", "meteragent")
    line = LedgerLine(1_795_000_200, 1_795_003_301, "total", 10)
    make_leader(Manual())._finish(Step(lines=[line]), [])
    assert "slot 2026-11-18T11:10:00Z: total, homes: 10" in caplog.text
