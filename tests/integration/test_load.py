"""Bursts, floods and a backlog, in small: `python -m tests.commands.load` does the same in full."""

import asyncio

import pytest

from tests.conftest import MakeBroker
from tests.integration.load import BIG_ONES, SETTINGS, UNKNOWN, Outcome, run

METERS = 100
GROWTH_MB = 25.0
"""What load may take beyond what the agent takes at rest."""


@pytest.fixture(scope="module")
def outcome(mosquitto: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One agent through all phases, with an hour of outage in between."""
    with mosquitto(settings=SETTINGS) as broker:
        folder = tmp_path_factory.mktemp("load") / "agent"
        return asyncio.run(run(broker, folder, METERS, seconds=0.5))


def test_nothing_is_lost_under_load(outcome: Outcome) -> None:
    """Every slot of every meter is there once and is what the meter sent, over floods and an outage."""
    assert outcome.wrong == []
    assert outcome.slots >= 3 * METERS


def test_what_is_shed_is_counted(outcome: Outcome) -> None:
    """Unknown meters and oversized payloads are refused and counted, at QoS 0 shed at most."""
    first = outcome.first
    assert UNKNOWN * METERS <= first["refused_meters"] <= 2 * UNKNOWN * METERS - first["shed"]
    assert first["refused_size"] == BIG_ONES
    known = {"accepted", "refused_meters", "refused_size"}
    assert first["received"] == sum(first[name] for name in known)


def test_memory_and_disk_are_bounded(outcome: Outcome) -> None:
    """No phase takes much more memory than the agent at rest, and the store stays small."""
    memory_mb = [phase.memory_mb for phase in outcome.phases]
    assert max(memory_mb) < memory_mb[0] + GROWTH_MB
    assert max(phase.disk_mb for phase in outcome.phases) < 10


def test_the_agent_goes_on_without_a_restart(outcome: Outcome) -> None:
    """No connection is lost, and after the outage everything that waited is taken in, none of it late."""
    for totals in (outcome.first, outcome.second):
        assert not {"source_lost", "sink_lost", "late", "store_full"} & set(totals)
    assert outcome.second["accepted"] == outcome.second["received"]
