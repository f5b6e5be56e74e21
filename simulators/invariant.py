"""The exception that every simulation raises when an invariant does not hold."""


class InvariantViolation(Exception):
    """An invariant that does not hold, and where."""

    def __init__(self, invariant: str, where: object = "") -> None:
        super().__init__(f"{invariant}: {where}" if where != "" else invariant)
        self.invariant = invariant


def check(holds: object, invariant: str, where: object = "") -> None:
    """Raise InvariantViolation unless it holds."""
    if not holds:
        raise InvariantViolation(invariant, where)
