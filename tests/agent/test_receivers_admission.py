"""A receiver that is admitted while others get the stream: nobody lacks a window that was promised.

The agent's core, store and settlement of receivers run in the test's own time; the answer to the question
whether another agent releases there takes up to 20 s, as `other_agent` allows.
"""

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from meteragent import config
from meteragent.agent import parts
from meteragent.agent.link import receivers
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.domain.commit import Destination
from meteragent.domain.counters import Counts
from meteragent.domain.grid import iso_time, parse_time
from meteragent.domain.reading import Message
from meteragent.domain.units import DAY_MS, MINUTE_MS
from meteragent.privacy import SeededBits
from meteragent.store import grants, outbox, transaction
from tests.support.stores import open_store

NOON_MS, SLOT_MS = parse_time("2027-03-01T12:00:00Z"), 30 * MINUTE_MS
ADMISSION_MS = NOON_MS + 2 * SLOT_MS
"""The boundary around which the second receiver is admitted."""
END_MS = ADMISSION_MS + 3 * SLOT_MS
ANSWER_MS, STEP_MS = 20_000, 5000
TEXT = """
source.url = "mqtt://home"
source.topic = "meters/{meter}/power"
source.kind = "power"
source.unit = "W"
window.lateness = "0s"
sink.spread = "0s"
[[receiver]]
name = "utility"
topic = "utility/{meter}"
"""


class Home:
    """A home with two meters, the second of which begins to send when it is told to.

    On the topics `foreign`, another store has released.
    """

    def __init__(self, folder: Path, answer_ms: int) -> None:
        self.store = open_store(folder / "db")
        self.answer_ms = answer_ms
        self.now_ms = NOON_MS - MINUTE_MS
        self.meters = ["m1"]
        self.foreign: set[str] = set()
        self.answered_ms: dict[Destination, int] = {}
        self.charged = 0

    def start(self, app: str | None) -> None:
        """Settle the receivers, and begin a process; `app` is more about the second receiver."""
        table = "" if app is None else f'[[receiver]]\nname = "app"\ntopic = "app/{{meter}}"\n{app}\n'
        self.config = config.parse(TEXT + table)
        receivers.apply_admissions(self.config, self.store, self.now_ms)
        [stream] = self.config.stream
        get = tuple(grant.receiver for grant in grants.active_grants(self.store.connection, stream.name))
        others = config.other_charges_per_day(self.config, stream)
        core = replace(parts.core_of(stream, others, None, b""), receivers=get, listens=True)
        snapshot = self.store.snapshot(core.name)
        self.core = Pipeline(core, snapshot, Spending(), SeededBits(1), Counts())
        self.answers: list[tuple[int, list[Destination]]] = []
        self.settled_ms = receivers.next_admission_ms(self.config, self.now_ms)

    def run(self, until_ms: int, app: str | None = None) -> None:
        """Feed readings, answer questions and commit, step by step; settle again when it is time."""
        while self.now_ms < until_ms:
            if self.settled_ms is not None and self.now_ms >= self.settled_ms:
                self.start(app)
            for time_ms, destinations in self.answers:
                clear = [item for item in destinations if item.topic not in self.foreign]
                if time_ms <= self.now_ms:
                    self.core.admit_destinations(clear, self.now_ms)
                    self.answered_ms = dict.fromkeys(clear, self.now_ms) | self.answered_ms
            meters = [] if self.now_ms % MINUTE_MS else self.meters
            readings = [
                Message(f"meters/{meter}/power", b"250", False, self.now_ms, None) for meter in meters
            ]
            effects = self.core.feed(readings, self.now_ms, self.now_ms)
            if effects.ask_about:
                self.answers.append((self.now_ms + self.answer_ms, effects.ask_about))
            transaction.commit(self.store, effects.commit, [], None, DAY_MS)
            self.charged += sum(windows.total() for windows in effects.commit.charges.values())
            self.store.erase_log()
            self.assert_asked_first()
            is_quiet = 0 < (self.now_ms - ADMISSION_MS) % SLOT_MS < SLOT_MS // 2
            self.now_ms += 12 * STEP_MS if is_quiet else STEP_MS

    def assert_asked_first(self) -> None:
        """Nothing waits for the second receiver before the question about its topics is answered."""
        topics = {destination.topic for destination in self.answered_ms}
        for topic, _ in self.waiting("app"):
            assert "/".join(topic.split("/")[:2]) in topics

    def waiting(self, name: str) -> list[tuple[str, bytes]]:
        """Return topic and payload of what waits for a receiver, in order."""
        queues = [grant.queue for grant in grants.active_grants(self.store.connection) if grant.name == name]
        return [
            (row.topic, row.payload)
            for queue in queues
            for row in outbox.pending_rows(self.store.connection, queue, 2**62, 10_000)
        ]

    def windows_ms(self, name: str, meter: str) -> list[int]:
        """Return the starts of the windows that a receiver has of a meter; a descriptor precedes each."""
        starts_ms: list[int] = []
        described = set()
        for topic, payload in self.waiting(name):
            facts = json.loads(payload)
            if topic.startswith(f"{name}/{meter}/privacy"):
                described.add(facts["id"])
            elif topic == f"{name}/{meter}":
                assert facts["d"] in described
                starts_ms.append(parse_time(facts["t"]))
        return starts_ms


