"""The loop of an operator: what the broker can see of the time that its work takes."""

import os
from pathlib import Path

from meteragent.agent.notify import Notify
from meteragent.mqtt import Endpoint
from meteragent.operators.clock import Clock
from meteragent.operators.configuration import Operation
from meteragent.operators.desk import Step
from meteragent.operators.link import REPORTS_MAX
from meteragent.operators.service import Service
from tests.support.crowd import LEADER, make_group
from tests.support.fake_session import FakeSession


class Still(Clock):
    """A clock that stands."""

    def now_s(self) -> int:
        """Return an instant."""
        return 0


async def test_paused_reading_does_not_resume_when_a_draw_ends() -> None:
    """A flood stops the reading; it goes on at the instant at which the total leaves, not after the draw."""
    operation = Operation(
        "leader", make_group(), LEADER, Endpoint("localhost", 1883, tls=False), Path("unused.db")
    )
    service = Service(operation, os.urandom, Still(), Notify())
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
