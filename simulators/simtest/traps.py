"""The armed ends of a process: a crash waits for its place, and a failure for a commit or another call."""

from simulators.simtest.schedule import Crash, End, Fail


class Traps:
    """The ends of the process that are armed, in the order in which they were armed."""

    def __init__(self) -> None:
        self._armed: list[End] = []

    def arm(self, end: End) -> None:
        """Add an end to the armed ends."""
        self._armed.append(end)

    def clear(self) -> None:
        """Remove all armed ends."""
        self._armed.clear()

    def spring(self, place: str) -> Crash | None:
        """Remove and return the first crash whose place begins with `place`, or None if none is armed."""
        traps = (trap for trap in self._armed if isinstance(trap, Crash) and trap.where.startswith(place))
        if (trap := next(traps, None)) is not None:
            self._armed.remove(trap)
        return trap

    def take_failure(self, *, is_in_call: bool) -> Fail | None:
        """Remove and return the first armed failure, in a call or a commit, or None if none is armed."""
        traps = (trap for trap in self._armed if isinstance(trap, Fail) and trap.in_call == is_in_call)
        if (trap := next(traps, None)) is not None:
            self._armed.remove(trap)
        return trap

    def has_crash(self, place: str) -> bool:
        """Return whether a crash is armed for exactly `place`."""
        return any(isinstance(trap, Crash) and trap.where == place for trap in self._armed)
