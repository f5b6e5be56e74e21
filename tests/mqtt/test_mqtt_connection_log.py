"""What is logged about a connection that fails again and again."""

import asyncio
import logging

import pytest

from meteragent.domain.errors import LinkError
from meteragent.mqtt import LoginRefused
from meteragent.mqtt.reconnect import REASONS_MAX, STABLE_S, SUMMARY_S, ConnectionLog


class Clock:
    """The time and the timers of an event loop, moved by a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self._loop = asyncio.new_event_loop()
        monkeypatch.setattr(self._loop, "time", lambda: self.now_s)
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self._loop)

    def pass_s(self, seconds: float) -> None:
        """Let time pass, and run the timers that are due."""
        self.now_s += seconds
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()

    def close(self) -> None:
        """Close the loop."""
        self._loop.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Clock:
    """A clock, with all log records kept."""
    caplog.set_level(logging.INFO, "meteragent")
    return Clock(monkeypatch)


DOWN = LinkError("cannot connect")


def test_a_broker_that_stays_away_is_logged_once_a_minute(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The first failure is logged at once, then one line a minute with the number of failures."""
    log = ConnectionLog("sink h:1", str)
    for _ in range(361):
        log.on_failed(DOWN, 0.0, 0.5)
        clock.pass_s(0.5)
    clock.close()
    assert caplog.messages == [
        "sink h:1: cannot connect; next try in 0.5 s",
        *(
            f"sink h:1: cannot connect; next try in 0.5 s ({count} failures so far)"
            for count in (121, 241, 361)
        ),
    ]
    assert SUMMARY_S == 60


def test_a_new_reason_is_logged_at_once_with_its_hint(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A broker that is back and refuses the login is a new failure; but the number of reasons is bounded."""
    log = ConnectionLog("source h:1", {"": "", "login_refused": "Set source.username."}.__getitem__)
    log.on_failed(DOWN, 0.0, 1.0)
    log.on_failed(LoginRefused("refused"), 0.0, 1.0)
    for number in range(20):
        log.on_failed(LinkError(f"reason {number}"), 0.0, 1.0)
    clock.close()
    assert caplog.messages[1] == (
        "source h:1: refused; next try in 1.0 s (2 failures so far). Set source.username."
    )
    assert len(caplog.messages) == REASONS_MAX


def test_the_return_is_logged_once_it_lasts(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A broker that accepts connections and ends them at once is not logged as back each time."""
    log = ConnectionLog("sink h:1", str)
    log.on_connected("MQTT 5")
    for _ in range(10):
        log.on_failed(DOWN, 1.0, 0.5)
        log.on_connected("MQTT 5")
        clock.pass_s(1)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "INFO"]
    clock.pass_s(STABLE_S)
    assert caplog.messages[-1] == "sink h:1: connected with MQTT 5 after 10 failures"
    log.on_failed(DOWN, STABLE_S, 0.5)
    clock.close()
    assert caplog.messages[-1] == "sink h:1: cannot connect; next try in 0.5 s"


def test_nothing_is_logged_after_the_end(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A return that was about to be logged is dropped with its connection."""
    log = ConnectionLog("sink h:1", str)
    log.on_failed(DOWN, 0.0, 0.5)
    log.on_failed(DOWN, 0.0, 0.5)
    log.on_connected("MQTT 5")
    log.close()
    clock.pass_s(2 * STABLE_S)
    clock.close()
    assert len(caplog.messages) == 1
