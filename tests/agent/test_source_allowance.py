"""Brokers that stop at fewer unacknowledged messages than the agent would accept are detected."""

import pytest

from meteragent.agent.link import source
from meteragent.agent.link.source import HELD_UNTESTED, PROMPT_S, SILENCES_S, InflightLimitProbe
from tests.agent.source_line import Line


class Capped:
    """A broker that sends `limit` unacknowledged messages at most; one comes from a meter every `every_s`."""

    def __init__(self, limit: int, meters: int, every_s: float) -> None:
        self.probe = InflightLimitProbe()
        self.early = 0
        self.longest_wait_s = 0.0
        self._limit = limit
        self._meters = meters
        self._every_s = every_s

    def run(self, messages: int) -> None:
        """Send messages; each reading stands until the next of its meter."""
        held: dict[int, None] = {}
        waiting: list[tuple[float, int]] = []
        sent = 0
        ticks = range(round(messages * self._every_s * 10))
        for now_s in (tick / 10 for tick in ticks):
            if now_s >= sent * self._every_s:
                waiting.append((now_s, sent))
                sent += 1
            while waiting and len(held) < self._limit:
                then_s, number = waiting.pop(0)
                self.longest_wait_s = max(self.longest_wait_s, now_s - then_s)
                self.probe.note_arrival(now_s)
                held[number] = None
                self.probe.note_held(len(held))
                held.pop(number - self._meters, None)
                self._bound(held)
            if held and self.probe.begin_test(len(held), now_s):
                del held[next(iter(held))]
                self.early += 1

    def _bound(self, held: dict[int, None]) -> None:
        while self.probe.limit is not None and len(held) > self.probe.limit:
            del held[next(iter(held))]
            self.early += 1


@pytest.mark.parametrize("limit", [4, 5, 10, 20, 32])
def test_a_broker_that_waits_is_found_out(limit: int) -> None:
    """If more readings stand than the broker sends, half of its limit is held, and all arrive soon."""
    broker = Capped(limit, meters=50, every_s=0.5)
    broker.run(400)
    assert broker.probe.limit == limit // 2
    assert broker.longest_wait_s < sum(SILENCES_S) + 3 * PROMPT_S


@pytest.mark.parametrize(
    ("meters", "every_s"),
    [(3, 60.0), (10, 0.5), (10, 10.3), (10, 11.3), (10, 20.0), (20, 15.0), (60, 1.0), (5, 240.0)],
)
def test_a_broker_that_does_not_wait_is_believed(meters: int, every_s: float) -> None:
    """If everything arrives, nothing is limited, and a handful is acknowledged early; of 3 meters none."""
    broker = Capped(1000, meters, every_s)
    broker.run(20 * meters)
    assert broker.probe.limit is None
    assert broker.early <= (10 if meters > HELD_UNTESTED else 0)


async def test_a_broker_that_has_let_out_twice_as_many_is_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a burst nothing that stands is acknowledged early, however long the silence: a crash may come."""
    monkeypatch.setattr(source, "SILENCES_S", (0.0,) * 3)
    line = Line(inflight=100)
    await line.connect()
    line.send(*(b"%d" % n for n in range(12)))
    tokens = line.take()
    line.source.acknowledge(tokens[6:])
    line.source.acknowledge([])
    assert line.session.unacknowledged_count == 6
    assert line.counts["acked_open"] == 0


async def test_what_a_silent_broker_waits_for_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a silence, only the oldest held message is acknowledged early, and is counted."""
    monkeypatch.setattr(source, "SILENCES_S", (0.0,) * 3)
    line = Line(inflight=100)
    await line.connect()
    line.send(*(b"%d" % n for n in range(6)))
    line.take()
    line.source.acknowledge([])
    line.source.acknowledge([])
    assert line.session.acknowledged == [b"0"]
    assert line.counts["acked_open"] == 1
