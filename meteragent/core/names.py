"""The public id, topic and delay with which each meter's values are released, derived once per meter."""

from typing import NamedTuple

from meteragent.core.stream import Stream
from meteragent.domain import identity


class Name(NamedTuple):
    """A meter's public id, its sink topic, and its fixed delay (law 4)."""

    public_id: str
    topic: str
    delay_ms: int


class Names:
    """A mapping from the meters of a stream to their names."""

    __slots__ = ("_names", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._names: dict[str, Name] = {}

    def __getitem__(self, meter: str) -> Name:
        name = self._names.get(meter)
        if name is None:
            name = self._names[meter] = self._name(meter)
        return name

    def _name(self, meter: str) -> Name:
        stream = self._stream
        public_id = meter if stream.pseudonym_key is None else identity.pseudonym(stream.pseudonym_key, meter)
        delay_ms = identity.delay_ms(stream.secret, stream.name, meter, stream.spread_ms)
        return Name(public_id, identity.render(stream.sink_topic, public_id), delay_ms)

    def forget(self, meter: str) -> None:
        """Drop the name of a forgotten meter."""
        self._names.pop(meter, None)
