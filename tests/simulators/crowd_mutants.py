"""Agents with a mistake in their part of a crowd, each of which the simulation test must find."""

import sqlite3
from collections.abc import Collection

import pytest

from meteragent.agent.link.sink import Sink
from meteragent.crowd import share
from meteragent.store import outbox


def reuses_a_pad(patch: pytest.MonkeyPatch) -> None:
    """The difference of two shares tells the difference of two slots."""
    patch.setattr("meteragent.crowd.home._PAD_BITS", 1)


def sends_a_report_after_its_deadline(patch: pytest.MonkeyPatch) -> None:
    """A report that came too late tells the leader more than the total."""
    patch.setattr(Sink, "_is_too_late", lambda *_: False)


def keeps_delivered_reports(patch: pytest.MonkeyPatch) -> None:
    """Reports stay in the store after their delivery."""
    mark = outbox.mark_delivered

    def kept(tx: sqlite3.Connection, ids: Collection[int], now_ms: int) -> None:
        reports = tx.execute("SELECT until_ms, id FROM outbox WHERE until_ms IS NOT NULL").fetchall()
        tx.execute("UPDATE outbox SET until_ms = NULL")
        mark(tx, ids, now_ms)
        tx.executemany("UPDATE outbox SET until_ms = ? WHERE id = ?", reports)

    patch.setattr(outbox, "mark_delivered", kept)


def believes_a_forged_list(patch: pytest.MonkeyPatch) -> None:
    """One operator puts a list of keys of its own in the other's place, and opens pads and shares."""
    patch.setattr("meteragent.crowd.home.is_signed", lambda *_: True)


def rounds_a_share_up(patch: pytest.MonkeyPatch) -> None:
    """Totals have a bias."""
    close = share.close_accumulator
    patch.setattr(share, "close_accumulator", lambda *arguments: (close(*arguments) + 1) % share.MODULUS)


CROWD_MUTANTS = (
    (reuses_a_pad, "a pad is used twice", 46),
    (sends_a_report_after_its_deadline, "a report leaves after its deadline", 60),
    (keeps_delivered_reports, "does not hold the commits", 60),
    (believes_a_forged_list, "its operator did not sign", 57),
    (rounds_a_share_up, "share and pad do not add up to the energy", 60),
)
