"""The agent on plans: started, killed, started again, until everything has left, arrived and been judged."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Self

from tests.broker import Broker
from tests.integration.judge import Fed, violations
from tests.integration.plan import Plan, time_ms
from tests.integration.service import Service, until
from tests.integration.wire import LIMIT_S, Receiver
from tests.not_run import ROOT

LOGS_SUBSCRIPTIONS: dict[str, str | int] = {"log_type": "subscribe"}
"""A setting of mosquitto: whoever subscribes is in its log."""


class Agent(Service):
    """`meteragent run` on streams between two brokers; leaving the `with` leaves nothing behind.

    `program` is what runs instead of meteragent: `tests.integration.altered NAME`.
    """

    def __init__(
        self,
        folder: Path,
        plans: Sequence[Plan],
        source_url: str,
        sink_url: str | None = None,
        *,
        protocol: str = "auto",
        program: Sequence[str] = ("meteragent",),
    ) -> None:
        super().__init__(folder, "".join(plan.toml(source_url, sink_url, protocol) for plan in plans))
        self._plans = plans
        self._program = [sys.executable, "-m", *program, "run", str(self.path)]

    def start(self, *, file_bytes: int | None = None) -> None:
        """Start it; it is not ready when this returns."""
        assert file_bytes is None
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._program, cwd=ROOT, stdout=log, stderr=log)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    async def subscribed(self, broker: Broker) -> None:
        """Wait until all its streams have subscribed: what is sent earlier is sent to nobody."""
        log = broker.folder / "log"
        await self._until(lambda: log.read_text().count("meters/+/power") >= len(self._plans))

    async def finished(self, receiver: Receiver, fed: Fed) -> None:
        """Wait until the last record of every meter has arrived."""
        last_ms = {p.topic(m): max(p.truth(readings)) for p in self._plans for m, readings in fed.items()}
        newest = receiver.newest

        def complete() -> bool:
            return all(topic in newest and time_ms(newest[topic]) >= last_ms[topic] for topic in last_ms)

        await self._until(complete)

    async def _until(self, true: Callable[[], bool]) -> None:
        """Wait for something that only happens while it runs."""
        process = self._process
        assert process is not None
        await until(lambda: true() or process.poll() is not None, LIMIT_S)
        assert process.poll() is None, self.log

    def assert_kept(self, fed: Fed, receiver: Receiver) -> None:
        """Nothing is wrong with what was received, and the ledger is equal to what was released.

        It counts the windows whose records were received, and the one per meter that is still open.
        """
        for plan in self._plans:
            found = violations(plan, fed, receiver.messages)
            assert not found, found[:20]
        opened = {(p.name, m): len(p.opened(readings)) for p in self._plans for m, readings in fed.items()}
        epsilon = {plan.name: plan.epsilon for plan in self._plans}
        assert self.ledger() == {key: (count, count * epsilon[key[0]]) for key, count in opened.items()}

    def ledger(self) -> dict[tuple[str, str], tuple[int, Fraction]]:
        """Windows and epsilon (1/W) by stream and meter, as `meteragent ledger` tells it."""
        spent: dict[tuple[str, str], tuple[int, Fraction]] = {}
        for row in json.loads(self.command("ledger", "--json").stdout)["spent"]:
            key = row["stream"], row["meter"]
            windows, epsilon = spent.get(key, (0, Fraction(0)))
            spent[key] = windows + row["windows"], epsilon + Fraction(row["epsilon_per_w"])
        return spent
