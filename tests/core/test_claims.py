"""A stream that listens opens windows under topics that are its own, or that no other store releases on."""

import hashlib
import hmac
import json

from meteragent.core.opening import Claims
from meteragent.domain.commit import Destination, Snapshot
from tests.core.test_pipeline import SLOT, core, feed, records
from tests.support.terms import terms_with
from tests.support.world import BASE_MS, message

TOPIC = "private/m1/power"
OWN = Destination("main", TOPIC)
MINE, A, B = Destination("main", "mine"), Destination("main", "a"), Destination("other", "a")


def test_a_topic_is_asked_about_once() -> None:
    """What was asked, is known to be free, or was announced by this store is not asked about again."""
    claims = Claims({MINE: "1"}, None, listens=True)
    claims.ask_about([MINE, A, B, A])
    assert claims.take_questions() == [A, B]
    claims.ask_about([A])
    assert claims.take_questions() == []
    claims.confirm_free([B], 7)
    assert [claims.is_own(destination) for destination in (MINE, A, B)] == [True, False, True]
    assert [claims.is_own(B, start_ms) for start_ms in (6, 7)] == [False, True]


def test_what_is_forgotten_is_asked_again() -> None:
    """A meter that comes again is asked about again; what this store announced stays its own."""
    claims = Claims({MINE: "1"}, None, listens=True)
    claims.ask_about([A])
    claims.confirm_free([A], 7)
    assert claims.take_questions() == [A]
    claims.forget_answers([A, MINE])
    claims.ask_about([A, MINE])
    assert claims.take_questions() == [A]
    assert claims.is_own(MINE)
    assert not claims.is_own(A)


def test_who_does_not_listen_owns_every_topic() -> None:
    """Then nothing is asked."""
    claims = Claims({}, None, listens=False)
    claims.ask_about([A])
    assert claims.is_own(A)
    assert claims.take_questions() == []


def test_no_window_opens_before_the_answer() -> None:
    """Windows are held until the shell says that the topic is free; the next one opens, and is marked."""
    pipeline = core(terms_with(SLOT, hold_ms=8), listens=True, claim_key=b"key")
    effects = feed(pipeline, message(1, 100), message(3, 100))
    assert effects.ask_about == [OWN]
    effects = feed(pipeline, message(5, 100), message(7, 100))
    assert (effects.ask_about, pipeline._counts["held"], pipeline._counts["opened"]) == ([], 1, 0)
    assert not effects.commit.marks
    pipeline.admit_destinations([OWN], BASE_MS + 8)
    effects = feed(pipeline, message(9, 100), message(13, 100))
    assert pipeline._counts["opened"] == 2
    assert [time for time, _ in records(effects)] == ["2033-05-18T00:00:00.008Z"]
    [payload] = {row.payload for row in effects.commit.outgoing if row.retain}
    assert json.loads(payload)["store"] == hmac.new(b"key", TOPIC.encode(), hashlib.sha256).hexdigest()[:16]


def test_meters_of_a_restart_are_asked_about() -> None:
    """Whose topic was never announced is asked about again, before its first message."""
    running = core(listens=True)
    commit = feed(running, message(1, 100), message(3, 100)).commit
    state = commit.states["m1"]
    assert state is not None
    known = Snapshot(commit.marks, {"m1": state}, {SLOT.id: SLOT})
    again = core(known=known, listens=True)
    assert again.feed([], BASE_MS + 3, BASE_MS + 3).ask_about == [OWN]


def test_a_topic_that_is_withheld_opens_no_window() -> None:
    """Its interval is passed, counted and not charged; once it is no longer withheld windows open again."""
    pipeline = core()
    feed(pipeline, message(1, 100), message(3, 100))
    pipeline.withhold_from([OWN])
    commit = feed(pipeline, message(5, 100), message(7, 100)).commit
    assert (pipeline._counts["withheld"], pipeline._counts["opened"]) == (1, 0)
    assert commit.marks == {"m1": BASE_MS + 8}
    assert not commit.charges
    pipeline.withhold_from([])
    commit = feed(pipeline, message(9, 100), message(11, 100)).commit
    assert pipeline._counts["opened"] == 1
    assert commit.charges
