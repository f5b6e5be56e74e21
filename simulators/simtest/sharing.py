"""The part of the generator that draws receivers: they share the streams of a schedule, and come and go."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random

from simulators.simtest import schedule as s
from simulators.simtest.model.receivers import BROKERS, Receiver
from simulators.simtest.model.setting import PACES, Setting
from simulators.simtest.schedule import Configuration, Event

SHARED_PACE = {"fast": "minutes", "slow": "slow", "autumn": "autumn"}
"""The pace of schedules with receivers or a crowd, by the pace that was drawn at first.

Receivers need minutes for their admission, for which a fast schedule is too short.
"""
SHARED = {"fast": 0.06, "slow": 0.3, "autumn": 0.3}
"""The share of the schedules without prices in which receivers share the streams, by pace."""
_NAMES = ("app", "utility", "tariff", "landlord")
_PLACES = ("settle", "settle", "settle", "commit-torn", "publish-after", "confirm", "now")
_TICK_MS = 100
ACTED_SHARE = 0.6
"""The share of the schedules with receivers in which a person acts on the receivers."""
_VERBS = ("pause", "pause", "pause", "resume", "resume", "resume", "end")


class Sharing:
    """The receivers of a schedule, with their own random number generator."""

    def __init__(self, random: Random, end_ms: int) -> None:
        self._random = random
        self._end_ms = end_ms

    def share(self, configurations: list[Configuration]) -> tuple[list[Configuration], list[Event]]:
        """Return the configurations, most of them with shared streams, and the added events.

        Further configurations, in which receivers change, are appended.
        """
        first = [self._draw_receivers(number) for number, _ in enumerate(configurations[0])]
        shared = [_with(configurations[0], first)]
        for configuration in configurations[1:]:
            is_plain = self._random.random() < 0.1
            shared.append(configuration if is_plain else _with(configuration, self._change(first)))
        former, events = first, list[Event]()
        for _ in range(self._random.choice([1, 2, 3])):
            former = self._change(former)
            events.append(self._draw_end(len(shared)))
            shared.append(_with(configurations[0], former))
        if self._random.random() < 0.4:
            down_ms = self._random.choice([100, 1500, 4000])
            events.append(s.Drop(self._random.randrange(self._end_ms), BROKERS[1], down_ms))
        return shared, events

    def _draw_receivers(self, number: int) -> list[Receiver]:
        """Draw the receivers of a stream; the receivers of two streams have different names."""
        names = _NAMES[:3] if number == 0 else _NAMES[3:]
        count = self._random.choice([1, 2, 2, 3])
        return [self._draw_times(Receiver(name, 0, self._random.choice(BROKERS))) for name in names[:count]]

    def _draw_times(self, receiver: Receiver) -> Receiver:
        last = self._end_ms // _TICK_MS
        start = self._random.randrange(last) if self._random.random() < 0.25 else None
        end = self._random.randrange((start or 0) + 1, last + 20) if self._random.random() < 0.35 else None
        return receiver._replace(start=start, end=end)

    def _change(self, receivers: list[list[Receiver]]) -> list[list[Receiver]]:
        """Pause, resume, move or remove receivers, or change their times.

        If all receivers of a stream would be removed, they stay unchanged.
        """
        changed = [[item for receiver in peers for item in self._change_one(receiver)] for peers in receivers]
        return [peers or former for peers, former in zip(changed, receivers, strict=True)]

    def _change_one(self, receiver: Receiver) -> list[Receiver]:
        match self._random.choice(["keep", "keep", "pause", "pause", "move", "remove", "times", "times"]):
            case "pause":
                return [receiver._replace(is_paused=not receiver.is_paused)]
            case "move" if self._random.random() < 0.5:
                return [receiver._replace(topic=1 - receiver.topic)]
            case "move":
                return [receiver._replace(broker=self._random.choice(BROKERS))]
            case "remove":
                return []
            case "times":
                return [self._draw_times(receiver)]
        return [receiver]

    def _draw_end(self, number: int) -> Event:
        """Draw the end of a process whose successor has configuration `number`."""
        at_ms, down_ms = self._random.randrange(200, self._end_ms), self._random.choice([0, 50, 300, 2500])
        if self._random.random() < 0.4:
            return s.Stop(at_ms, down_ms, number)
        return s.Crash(at_ms, down_ms, number, self._random.choice(_PLACES), self._random.randrange(1000))


def draw_actions(random: Random, configurations: Sequence[Configuration], end_ms: int) -> Iterator[Event]:
    """Draw what a person does to receivers of any configuration, and perhaps a crash of the writer."""
    settings = [setting for configuration in configurations for setting in configuration]
    names = sorted({receiver.name for setting in settings for receiver in setting.peers})
    if not names or random.random() >= ACTED_SHARE:
        return
    for _ in range(random.choice([1, 2, 4, 6])):
        at_ms, name = random.randrange(end_ms), random.choice(names)
        yield s.Act(at_ms, random.choice(_VERBS), name)
        if random.random() < 0.3:
            yield s.Act(at_ms + random.choice([0, 3, 200, 1000]), "resume", name)
    if random.random() < 0.3:
        at_ms, down_ms = random.randrange(end_ms), random.choice([0, 300, 2500])
        yield s.Crash(at_ms, down_ms, random.randrange(len(configurations)), "act", random.randrange(1000))


def slowed(pace: str, events: Iterable[Event]) -> Iterator[Event]:
    """Yield events drawn at `pace`, adapted to the pace of schedules with receivers or a crowd.

    The times of readings and the steps of clocks are scaled; all other events stay the same.
    """
    factor = PACES[SHARED_PACE[pace]].tick_ms // PACES[pace].tick_ms
    for event in events:
        match event:
            case s.Read(time_ms=time_ms):
                yield replace(event, time_ms=time_ms * factor)
            case s.Clock(jump_ms=jump_ms):
                yield replace(event, jump_ms=jump_ms * factor)
            case _:
                yield event


def _with(configuration: Configuration, receivers: list[list[Receiver]]) -> Configuration:
    """Return a configuration whose streams are shared, on the wall clock, with names ending in `-shared`.

    A stream without an entry in `receivers` is left out.
    """
    return tuple(_share(setting, peers) for setting, peers in zip(configuration, receivers, strict=False))


def _share(setting: Setting, peers: list[Receiver]) -> Setting:
    text = ",".join(map(str, peers))
    return replace(setting, name=f"{setting.name}-shared", clock="wall", receivers=text)
