"""Agents with a mistake in their sums of phases, each of which the simulation test must find."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest

from meteragent.core import intake
from meteragent.core.pending import Outcome, Pending
from meteragent.core.phases import PhaseResult, Phases, PowerPhases, RegisterPhases, make_phases
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

    def forgetful(self: RegisterPhases, *arguments: Any) -> Pending:
        total = sum_at(self, *arguments)
        self._changes = {phase: [Change(0, 0)] for phase in self._changes}
        return total

    patch.setattr(RegisterPhases, "_sum_at", forgetful)


def takes_a_reset_for_use(patch: pytest.MonkeyPatch) -> None:
    """A phase that begins again at 0 takes its register off the sum."""
    sum_at = RegisterPhases._sum_at
    patch.setattr(RegisterPhases, "_sum_at", lambda *arguments: sum_at(*arguments)._replace(shift_u=0))


def draws_a_line_from_before_a_phase_stood(patch: pytest.MonkeyPatch) -> None:
    """What a silent phase uses when it goes on counts as used while it stood, too."""
    sum_at = RegisterPhases._sum_at

    def forgetful(self: RegisterPhases, *arguments: Any) -> Pending:
        self._stood_ms = dict.fromkeys(self._stood_ms, 0)
        return sum_at(self, *arguments)

    patch.setattr(RegisterPhases, "_sum_at", forgetful)


def waits_for_a_silent_phase(patch: pytest.MonkeyPatch) -> None:
    """A register that reports on change stands only at the end of a slot."""
    standing_sums = RegisterPhases.standing_sums

    def impatient(self: RegisterPhases, until_ms: int, *, is_slot_end: bool) -> PhaseResult:
        if not is_slot_end:
            return PhaseResult(Outcome.ACCEPTED, (), [])
        return standing_sums(self, until_ms, is_slot_end=True)

    patch.setattr(RegisterPhases, "standing_sums", impatient)


PHASE_MUTANTS = (
    (adds_what_is_to_be_subtracted, "energy that was not measured", 22),
    (holds_a_sum_from_its_newest_reading, "energy that was not measured", 14),
    (acknowledges_a_standing_phase, "before all its time is decided", 17),
    (keeps_what_no_sum_needs, "not acknowledged though its time is decided", 14),
    (doubts_a_phase_at_the_end_of_a_slot, "not acknowledged though its time is decided", 35),
    (believes_a_phase_for_one_sum, "energy that was not measured", 35),
    (draws_a_line_from_before_a_phase_stood, "energy that was not measured", 20_553),
    (waits_for_a_silent_phase, "not acknowledged though its time is decided", 21_340),
    (takes_a_reset_for_use, "energy that was not measured", 17),
)
