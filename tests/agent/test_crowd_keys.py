"""The operators' keys at a home: which lists it takes, and when it uses them."""

import asyncio
from pathlib import Path

import pytest

from meteragent.agent.link.crowd import OperatorKeys, load_operator_keys
from meteragent.agent.store_thread import StoreThread
from meteragent.crowd.message import KeyList
from meteragent.domain.counters import Counts
from meteragent.store import crowd_keys
from tests.support.crowd import HELPER, LEADER, SLOT_S, Street, make_group
from tests.support.fake_session import FakeSession
from tests.support.mqtt_peer import turns
from tests.support.stores import open_store

START_MS = 1000 * SLOT_S
WORLD = Street(make_group())
SERIAL = WORLD.lists["helper"].serial


def signed(role: str, serial: int = SERIAL, identity: str = "") -> bytes:
    """Return a role's list with a serial, signed by its own operator or by the other role's."""
    signer = {"leader": LEADER, "helper": HELPER}[identity or role]
    listed = WORLD.lists[role]
    return KeyList(role, serial, listed.keys).encode(WORLD.group.id, signer.sign)


class Home:
    """The keys of a home, and what it commits."""

    def __init__(self) -> None:
        self.commits: list[tuple[str, int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.keys = OperatorKeys(WORLD.group, {}, self._commit)

    async def _commit(self, role: str, serial: int, _payload: bytes) -> None:
        await self.gate.wait()
        self.commits.append((role, serial))

    @property
    def may_open(self) -> bool:
        """Return whether a slot may open."""
        return self.keys.may_open("h1", START_MS)

    async def receive(self, *messages: tuple[str, bytes]) -> None:
        """Receive messages on a new connection."""
        task = asyncio.ensure_future(self.keys.serve(FakeSession()))
        for topic, payload in messages:
            self.keys.keep_key_list(f"crowd/elm-street/keys/{topic}", payload)
            await turns(20)
        task.cancel()
        await asyncio.wait({task})


async def test_both_lists_let_a_slot_open_and_other_names_do_not() -> None:
    """One list is not enough; a meter whose name is not a valid label never opens a slot."""
    home = Home()
    await home.receive(("leader", signed("leader")))
    assert not home.may_open
    await home.receive(("helper", signed("helper")))
    assert home.may_open
    assert not home.keys.may_open("a home", START_MS)
    assert not home.keys.may_open("h1", START_MS + 30 * 86_400_000)  # no key of that day


async def test_a_list_is_used_only_after_its_commit() -> None:
    """Until a list is committed, none of its keys seals anything."""
    home = Home()
    await home.receive(("leader", signed("leader")))
    home.gate.clear()
    await home.receive(("helper", signed("helper")))
    assert not home.may_open
    assert home.commits == [("leader", WORLD.lists["leader"].serial)]


@pytest.mark.parametrize(
    "payload",
    [
        signed("leader"),
        signed("helper", identity="leader"),
        signed("helper", SERIAL - 1),
        b"",
        signed("helper", SERIAL + 2)[:-1],
    ],
    ids=["the leader's list", "the leader's signature", "an older serial", "nothing", "cut short"],
)
async def test_a_list_that_is_refused_changes_nothing(
    payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A list must have its topic's role, that role's signature, and no older serial; refusals are logged."""
    home = Home()
    await home.receive(("helper", signed("helper", SERIAL + 1)))
    await home.receive(("helper", payload))
    assert home.commits == [("helper", SERIAL + 1)]
    assert "refused" in caplog.text


async def test_of_two_lists_with_one_serial_the_first_counts() -> None:
    """A broker cannot switch a home between two lists that an operator signed with the same serial."""
    home = Home()
    await home.receive(("helper", signed("helper")))
    keys = WORLD.lists["helper"].keys
    other = KeyList("helper", SERIAL, keys[:1]).encode(WORLD.group.id, HELPER.sign)
    await home.receive(("helper", other), ("leader", signed("leader")))
    assert home.commits == [("helper", SERIAL), ("leader", WORLD.lists["leader"].serial)]
    assert home.keys.may_open("h1", 1000 * 86_400 * keys[1][0])


async def test_lists_outlive_a_restart_and_serials_never_fall(tmp_path: Path) -> None:
    """After a restart a slot opens without the broker; the store keeps the highest serial of each role."""
    with open_store(tmp_path / "db") as store:
        group_id = WORLD.group.id.hex()
        for role in ("leader", "helper"):
            crowd_keys.commit_keys(store, group_id, role, SERIAL + 5, signed(role, SERIAL + 5))
        crowd_keys.commit_keys(store, group_id, "helper", SERIAL, signed("helper"))
        assert crowd_keys.read_keys(store.connection, group_id)["helper"] == (
            SERIAL + 5,
            signed("helper", SERIAL + 5),
        )
        home = load_operator_keys(WORLD.group, StoreThread(store, 0, 2**20, {"main"}, Counts()))
        assert home.may_open("h1", START_MS)
        assert crowd_keys.read_keys(store.connection, "0" * 64) == {}
