"""A thousand streets in virtual time, in which everything goes wrong; and mutants, which the streets find."""

from collections import Counter
from collections.abc import Callable

import pytest

from meteragent.crowd import helper as helpers
from meteragent.crowd import leader as leaders
from meteragent.crowd import machine
from meteragent.crowd.helper import Helper
from meteragent.crowd.leader import Leader
from tests.support.crowd_schedules import Mistakes, Street

SCHEDULES = 1000
PARTS = 4
MUTANT_SCHEDULES = 150
THOUSAND_SEED = 7


@pytest.fixture(autouse=True)
def _few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish the keys of two days instead of eight, because a schedule has one."""
    monkeypatch.setattr(machine, "DAYS_AHEAD", 1)


@pytest.mark.slow("each schedule seals, signs and opens the messages of two slots")
@pytest.mark.parametrize("part", range(PARTS))
def test_no_schedule_breaks_a_rule(part: int) -> None:
    """Each slot has at most one answer and one total, of one set of enough homes, and honest ones have it."""
    results = Counter[str]()
    for seed in range(part, SCHEDULES, PARTS):
        street = Street(seed).run()
        assert list(street.faults()) == [], f"schedule {seed}"
        results.update(result for _, result, _ in street.operators["leader"].lines)
    assert results["total"] > SCHEDULES / PARTS / 2
    assert min(results["too_few"], results["expired"]) > 0


def test_a_street_of_a_thousand() -> None:
    """A street of 1,000 homes has the totals of those that reported in time; its operators crash, too."""
    street = Street(THOUSAND_SEED, homes=1000).run()
    assert list(street.faults()) == []
    homes = [homes for _, result, homes in street.operators["leader"].lines if result == "total"]
    assert homes
    assert min(homes) > 800


def _without(reason: str, machine: type[Leader | Helper]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a mutant whose machine does not refuse for a reason."""
    refusal_of = machine._refusal_of

    def refuse_less(self: Leader | Helper, *arguments: object) -> str | None:
        found = refusal_of(self, *arguments)  # type: ignore[arg-type]
        return None if found == reason else found

    return lambda patch: patch.setattr(machine, "_refusal_of", refuse_less)


def _two_sets(patch: pytest.MonkeyPatch) -> None:
    """Let the helper answer each set that the leader signs."""
    _without("other_batch", Helper)(patch)
    get = Helper._get

    def forget(self: Helper, table: str, at: int, name: str = "") -> bytes | None:
        return None if table in ("answer", "batch") else get(self, table, at, name)

    patch.setattr(Helper, "_get", forget)


def _forged_set(patch: pytest.MonkeyPatch) -> None:
    """Let the helper take a request that anybody signed."""
    patch.setattr(helpers, "is_signed", lambda *_: True)


def _forged_answer(patch: pytest.MonkeyPatch) -> None:
    """Let the leader take an answer that anybody signed."""
    patch.setattr(leaders, "is_signed", lambda *_: True)


def _replay(patch: pytest.MonkeyPatch) -> None:
    """Let the leader forget that it has closed a slot, and take reports at any time."""
    _without("late", Leader)(patch)
    close = Leader._close

    def forget(self: Leader, effects: object, slot_s: int, reason: str = "", record: bytes = b"") -> None:
        close(self, effects, slot_s, reason, record)  # type: ignore[arg-type]
        self._tables["closed"].pop(slot_s)

    patch.setattr(Leader, "_close", forget)


def _few(patch: pytest.MonkeyPatch) -> None:
    """Let both answer sets of any size."""
    patch.setattr(Helper, "_refusal_of", _without("too_few", Helper))


MUTANTS = {
    "two sets that differ by one home": (_two_sets, Mistakes()),
    "forged set": (_forged_set, Mistakes()),
    "forged answer": (_forged_answer, Mistakes()),
    "replay": (_replay, Mistakes()),
    "sends before it commits": (lambda _: None, Mistakes(sends_first=True, crashes=5)),
    "trusts a restored store": (lambda _: None, Mistakes(trusts_copies=True)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mistake breaks a rule in one of the first schedules."""
    patch, mistakes = MUTANTS[name]
    patch(monkeypatch)
    assert any(list(Street(seed, mistakes=mistakes).run().faults()) for seed in range(MUTANT_SCHEDULES))
