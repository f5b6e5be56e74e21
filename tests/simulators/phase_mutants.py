"""Agents with a mistake in their sums of phases, each of which the simulation test must find."""

from collections.abc import Collection, Iterable, Sequence

import pytest

from meteragent.core import intake
from meteragent.core.pending import Pending
from meteragent.core.phases import Phases, PowerPhases, RegisterPhases, make_phases
from meteragent.core.register_judgement import Change
from meteragent.domain.reading import Token
from meteragent.domain.terms import Terms


def adds_what_is_to_be_subtracted(patch: pytest.MonkeyPatch) -> None:
    """What is fed into the grid counts as used."""

    def summed(names: Sequence[str], terms: Terms, _subtracted: Collection[str] = ()) -> Phases:
        return make_phases(names, terms)

    patch.setattr(intake, "make_phases", summed)


def holds_a_sum_from_its_newest_reading(patch: pytest.MonkeyPatch) -> None:
    """A phase that is silent stands for longer than its hold."""
    sums_at = PowerPhases._sums_at

    def held(self: PowerPhases, times: Iterable[int]) -> list[Pending]:
        return [total._replace(since_ms=total.time_ms) for total in sums_at(self, times)]

    patch.setattr(PowerPhases, "_sums_at", held)


def acknowledges_a_standing_phase(patch: pytest.MonkeyPatch) -> None:
    """After a crash the sum begins only when the phase speaks again."""
    drop = PowerPhases._drop_before

    def dropped(self: PowerPhases, settled_ms: int) -> list[Token]:
        tokens = drop(self, settled_ms)
        for readings in self._readings.values():
            tokens += readings[:-1]
            del readings[:-1]
        return tokens

    patch.setattr(PowerPhases, "_drop_before", dropped)


def keeps_what_no_sum_needs(patch: pytest.MonkeyPatch) -> None:
    """The broker's queue grows."""
    patch.setattr(PowerPhases, "_drop_before", lambda *_: [])


def doubts_a_phase_at_the_end_of_a_slot(patch: pytest.MonkeyPatch) -> None:
    """A change that waits for the phase's next reading makes the slot a gap."""
    patch.setattr(RegisterPhases, "_believe_waiting", lambda *_: None)


def believes_a_phase_for_one_sum(patch: pytest.MonkeyPatch) -> None:
    """Of two sums at the end of a slot, the second is without the change that the first believed."""
    sum_at = RegisterPhases._sum_at

    def forgetful(self: RegisterPhases, *arguments: int) -> Pending:
        total = sum_at(self, *arguments)  # type: ignore[arg-type]
        self._changes = {phase: [Change(0, 0)] for phase in self._changes}
        return total

    patch.setattr(RegisterPhases, "_sum_at", forgetful)


def takes_a_reset_for_use(patch: pytest.MonkeyPatch) -> None:
    """A phase that begins again at 0 takes its register off the sum."""
    sum_at = RegisterPhases._sum_at
    patch.setattr(RegisterPhases, "_sum_at", lambda *arguments: sum_at(*arguments)._replace(shift_u=0))


PHASE_MUTANTS = (
    (adds_what_is_to_be_subtracted, "energy that was not measured", 22),
    (holds_a_sum_from_its_newest_reading, "energy that was not measured", 14),
    (acknowledges_a_standing_phase, "before all its time is decided", 17),
    (keeps_what_no_sum_needs, "not acknowledged though its time is decided", 14),
    (doubts_a_phase_at_the_end_of_a_slot, "not acknowledged though its time is decided", 35),
    (believes_a_phase_for_one_sum, "energy that was not measured", 35),
    (takes_a_reset_for_use, "energy that was not measured", 17),
)
