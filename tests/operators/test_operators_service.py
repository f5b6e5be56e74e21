"""The loop of an operator: what the broker can see of the time that its work takes."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from meteragent.agent.notify import Notify
from meteragent.crowd.machine import Effects, Machine
from meteragent.mqtt import Endpoint
from meteragent.operators.clock import Clock
from meteragent.operators.configuration import Operation
from meteragent.operators.desk import Arrival, Desk, Step
from meteragent.operators.link import REPORTS_MAX
from meteragent.operators.service import Service, _Worker
from meteragent.operators.store import Store
from tests.support.crowd import HELPER, LEADER, SLOT_S, Street, fixed_entropy, make_group
from tests.support.fake_session import FakeSession

SLOTS = 6


class Still(Clock):
    """A clock that stands until it is set."""

    def __init__(self, time_s: int = 0) -> None:
        self.time_s = time_s

    def now_s(self) -> int:
        """Return an instant."""
        return self.time_s


def make_service(clock: Clock, role: str = "leader", store: Path = Path("unused.db")) -> Service:
    """Return a service without a connection."""
    identity = LEADER if role == "leader" else HELPER
    endpoint = Endpoint("localhost", 1883, tls=False)
    return Service(Operation(role, make_group(), identity, endpoint, store), os.urandom, clock, Notify())


@contextmanager
def make_worker(machine: Machine, folder: Path) -> Iterator[_Worker]:
    """Return a worker with a store of its own."""
    with (
        Store.open(folder / "worker.db", machine.role, machine.group.id) as store,
        ThreadPoolExecutor(1) as thread,
    ):
        yield _Worker(thread, Desk(machine, fixed_entropy("desk")), store)


def slow_down(machine: Machine, clock: Still, cost_s: int) -> None:
    """Let each message that a machine takes cost some time of a clock."""
    take = machine.take

    def slow_take(topic: str, payload: bytes, now_s: int) -> Effects:
        clock.time_s += cost_s
        return take(topic, payload, now_s)

    machine.take = slow_take  # type: ignore[method-assign]  # a slow machine is the point


def many_requests() -> tuple[Street, list[Arrival], Still]:
    """Return a street, the requests of SLOTS slots that arrive at the helper at once, and a clock."""
    world = Street(make_group(slot_s="60", answer_s="604800"))
    slots_s = [SLOT_S + 60 * place for place in range(SLOTS)]
    for slot_s in slots_s:
        world.deliver({label: world.report(label, 1, slot_s) for label in "abc"}, slot_s)
    now_s = world.deadline_s(slots_s[-1])
    messages = world.leader.tick(now_s).messages
    assert len(messages) == SLOTS
    return world, [Arrival("request", message.payload, now_s) for message in messages], Still(now_s)


async def test_the_patience_with_each_request_begins_anew(tmp_path: Path) -> None:
    """Of requests that arrive at once, those that waited for the work of the first are dropped, not late.

    When the leader sends them again, each is answered.
    """
    world, arrivals, clock = many_requests()
    service = make_service(clock, "helper")
    slow_down(world.helper, clock, 25)
    with make_worker(world.helper, tmp_path) as worker:
        await service._round(worker, arrivals, [])
        assert service.vitals().counts == {
            "requests": 1,
            "slots_answer": 1,
            "dropped": SLOTS - 1,
        }
        assert service.vitals().loaded_s == 0
        for arrival in arrivals[1:]:
            await service._round(worker, [arrival._replace(at_s=clock.time_s)], [])
    assert service.vitals().counts["slots_answer"] == SLOTS
    assert len(service._link.departures) == SLOTS


async def test_an_answer_whose_instant_has_passed_is_dropped(tmp_path: Path) -> None:
    """An answer that took too long is committed and not sent; the same bytes leave when asked again."""
    world, arrivals, clock = many_requests()
    service = make_service(clock, "helper")
    slow_down(world.helper, clock, 130)
    with make_worker(world.helper, tmp_path) as worker:
        await service._round(worker, arrivals[:1], [])
        assert service.vitals().counts == {"requests": 1, "slots_answer": 1, "dropped": 1}
        assert len(service._link.departures) == 0
        slow_down(world.helper, clock, -130)
        await service._round(worker, [arrivals[0]._replace(at_s=clock.time_s)], [])
    assert service.vitals().counts == {"requests": 2, "slots_answer": 1, "dropped": 1}
    assert len(service._link.departures) == 1


async def test_paused_reading_does_not_resume_when_a_draw_ends() -> None:
    """A flood stops the reading; it goes on at the instant at which the total leaves, not after the draw."""
    service = make_service(Still())
    link, session = service._link, FakeSession()
    link._session = session
    for _ in range(REPORTS_MAX):
        link._on_message("crowd/elm-street/report/a", b"", 1, False, None)
    assert not session.reading
    await link.batch(REPORTS_MAX, 0)
    service._finish(Step(quiet_s=120), [])
    service._release(119)
    assert not session.reading
    service._release(120)
    assert session.reading
