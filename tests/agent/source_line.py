"""A source, its clock, and the connections that a test drives."""

from collections.abc import Callable

from meteragent.agent.link.source import Source
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Token
from tests.support.fake_session import FakeSession

NOW_MS = 1_800_000_000_000
MAX_PAYLOAD = 100


class Line:
    """A source, its counts, and the connection of the moment."""

    def __init__(
        self,
        inflight: int = 4,
        now_ms: Callable[[], int | None] = lambda: NOW_MS,
        *,
        capped: bool = True,
        keeps_order: bool = False,
    ) -> None:
        self.counts = Counts()
        self.source = Source(("in/+",), inflight, MAX_PAYLOAD, now_ms, self.counts, is_capped=capped)
        self._keeps_order = keeps_order
        self.session = FakeSession()

    async def connect(self, version: int = 5) -> FakeSession:
        """Make a new connection."""
        self.session = FakeSession(version, keeps_order=self._keeps_order)
        await self.source.serve(self.session)
        return self.session

    def send(self, *payloads: bytes, qos: int = 1) -> None:
        """Let messages arrive."""
        for payload in payloads:
            self.session.send(self.source, payload, qos=qos)

    def batch(self) -> list[bytes]:
        """Return the next batch's payloads; the core keeps all tokens."""
        return [message.payload for message in self.source.take_batch(NOW_MS)]

    def take(self) -> list[Token]:
        """Return the next batch's tokens, which the core keeps for later."""
        return [message.token for message in self.source.take_batch(NOW_MS)]
