"""A thousand streets in virtual time, in which everything goes wrong; and mutants, which the streets find."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from meteragent.crowd import helper as helpers
from meteragent.crowd import leader as leaders
from meteragent.crowd import machine
from meteragent.crowd.group import Group
from meteragent.crowd.helper import Helper
from meteragent.crowd.leader import Leader
from meteragent.crowd.machine import RowKey
from meteragent.crowd.seal import Identity
from tests.support.crowd_schedules import Mistakes, Operator, Street

SCHEDULES = 1000
PARTS = 4
MUTANT_SCHEDULES = 150
THOUSAND_SEEDS = {0: "leader", 4: "", 6: "helper"}
"""Schedules of a thousand homes, and who lies in each; operators crash in all of them."""
RESTORED_SEED = 4
"""The one of them in which an operator's store is restored."""


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


@pytest.mark.parametrize("seed", THOUSAND_SEEDS)
def test_a_street_of_a_thousand(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A street of 1,000 homes has totals of those that reported in time; operators crash and lie."""
    crashes, crash = [], Operator.crash

    def note(self: Operator, now_s: int) -> None:
        crashes.append(now_s)
        crash(self, now_s)

    monkeypatch.setattr(Operator, "crash", note)
    street = Street(seed, homes=1000).run()
    assert list(street.faults()) == []
    assert crashes
    assert street.lies == THOUSAND_SEEDS[seed]
    assert street.is_restored == (seed == RESTORED_SEED)
    homes = [homes for _, result, homes in street.operators["leader"].lines if result == "total"]
    assert homes
    assert min(homes) > 200


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
    """Let both operators forget the smallest crowd, which the street still expects."""
    init = machine.Machine.__init__

    def forget(self: machine.Machine, group: Group, identity: Identity, rows: Mapping[RowKey, bytes]) -> None:
        any_size = replace(group, smallest_crowd=1)
        any_size.__dict__["id"] = group.id  # what homes seal is for the group as it is
        init(self, any_size, identity, rows)

    patch.setattr(machine.Machine, "__init__", forget)


MUTANTS = {
    "two sets that differ by one home": (_two_sets, Mistakes()),
    "forged set": (_forged_set, Mistakes()),
    "forged answer": (_forged_answer, Mistakes()),
    "replay": (_replay, Mistakes()),
    "below the smallest crowd": (_few, Mistakes()),
    "sends before it commits": (lambda _: None, Mistakes(sends_first=True, crashes=5)),
    "trusts a restored store": (lambda _: None, Mistakes(trusts_copies=True)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mistake breaks a rule in one of the first schedules."""
    patch, mistakes = MUTANTS[name]
    patch(monkeypatch)
    assert any(list(Street(seed, mistakes=mistakes).run().faults()) for seed in range(MUTANT_SCHEDULES))
