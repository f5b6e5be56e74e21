"""The receipt of a revoked receiver, in words."""

import json
from pathlib import Path

from meteragent.agent.link.receipt import receipt_path, receipt_text
from meteragent.domain.grid import parse_time
from meteragent.store.grants import Grant, Receipt, Sent
from meteragent.wire.descriptor import describe_terms
from tests.support.stores import TERMS

NOON_MS = parse_time("2026-11-20T12:00:00Z")
HOUR_MS = 3_600_000
GRANT = Grant(3, "main-appliance", "app", "homes/{meter}", json.dumps({"url": "mqtts://app"}), NOON_MS, None)


def test_it_says_what_was_sent_and_on_which_terms() -> None:
    """Topics, times, counts, terms with their level, and what was deleted; each is a fact of the store."""
    id_ = describe_terms(TERMS).id
    sent = (
        Sent("homes/m1", id_, 2, NOON_MS, NOON_MS + HOUR_MS),
        Sent("homes/m1", "gone", 1, 0, 1000),
    )
    text = receipt_text(Receipt(GRANT, NOON_MS + 2 * HOUR_MS, "paused", 4, sent), [TERMS])
    assert "sent to:      mqtts://app, topic homes/{meter}\n" in text
    assert "revoked at:   2026-11-20T14:00:00Z (paused)\n" in text
    assert "records:      3, confirmed by the receiver's broker\n" in text
    assert f"  homes/m1: 2 of 2026-11-20T12:00:00Z to 2026-11-20T13:00:00Z, terms {id_}\n" in text
    assert "deleted:      4 messages" in text
    assert f"  {id_}: hides 110 Wh within any slot of 30min at level 1, for a window of 30min\n" in text
    assert "  gone: no longer in the store\n" in text


def test_it_says_so_if_nothing_was_sent() -> None:
    """A receiver that got nothing has a receipt as well, with its end."""
    grant = GRANT._replace(until_ms=NOON_MS)
    text = receipt_text(Receipt(grant, NOON_MS, "ended", 0, ()), [])
    assert "agreed until: 2026-11-20T12:00:00Z\n" in text
    assert "none, because no record was sent" in text
    assert "deleted:" not in text
    text = receipt_text(Receipt(grant, NOON_MS, "ended", 1, ()), [])
    assert "deleted:      1 message that the receiver's broker had not confirmed;" in text


def test_its_name_is_that_of_the_store_and_the_grant() -> None:
    """Each grant has a receipt of its own beside the store."""
    path = receipt_path(Path("/var/home.db"), Receipt(GRANT, 0, "ended", 0, ()))
    assert path == Path("/var/home.db.receipt-app-3.txt")