def windows_between(start_ms: int, end_ms: int) -> list[int]:
    """Return the starts of the windows that begin at or after a time, and end by another."""
    first_ms = -(-start_ms // SLOT_MS) * SLOT_MS
    return list(range(first_ms, end_ms - SLOT_MS + 1, SLOT_MS))


@pytest.mark.parametrize("seed", range(6, 14))
def test_nobody_lacks_a_promised_window(tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Whenever the second receiver is admitted, the first gets every window, and it every one of its own.

    Its own begin half a minute after the agent learns of it, or at its start if that is later; the log says
    so. If the agent restarts before it was sent anything, the half minute begins again. This holds for a
    meter that is new at the same time, too.
    """
    random = Random(seed)
    home = Home(tmp_path, answer_ms=random.randrange(ANSWER_MS))
    known_ms = ADMISSION_MS - random.choice([0, 5, 10, 15, 25, 30, 35, 60, 600]) * 1000
    restart_ms = known_ms + random.choice([0, 5, 20, 30, 60, 900]) * 1000
    start_ms = random.choice([0, 0, ADMISSION_MS, ADMISSION_MS + SLOT_MS])
    app = f"start = {iso_time(start_ms)}" if start_ms else ""
    with home.store, caplog.at_level("INFO"):
        home.start(None)
        home.run(known_ms)
        home.start(app)
        home.meters.append("m2")
        home.run(restart_ms, app)
        admitted_ms = known_ms if home.waiting("app") else home.now_ms
        home.start(app)
        home.run(END_MS + MINUTE_MS, app)
        first_ms = max(start_ms, admitted_ms + receivers.NOTICE_MS)
        promised = windows_between(first_ms, END_MS)
        assert home.windows_ms("utility", "m1") == windows_between(NOON_MS, END_MS)
        assert home.windows_ms("app", "m1") == promised
        assert home.windows_ms("app", "m2")[-len(promised) + 1 :] == promised[1:]
    assert f"receiver app gets the windows that begin at {iso_time(promised[0])} or later" in caplog.text
    is_late = start_ms > 0 and promised[0] > start_ms
    assert ("its start" in caplog.text) == is_late


@pytest.mark.parametrize("seed", range(4))
def test_a_foreign_descriptor_holds_back_its_receiver_only(tmp_path: Path, seed: int) -> None:
    """Nobody else lacks a window; the receiver gets those that open once its topic is found to be clear.

    What opened before is never its own, because another store has released these intervals to it: not even
    the rest of a window that is open then. A window is charged once, however many receivers get it.
    """
    random = Random(seed)
    home = Home(tmp_path, answer_ms=random.randrange(ANSWER_MS))
    home.meters.append("m2")
    home.foreign = {"app/m1"}
    restart_ms = ADMISSION_MS + random.randrange(SLOT_MS)
    with home.store:
        home.start("")
        home.run(restart_ms)
        assert home.windows_ms("app", "m1") == []
        home.foreign.clear()
        home.start("")
        home.run(END_MS + MINUTE_MS)
        [clear_ms] = [time_ms for item, time_ms in home.answered_ms.items() if item.topic == "app/m1"]
        every = windows_between(NOON_MS, END_MS)
        assert clear_ms >= restart_ms
        assert home.windows_ms("app", "m1") == [start_ms for start_ms in every if start_ms >= clear_ms]
        assert home.windows_ms("app", "m2") == every
        assert home.windows_ms("utility", "m1") == home.windows_ms("utility", "m2") == every
        assert home.charged == 2 * (len(every) + 1)  # the last one is open


def test_no_window_opens_that_every_receiver_has_from_another_store(tmp_path: Path) -> None:
    """Nothing is charged then, and the mark does not rise."""
    home = Home(tmp_path, answer_ms=0)
    home.foreign = {"utility/m1", "app/m1"}
    with home.store:
        home.start("")
        home.run(ADMISSION_MS)
        assert home.charged == 0
        assert home.store.snapshot("main-appliance").marks == {}
