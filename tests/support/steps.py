"""Cost without a clock: how many instructions of Python a call takes, and what would never end."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


def steps_of(call: Callable[[], object]) -> int:
    """Return the number of instructions that a call executes in Python code, whether or not it raises."""
    steps = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
        """Count an instruction."""
        nonlocal steps
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps += event == "opcode"
        return trace

    earlier_trace = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Exception:  # noqa: BLE001  a refusal costs, too
        return steps
    finally:
        sys.settrace(earlier_trace)
    return steps


@contextmanager
def ending(cpu_s: float = 20) -> Iterator[None]:
    """Fail if the block takes so much processor time that only cost without bound explains it."""

    def fail(_number: int, _frame: FrameType | None) -> None:
        """Fail the test."""
        raise AssertionError(f"still busy after {cpu_s} s of processor time")

    earlier_handler = signal.signal(signal.SIGVTALRM, fail)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, earlier_handler)
