"""The ends of a process that are armed: each waits until the process reaches its place."""

from simulators.simtest.schedule import Crash, End, Fail


class Traps:
    """The armed ends of the process, in the order in which they were armed."""

    def __init__(self) -> None:
        self._armed: list[End] = []

    def arm(self, end: End) -> None:
        """Add an end to those that are armed."""
        self._armed.append(end)

    def clear(self) -> None:
        """Remove all armed ends."""
        self._armed.clear()

    def spring(self, place: str) -> Crash | None:
        """Remove and return the crash that is armed for this place, or None."""
        traps = (trap for trap in self._armed if isinstance(trap, Crash) and trap.where.startswith(place))
        if (trap := next(traps, None)) is not None:
            self._armed.remove(trap)
        return trap

    def take_failure(self) -> Fail | None:
        """Remove and return the failure of the device that is armed, or None."""
        if (trap := next((trap for trap in self._armed if isinstance(trap, Fail)), None)) is not None:
            self._armed.remove(trap)
        return trap

    def has_crash(self, place: str) -> bool:
        """Return whether a crash is armed for exactly this place."""
        return any(isinstance(trap, Crash) and trap.where == place for trap in self._armed)
