"""The broker of a receiver as the store keeps it: what withdraws descriptors once its table is gone."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from meteragent import config
from meteragent.agent.link import receivers
from meteragent.agent.link.outlets import withdraw_descriptors
from meteragent.agent.store_thread import StoreThread
from meteragent.domain.counters import Counts
from meteragent.domain.errors import ConfigError, StoreError
from meteragent.store import grants
from meteragent.store.grants import WantedGrant
from tests.support.contexts import context_of
from tests.support.stores import open_store

TEXT = """
source.url = "mqtt://home"
source.topic = "meters/{meter}/power"
source.kind = "power"
source.unit = "W"
[[receiver]]
name = "app"
url = "mqtts://app.example"
topic = "private/{meter}"
username = "home"
password_file = "/run/secret"
"""


def link(**changes: Any) -> str:
    """Return the link of the configuration's receiver, with changed facts."""
    [stream] = config.parse(TEXT).stream
    facts = json.loads(receivers.link_text(stream, stream.receivers[0])) | changes
    return json.dumps(facts)


BAD = {
    "of a version with another key": link(compress=True),
    "with another protocol": link(protocol="quic"),
    "with a number as file": link(ca_file=5),
    "with a list as user": link(username=["home"]),
    "that is no JSON": "mqtt://app",
    "that is a list": "[]",
    "without an address": "{}",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_link_that_this_version_does_not_write_is_a_clear_error(text: str) -> None:
    """It names the receiver, and quotes nothing of the link, which an operator may have written."""
    with pytest.raises(StoreError) as caught:
        receivers.link_endpoint(text, "receiver app")
    assert str(caught.value) == "receiver app: its broker's settings in the store cannot be read"
    assert caught.value.__suppress_context__


def test_a_password_that_is_gone_is_the_operators_to_restore() -> None:
    """The link can be read, but the file that it names is missing."""
    with pytest.raises(ConfigError, match=r"receiver app\.password_file"):
        receivers.link_endpoint(link(password_file="/nowhere/secret"), "receiver app")


@pytest.mark.parametrize("text", [link(compress=True), link(password_file="/nowhere/secret")])
async def test_a_withdrawal_that_is_not_possible_ends_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    """The agent must not end because of a receiver that it no longer has."""
    counts = Counts()
    store = open_store(tmp_path / "db")
    grants.replace_grants(store, [WantedGrant("main-day", "app", "app/{meter}", link(), 0, None)], {}, 0)
    grants.replace_grants(store, [], {}, 1)
    with store.transaction() as tx:
        tx.execute("UPDATE receiver SET link = ?", (text,))
    [receipt] = grants.due_receipts(store.connection)
    thread = StoreThread(store, 0, 2**30, [], counts)
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(60):
            await withdraw_descriptors(receipt.grant, context_of(config.parse(TEXT), thread, counts))
    await thread.close()
    assert "receiver app was revoked, but its descriptors stay: receiver app" in caplog.text


async def test_an_action_that_nobody_waits_for_takes_effect(tmp_path: Path) -> None:
    """Who asked has given up, as on a slow disk, while the row was being written: the agent settles it."""
    counts, store = Counts(), open_store(tmp_path / "db")
    thread = StoreThread(store, 0, 2**30, [], counts)
    context = context_of(config.parse(TEXT), thread, counts)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await receivers.act(context, "end", "app", "command")
    assert context.has_acted.is_set()
    await thread.close()
    with open_store(tmp_path / "db") as again:
        assert grants.last_actions(again.connection)["app"].verb == "end"


def test_a_receipt_that_cannot_be_written_is_written_later(tmp_path: Path) -> None:
    """The error names the file. The receiver stays revoked, and the next settlement writes its receipt."""
    store = open_store(tmp_path / "db")
    receivers.apply_admissions(config.parse(TEXT), store, 0)
    source, _, _ = TEXT.partition("[[receiver]]")
    no_receivers = config.parse(f'{source}sink.topic = "private/{{meter}}"\n')
    [grant] = grants.active_grants(store.connection)
    path = tmp_path / f"db.receipt-app-{grant.id}.txt"
    obstacle = tmp_path / f"{path.name}.new"
    obstacle.mkdir()
    with pytest.raises(StoreError, match=f"cannot write the receipt {path}: Is a directory"):
        receivers.apply_admissions(no_receivers, store, 1000)
    assert grants.active_grants(store.connection) == []
    obstacle.rmdir()
    receivers.apply_admissions(no_receivers, store, 2000)
    assert path.read_text().startswith("Receipt: records of stream")
    assert grants.due_receipts(store.connection) == []
