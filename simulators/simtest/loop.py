"""An event loop in virtual time: it never waits, and runs the same steps in the same order every time.

When nothing is ready, the loop's time jumps to the next timer. The loop does no input or output, and runs an
executor's work at once. A task's hash is its number, so that sets of tasks have a fixed order.
"""

import asyncio
from asyncio.base_events import BaseEventLoop
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from contextlib import AbstractContextManager, suppress
from itertools import count
from typing import Any, TypeVar, TypeVarTuple, Unpack

from simulators.invariant import InvariantViolation

_Arguments = TypeVarTuple("_Arguments")
_Out = TypeVar("_Out")
_ANSWER_S = 5.0
"""How long a client waits for an answer."""
_TURNS = 50_000
"""The largest number of turns without time passing; more turns indicate an endless loop.

Tasks need fewer turns: when a clock is set ten minutes forward, the agent opens one window after another,
which takes about 12,000 turns.
"""


class Killed(SystemExit):
    """The exception that ends the process as `kill -9` does; asyncio propagates a SystemExit at once."""


class _Task(asyncio.Task[Any]):
    """A task whose hash is its number, so that sets and dictionaries hold tasks in the order of creation."""

    def __init__(self, number: int, coroutine: Coroutine[Any, Any, Any], **keywords: Any) -> None:
        self.number = number
        super().__init__(coroutine, **keywords)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(BaseEventLoop):
    """The loop of a world, which runs the agent's processes one after the other.

    `execute` runs an executor's work, and `connect` connects to a host; the world sets both. `ask` is for
    clients of the process's Unix socket. `select` raises RuntimeError if nothing is scheduled, if tasks run
    without time passing, or if the loop still runs after `until_s`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.execute: Callable[..., Any] = lambda function, *arguments: function(*arguments)
        self.connect: Callable[[str, asyncio.Protocol], Awaitable[asyncio.Transport]]
        self._listener: Callable[[], Any] | None = None
        self._clients: list[_Client] = []
        self.until_s = float("inf")
        self._now_s = 0.0
        self._turns = 0
        self._selector = self
        self._scheduled: list[asyncio.TimerHandle]
        self._numbers = count()
        self.set_task_factory(self._task)

    def time(self) -> float:
        """Return the virtual seconds since the world began."""
        return self._now_s

    def select(self, timeout: float | None) -> list[Any]:
        """Advance the time instead of waiting."""
        if timeout is None:
            raise RuntimeError("nothing is scheduled: every task waits for ever")
        self._turns += 1
        if timeout > 0:
            self._now_s, self._turns = max(self._now_s, self._scheduled[0].when()), 0
        if self._turns > _TURNS:
            self._turns = 0
            raise RuntimeError("a task loops without time passing")
        if self._now_s > self.until_s:
            self.until_s *= 2
            raise RuntimeError("the process was stopped but does not end")
        return []

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[_Arguments]], _Out], *args: *_Arguments
    ) -> asyncio.Future[_Out]:
        """Run the function now; return a future with its result or exception, or a cancelled future."""
        del executor
        answer: asyncio.Future[_Out] = self.create_future()
        try:
            answer.set_result(self.execute(func, *args))
        except asyncio.CancelledError:
            answer.cancel()
        except Exception as error:  # noqa: BLE001 - raised where the future is awaited
            answer.set_exception(error)
        return answer

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        """Connect through the simulated network."""
        del port
        protocol = protocol_factory()
        return await self.connect(host, protocol), protocol

    async def create_unix_server(self, protocol_factory: Callable[[], Any], *_: Any, **__: Any) -> Any:
        """Accept clients (`ask`) until cancelled."""
        self._listener = protocol_factory
        try:
            await asyncio.Event().wait()
        finally:
            self._listener = None

    def ask(self, question: bytes, on_answer: Callable[[bytes], None]) -> None:
        """Ask the process a question through its Unix socket; the answer is empty if none comes."""
        if self._listener is None:
            on_answer(b"")
            return
        client = _Client(self, self._listener(), on_answer)
        self._clients.append(client)
        client.send(question)
        self.call_later(_ANSWER_S, client.close)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Let the process log an exception that nobody handles, unless it is the process's death."""
        if not isinstance(context.get("exception"), Killed):
            super().call_exception_handler(context)

    def end_tasks(self) -> None:
        """Cancel tasks until none is left, and close the clients' connections; no time passes."""
        for client in self._clients:
            client.close()
        self._clients.clear()
        while tasks := sorted(asyncio.all_tasks(self), key=hash):
            for task in tasks:
                task.cancel()
            try:
                self.run_until_complete(asyncio.sleep(0))
            except Killed:
                # The end of a task may have stopped the loop, which takes effect in the next run.
                with suppress(Killed, RuntimeError):
                    self.run_until_complete(asyncio.sleep(0))
                continue
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.exception()  # retrieve the exception, so that asyncio does not log it

    def _task(self, _: Any, coroutine: Any, **named: Any) -> asyncio.Task[Any]:
        return _Task(next(self._numbers), coroutine, loop=self, **named)

    def _process_events(self, _: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class _Client(asyncio.Transport):
    """A client that asks one question through the process's Unix socket, at the process's end."""

    def __init__(self, loop: VirtualLoop, protocol: Any, on_answer: Callable[[bytes], None]) -> None:
        super().__init__()
        self._loop, self._protocol, self._on_answer = loop, protocol, on_answer
        self._answer, self._is_closed = b"", False
        protocol.connection_made(self)

    def send(self, question: bytes) -> None:
        """Send the question, and nothing more."""
        self._protocol.data_received(question)
        self._protocol.eof_received()

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        """Take a part of the answer."""
        self._answer += data

    def is_closing(self) -> bool:
        """Return whether the connection is closed."""
        return self._is_closed

    def close(self) -> None:
        """Close the connection; the answer is whole, or empty."""
        if not self._is_closed:
            self._is_closed = True
            self._protocol.connection_lost(None)
            self._loop.call_soon(self._on_answer, self._answer)


class Guard(AbstractContextManager[None]):
    """A context that ends the world at the first InvariantViolation, before the agent can catch it."""

    def __init__(self, world: Any) -> None:
        self._world = world

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, InvariantViolation):
            self._world.violation, self._world.alive = error, False
            raise Killed from error
