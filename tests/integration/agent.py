"""The agent on plans: started, killed, started again, until everything has left, arrived and been judged."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Self

from tests.integration.judge import Fed, violations
from tests.integration.plan import Plan, time_ms
from tests.integration.service import Service, until
from tests.integration.wire import LIMIT_S, Receiver
from tests.support.broker import Server

LOGS_SUBSCRIPTIONS: dict[str, str | int] = {"log_type": "subscribe"}
"""A setting of mosquitto: whoever subscribes is in its log."""
Ledger = dict[tuple[str, str], tuple[int, Fraction]]
"""Windows and epsilon (1/W), by stream and meter."""
CHARGED_S = 10.0
"""How long the last charge may take after the last record."""
TELLING = 7
"""A reading of so many characters is in a log for what it is, and not by chance."""


class Agent(Service):
    """`meteragent run` on streams between two brokers; leaving the `with` leaves nothing behind.

    `source` and `sink` are more lines of the configuration of each stream.
    """

    def __init__(
        self,
        folder: Path,
        plans: Sequence[Plan],
        source_url: str,
        sink_url: str | None = None,
        *,
        source: str = "",
        sink: str = "",
        program: Sequence[str] = ("meteragent",),
    ) -> None:
        streams = "".join(plan.toml(source_url, sink_url, source, sink) for plan in plans)
        super().__init__(folder, streams, program=program)
        self._plans = plans

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    async def subscribed(self, broker: Server) -> None:
        """Wait until all its streams have subscribed: what is sent earlier is sent to nobody."""
        log = broker.folder / "log"
        await self._until(lambda: log.read_text().count("meters/+/power") >= len(self._plans))

    async def finished(self, receiver: Receiver, fed: Fed) -> None:
        """Wait until the last record of every meter has arrived."""
        last_ms = {p.topic(m): max(p.truth(readings)) for p in self._plans for m, readings in fed.items()}
        newest = receiver.newest

        def is_complete() -> bool:
            """Return whether each meter's last record has arrived."""
            return all(topic in newest and time_ms(newest[topic]) >= last_ms[topic] for topic in last_ms)

        await self._until(is_complete)
        # The last reading may only open a window, which shows in the ledger alone; `assert_kept` judges it.
        with suppress(TimeoutError):
            await until(lambda: self._windows(self.ledger()) >= self._windows(self._due(fed)), CHARGED_S)

    async def _until(self, true: Callable[[], bool]) -> None:
        """Wait for something that only happens while it runs."""
        process = self._process
        assert process is not None
        await until(lambda: true() or process.poll() is not None, LIMIT_S)
        assert process.poll() is None, self.log

    def assert_kept(self, fed: Fed, receiver: Receiver) -> None:
        """Fail unless the messages are correct, the ledger equals the releases, and no log reveals values.

        The ledger counts the windows whose records were received, and the one per meter that is open.
        """
        for plan in self._plans:
            broken_rules = violations(plan, fed, receiver.messages)
            assert not broken_rules, broken_rules[:20]
        expected, ledger = self._due(fed), self.ledger()
        differing = [(key, ledger.get(key), expected.get(key)) for key in expected | ledger]
        differing = [(key, charged, due) for key, charged, due in differing if charged != due]
        assert not differing, f"the ledger has other charges than the windows released: {differing}"
        log = self.log
        revealed = {
            r.watts
            for readings in fed.values()
            for r in readings
            if len(r.watts) >= TELLING and r.watts in log
        }
        assert not revealed, revealed

    def _due(self, fed: Fed) -> Ledger:
        """Return what the ledger must say after these readings."""
        opened = {
            (plan, m): len(plan.opened(readings)) for plan in self._plans for m, readings in fed.items()
        }
        return {(plan.name, m): (count, count * plan.epsilon) for (plan, m), count in opened.items()}

    @staticmethod
    def _windows(ledger: Ledger) -> int:
        """Return the number of all windows."""
        return sum(windows for windows, _ in ledger.values())

    def ledger(self) -> Ledger:
        """Return windows and epsilon (1/W) by stream and meter, from `meteragent ledger`."""
        spent: Ledger = {}
        for row in json.loads(self.command("ledger", "--json").stdout)["spent"]:
            key = row["stream"], row["meter"]
            windows, epsilon = spent.get(key, (0, Fraction(0)))
            spent[key] = windows + row["windows"], epsilon + Fraction(row["epsilon_per_w"])
        return spent
