"""The loop of an operator: what the broker can see of the time that its work takes."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from meteragent.crowd.machine import Effects, Machine, response_due_s
from meteragent.mqtt import Endpoint
from meteragent.operators import link
from meteragent.operators.clock import TICK_S, Clock
from meteragent.operators.configuration import Operation
from meteragent.operators.desk import Arrival, Desk, Step
from meteragent.operators.link import REPORTS_MAX
from meteragent.operators.service import BATCH_MAX, Service, _Worker
from meteragent.operators.store import Store
from meteragent.service.process import Notify
from tests.support.crowd import HELPER, LEADER, SLOT_S, Street, fixed_entropy, make_group
from tests.support.fake_session import LIMIT_S, FakeSession
from tests.support.mqtt_peer import turns

SLOTS, DAY_S = 6, 86_400


class Still(Clock):
    """A clock that stands until it is set."""

    def __init__(self, time_s: int = 0) -> None:
        self.time_s, self.steps_s, self.pauses = time_s, 0, 0

    def step(self, step_s: int) -> None:
        """Set the clock."""
        self.time_s += step_s
        self.steps_s += step_s

    def now_s(self) -> int:
        """Return an instant."""
        return self.time_s

    def boot_ms(self) -> int:
        """Return the time without the steps of the clock."""
        return 1000 * (self.time_s - self.steps_s)

    def pause_s(self, _instant_s: int) -> float:
        """Return a moment, after which the clock is read again."""
        self.pauses += 1
        return 0.001


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
    take = machine.take_message

    def slow_take(topic: str, payload: bytes, now_s: int) -> Effects:
        clock.time_s += cost_s
        return take(topic, payload, now_s)

    machine.take_message = slow_take  # type: ignore[method-assign]  # a slow machine is the point


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


async def test_a_request_without_room_in_the_queue_is_an_overload(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is dropped and counted, and the operator says that the machine is too slow."""
    monkeypatch.setattr(link, "REQUEST_BYTES_MAX", 10)
    service = make_service(Still(), "helper")
    for _ in range(2):
        service._link.on_message("crowd/elm-street/request", bytes(6), 1, False, None)
    assert service.vitals().loaded_s is None
    service._finish(Step(), await service._link.take_batch(BATCH_MAX, 0))
    assert service.vitals().counts["dropped"] == 1
    assert service.vitals().loaded_s == 0


def flood(service: Service, reports: int) -> None:
    """Let reports arrive that need no acknowledgement."""
    for _ in range(reports):
        service._link.on_message("crowd/elm-street/report/a", b"", 0, False, None)


async def test_paused_reading_does_not_resume_when_a_draw_ends() -> None:
    """A flood stops the reading; it goes on at the instant at which the total leaves, not after the draw."""
    service, session = make_service(Still()), FakeSession()
    service._link._session = session
    flood(service, REPORTS_MAX)
    assert not session.reading
    taken = await service._link.take_batch(REPORTS_MAX, 0)
    service._finish(Step(quiet_s=120), [])
    service._finish(Step(), taken)
    service._release(119)
    assert not session.reading
    service._release(120)
    assert session.reading


@pytest.mark.parametrize("has_ended", [False, True])
async def test_paused_reading_does_not_show_whether_the_next_draw_has_ended(has_ended: bool) -> None:
    """At the instant of a total, reading stays paused if another draw runs, and also if it has ended."""
    service, session = make_service(Still()), FakeSession()
    service._link._session = session
    flood(service, REPORTS_MAX)
    service._finish(Step(quiet_s=120), await service._link.take_batch(REPORTS_MAX, 0))
    service._may_draw = not has_ended
    if has_ended:
        service._finish(Step(quiet_s=180), [])
    service._release(120)
    assert not session.reading
    service._may_draw = False
    service._finish(Step(quiet_s=180), [])
    service._release(179)
    assert not session.reading
    service._release(180)
    assert session.reading


