"""The programs of a demo: processes that must run until they are stopped, and a limit on idle time."""

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from aiomqtt import MqttError

T = TypeVar("T")

SILENCE_S = 60.0
"""The time without progress after which a demo gives up."""


class DemoError(Exception):
    """The error for a demo that failed; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Program:
    """A process that must run until it is stopped."""

    name: str
    process: Process
    lines: asyncio.StreamReader
    log: Path

    async def wait_for(self, word: str) -> str:
        """Wait for a line on standard output that begins with `word`; return the rest of the line.

        Raises DemoError if the program exits first.
        """
        async for line in self.lines:
            line_word, _, text = line.decode().strip().partition(" ")
            if line_word == word:
                return text
        raise await self.end()

    async def end(self) -> DemoError:
        """Wait until the program exits; return an error with its exit code and its standard error."""
        code = await self.process.wait()
        output = self.log.read_text(errors="replace").strip()
        return DemoError(f"the {self.name} exited with {code}\n{output}".strip())

    async def watch(self) -> NoReturn:
        """Wait until the program exits, and raise DemoError."""
        raise await self.end()

    async def stop(self) -> None:
        """Send SIGTERM, and wait until the program exits. Raises DemoError if it exits with an error."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        if await self.process.wait() not in {0, -signal.SIGTERM}:
            raise await self.end()


class Programs:
    """The processes of a demo. Each must run until it is stopped; the idle time is limited to `SILENCE_S`."""

    def __init__(self, tasks: asyncio.TaskGroup, folder: Path, silence: asyncio.Timeout) -> None:
        self.tasks, self._folder, self._silence = tasks, folder, silence

    def alive(self) -> None:
        """Restart the time limit, because the demo has made progress."""
        self._silence.reschedule(asyncio.get_running_loop().time() + SILENCE_S)

    @contextlib.asynccontextmanager
    async def run(self, name: str, *command: str) -> AsyncIterator[Program]:
        """Run a Python module as a process until the context ends; its standard error goes to `name`.log."""
        log = self._folder / f"{name}.log"
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", *command, stdin=PIPE, stdout=PIPE, stderr=errors
            )
        program = Program(name, process, process.stdout or asyncio.StreamReader(), log)
        watch = self.tasks.create_task(program.watch())
        try:
            yield program
        finally:
            watch.cancel()
            await program.stop()


@contextlib.asynccontextmanager
async def programs(folder: Path) -> AsyncIterator[Programs]:
    """Run the processes of a demo; their standard error goes to files in `folder`.

    Raises DemoError if a program exits, if a connection fails, or after `SILENCE_S` without progress.
    """
    try:
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(SILENCE_S) as silence:
            yield Programs(tasks, folder, silence)
    except ExceptionGroup as group:
        raise _first_failure(group) from None


def run_stoppable(work: Coroutine[Any, Any, T]) -> T:
    """Run a demo; SIGTERM cancels it, so that its processes are stopped, too."""

    async def play() -> T:
        """Run the work until it returns or is cancelled."""
        playing = asyncio.ensure_future(work)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
        return await playing

    return asyncio.run(play())


def _first_failure(group: ExceptionGroup[Exception]) -> Exception:
    """Return an error that describes the cause: a DemoError if there is one, otherwise the first failure."""
    error = next((error for error in group.exceptions if isinstance(error, DemoError)), group.exceptions[0])
    if isinstance(error, ExceptionGroup):
        return _first_failure(error)
    if isinstance(error, TimeoutError):
        return DemoError(f"no progress for {SILENCE_S:g} s")
    return DemoError(f"a connection failed: {error}") if isinstance(error, MqttError) else error
