"""Hostile senders against both sinks; `tests.commands.hostile` does the same with large numbers."""

import random
from pathlib import Path

import pytest

from tests.support.hostile_holds import hold
from tests.support.hostile_senders import Scene, Sink, attacked, newcomers


async def test_altered_messages_stop_nothing(table_url: str, tmp_path: Path) -> None:
    """Of messages with valid digests, each accepted one reads back equal from both sinks, by every reader."""
    counts = await hold(random.Random("hostile"), 0, 400, table_url, tmp_path)
    assert counts["rows"] > 20


@pytest.mark.parametrize("kind", ["PostgreSQL", "Parquet"])
async def test_honest_rows_are_exact_beside_hostile_senders(
    kind: str, table_url: str, tmp_path: Path
) -> None:
    """Whatever ten times as many others send, each honest value is a row, and what is kept is bounded.

    They take all room for meters; a list of the honest ones gives it back, to new ones, too.
    """
    scene = Scene(hostile=200, honest=20, minutes=10)
    outcome = await attacked(scene, Sink(kind, table_url, tmp_path), max_meters=120, seed=1)
    assert outcome.honest == scene.expected
    refused, rows = await newcomers(scene, Sink(kind, table_url, tmp_path), max_meters=120)
    assert refused["meters"] == 10
    assert len(rows) == 20
    assert outcome.source.count == 20 + 200 * 10 + 20 * 10 + 2
    assert outcome.counts["descriptor"] <= (4 + 2) * 120
    assert outcome.counts["waiting"] <= 2 * 10 * 120
    assert {"meters", "no_descriptor", "rate", "topic", "too_large"} <= set(outcome.refused)