@pytest.mark.parametrize("end", [1, 38, 39, 40, 41])
async def test_reading_stops_no_matter_when_a_draw_ends(end: int) -> None:
    """A flood during a draw and after it stops the reading at the same report, however long the draw took."""
    service, session, part = make_service(Still()), FakeSession(), REPORTS_MAX // 40
    service._link._session = session
    for unit in range(40):
        assert session.reading
        if unit == end:
            service._finish(Step(quiet_s=120), [])
            service._finish(Step(), await service._link.take_batch(BATCH_MAX, 0))
        flood(service, part)
    assert not session.reading


async def test_reports_are_released_at_their_instant_during_another_draw() -> None:
    """Reports that one draw held back are acknowledged at its total's instant, though the thread is busy."""
    clock = Still(100)
    service, session = make_service(clock), FakeSession()
    service._link._session = session
    session.send(service._link, b"1", "crowd/elm-street/report/a")
    service._finish(Step(quiet_s=120), await service._link.take_batch(BATCH_MAX, 0))
    service._may_draw = True
    releasing = asyncio.create_task(service._release_when_due())
    await turns(1)
    assert session.acknowledged == []
    clock.time_s = 120
    async with asyncio.timeout(LIMIT_S):
        while not session.acknowledged:
            await turns(1)
    releasing.cancel()
    assert session.acknowledged == [b"1"]


async def test_a_request_is_acknowledged_as_it_arrives() -> None:
    """Requests and answers are acknowledged before any work, reports only when they are released."""
    service, session = make_service(Still()), FakeSession()
    service._link._session = session
    session.send(service._link, b"report", "crowd/elm-street/report/a")
    session.send(service._link, b"answer", "crowd/elm-street/answer")
    assert session.acknowledged == [b"answer"]
    service._finish(Step(), await service._link.take_batch(BATCH_MAX, 0))
    assert session.acknowledged == [b"answer", b"report"]


async def test_a_draw_holds_acknowledgements_back() -> None:
    """Reports of the step of a draw, and of steps after it, are acknowledged when its total leaves."""
    clock = Still(100)
    service, session = make_service(clock), FakeSession()
    service._link._session = session
    service._finish(Step(quiet_s=120), [])
    for payload in (b"1", b"2"):
        session.send(service._link, payload, "crowd/elm-street/report/a")
        service._finish(Step(), await service._link.take_batch(BATCH_MAX, 0))
    clock.time_s = 119
    service._finish(Step(), [])
    assert session.acknowledged == []
    clock.time_s = 120
    service._finish(Step(), [])
    assert session.acknowledged == [b"1", b"2"]


async def test_a_tick_has_its_instant_however_late_it_runs(tmp_path: Path) -> None:
    """A request leaves 60 s after the instant of the tick that fixed its batch, not after the tick ran."""
    world = Street(make_group())
    world.deliver({label: world.report(label, 1) for label in "abc"})
    instant_s = world.group.closing_s(SLOT_S) + TICK_S
    service = make_service(Still(instant_s + 59))
    with make_worker(world.leader, tmp_path) as worker:
        await service._round(worker, [], [instant_s])
    assert (
        service._link.departures.next_s() == response_due_s(instant_s, 3) < response_due_s(instant_s + 59, 3)
    )


async def test_no_keys_are_published_after_a_jump_of_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The jump is a problem and is logged once; when the clock is set back, keys are published again."""
    monkeypatch.setattr("meteragent.operators.clock.was_synchronised", lambda: True)
    world, clock = Street(make_group()), Still(SLOT_S)
    service = make_service(clock, "helper")
    service._compare(clock.now_s())
    with make_worker(world.helper, tmp_path) as worker:
        for passed_s, step_s, lists in ((0, 3650 * DAY_S, 0), (DAY_S, 0, 0), (0, -3650 * DAY_S, 1)):
            clock.time_s += passed_s
            clock.step(step_s)
            service._compare(clock.now_s())
            await service._round(worker, [], [clock.now_s()])
            assert len(service._link.departures) == lists
            codes = {problem.code for problem in service.vitals().problems} - {"broker_down"}
            assert codes == ({"no_requests"} if lists else {"clock_ahead"})  # a day without requests is over
    [warning] = caplog.records
    assert warning.message.startswith("the clock has jumped ahead by 3,650 days")
