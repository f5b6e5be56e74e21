"""How meters leave: under which name, on which topic, and with which delay; worked out once a meter."""

from typing import NamedTuple

from meteragent.core.stream import Stream
from meteragent.domain import identity


class Name(NamedTuple):
    """A meter's name in what leaves, its sink topic, and its fixed delay (law 4)."""

    label: str
    topic: str
    delay_ms: int


class Names:
    """The names of a stream's meters, by the meter."""

    __slots__ = ("_known", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._known: dict[str, Name] = {}

    def __getitem__(self, meter: str) -> Name:
        known = self._known.get(meter)
        if known is None:
            known = self._known[meter] = self._name(meter)
        return known

    def _name(self, meter: str) -> Name:
        stream = self._stream
        label = meter if stream.pseudonym_key is None else identity.pseudonym(stream.pseudonym_key, meter)
        delay_ms = identity.delay_ms(stream.secret, stream.name, meter, stream.spread_ms)
        return Name(label, identity.render(stream.sink_topic, label), delay_ms)

    def forget(self, meter: str) -> None:
        """Forget a meter that is gone."""
        self._known.pop(meter, None)
