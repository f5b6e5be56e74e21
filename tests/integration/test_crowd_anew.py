"""An operator that begins anew after its clock was ahead, with a real broker."""

import json
from pathlib import Path
from typing import Any

from meteragent.service.health import ask_socket, socket_path
from tests.conftest import MakeBroker
from tests.integration.crowding import SPEED, Operator, Street
from tests.integration.service import until

AHEAD_S = 86_400
"""How far the clock was ahead: in the fast clock's time, 12 minutes of the system's."""


def state(operator: Operator) -> dict[str, Any] | None:
    """Return an operator's state; None before it answers."""
    answer = ask_socket(socket_path(operator.store))
    return None if answer is None else json.loads(answer)


def problems(operator: Operator) -> list[str]:
    """Return the codes of an operator's problems."""
    known = state(operator)
    return [] if known is None else known["problem_codes"]


def is_published(operator: Operator) -> bool:
    """Return whether an operator has sent its list of keys, and the broker has accepted it."""
    known = state(operator)
    return known is not None and known["counts"].get("sent", 0) >= 1 and known["waiting"] == 0


def operator(street: Street, ahead_s: int) -> Operator:
    """Return a helper whose clock is ahead of the street's."""
    return Operator("helper", street.folder, street.broker.url, street.begin - ahead_s / SPEED)


def remove_store(folder: Path) -> None:
    """Remove the helper's store with all its files, as the runbook says."""
    for path in folder.glob("helper.db*"):
        path.unlink()


async def test_an_operator_that_begins_anew_waits_for_its_published_list(
    mosquitto: MakeBroker, tmp_path: Path
) -> None:
    """Its new store has no key before the clock has passed the list that the broker keeps."""
    with mosquitto() as broker:
        street = Street(tmp_path, broker)
        with operator(street, AHEAD_S) as helper:
            await until(lambda: is_published(helper))
            helper.stop()
        remove_store(tmp_path)
        with operator(street, 0) as helper:
            await until(lambda: problems(helper) == ["keys_ahead"])
            known = state(helper)
            assert known is not None
            assert 0 < known["published_s"] <= AHEAD_S
            assert (known["counts"], known["waiting"]) == ({}, 0)
            helper.stop()
        with operator(street, 2 * AHEAD_S) as helper:
            await until(lambda: is_published(helper))
            assert problems(helper) == []
            helper.stop()
