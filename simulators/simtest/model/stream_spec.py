"""The part of a stream that the model knows: its public settings, and the keys of its names and delays."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from simulators.simtest.model.names import PLACEHOLDER, public_name
from simulators.simtest.model.receivers import Grant, Share
from simulators.simtest.model.setting import Pace, Setting
from simulators.simtest.model.spec import WindowSpec
from simulators.simtest.model.windows import Windows


class StreamNames(NamedTuple):
    """How a core names its stream and meters: the template of its own sink, and the keys of its names.

    The keys are those of delays and pseudonyms. A stream that receivers share has no sink of its own.
    """

    stream: str
    sink_topic: str
    secret: bytes
    pseudonym_key: bytes | None


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """The public settings of a stream, and the keys of its delays and names.

    `limit` is the budget as epsilon in 1/W per day; None if there is none. `grants` holds the grants of the
    receivers that share the stream; it is None if the stream is not shared. `has_keys` returns whether both
    operators' keys for the slot that starts at a given time are known; it is None if the stream is not part
    of a crowd.
    """

    names: StreamNames
    windows: Windows
    ahead_ms: int
    forget_ms: int
    spread_ms: int
    catch_up_ms: int
    max_meters: int
    limit: Fraction | None
    is_stamped: bool = False
    has_prices: bool = False
    grants: tuple[Grant, ...] | None = None
    has_keys: Callable[[int], bool] | None = None

    @classmethod
    def of(
        cls, names: StreamNames, settings: Sequence[Setting], pace: Pace, group_ids: Sequence[str]
    ) -> "StreamSpec":
        """Return a stream of a configuration; `group_ids` holds the id of each stream's group, or "".

        `Oracle.restore` adds grants and keys.
        """
        every = {
            setting.name: Windows(setting, pace, group_id)
            for setting, group_id in zip(settings, group_ids, strict=True)
        }
        windows = every.pop(names.stream)
        charges = (stream.ordinary.charge_per_day for stream in every.values() if stream.setting.is_received)
        others_per_day = sum(charges, Fraction(0))
        windows, setting = replace(windows, others_per_day=others_per_day), windows.setting
        return cls(
            names,
            windows,
            ahead_ms=setting.ahead * pace.tick_ms,
            forget_ms=setting.forget * pace.tick_ms,
            spread_ms=setting.spread * pace.tick_ms,
            catch_up_ms=setting.catch_up * pace.tick_ms,
            max_meters=setting.meters,
            limit=setting.limit * windows.largest_charge if setting.limit else None,
            is_stamped=bool(setting.stamped),
            has_prices=windows.ordinary.price is not None,
            grants=() if setting.receivers else None,
        )

    @property
    def ordinary(self) -> WindowSpec:
        """An ordinary window."""
        return self.windows.ordinary

    def queues_at(self, window_ms: int, ends_ms: Iterable[int]) -> frozenset[str]:
        """Return the queues of the receivers that get any of a window's slots, whose ends are `ends_ms`."""
        if self.grants is None:
            return frozenset({self.names.stream})
        return frozenset(g.queue for g in self.grants for end_ms in ends_ms if g.gets(window_ms, end_ms))

    def destinations_of(self, meter: str) -> frozenset[tuple[str, str]]:
        """Return the queue and the topic of a meter's messages for each receiver."""
        queues = [self.names.stream] if self.grants is None else [grant.queue for grant in self.grants]
        return self.destinations(queues, public_name(self.names.pseudonym_key, meter))

    def destinations(self, queues: Collection[str], public_id: str) -> frozenset[tuple[str, str]]:
        """Return the queues and topics of the messages about a meter for the receivers with these queues."""
        templates = {g.queue: g.topic for g in self.grants or ()}
        templates[self.names.stream] = self.names.sink_topic
        return frozenset((queue, templates[queue].replace(PLACEHOLDER, public_id)) for queue in queues)


def shares_of(setting: Setting, pace: Pace) -> list[Share]:
    """Return the receivers that share a stream, in their order."""
    settled_ms = (setting.lateness + setting.spread + setting.catch_up) * pace.tick_ms
    return [
        Share(
            setting.name,
            receiver.name,
            receiver.sink_topic,
            pace.time_ms(receiver.start),
            pace.time_ms(receiver.end),
            settled_ms,
            receiver.is_paused,
        )
        for receiver in setting.peers
    ]


def runs(setting: Setting, pace: Pace, now_ms: int) -> bool:
    """Return whether a stream runs: it has its own sink, or a receiver that gets it, now or later."""
    return not setting.receivers or any(not share.is_over(now_ms) for share in shares_of(setting, pace))
