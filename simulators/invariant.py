"""The exception that every simulation raises when an invariant is violated."""


class InvariantViolation(Exception):
    """An invariant is violated; `location` says where."""

    def __init__(self, invariant: str, location: object = "") -> None:
        super().__init__(f"{invariant}: {location}" if location != "" else invariant)
        self.invariant = invariant


def check(holds: object, invariant: str, location: object = "") -> None:
    """Raise InvariantViolation unless `holds` is true."""
    if not holds:
        raise InvariantViolation(invariant, location)
