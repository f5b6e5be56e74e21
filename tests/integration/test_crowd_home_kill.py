"""kill -9 of homes of a crowd; `python -m tests.commands.crowd_rounds` does the same many times."""

from pathlib import Path

from tests.conftest import MakeBroker
from tests.integration.crowd_homes import HOMES, kill
from tests.integration.service import TELL_ALL

KILLS = 5


async def test_each_report_survives_every_kill(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """Totals without the operators' draws are exact, each report has one form, and no share is in a file."""
    with mosquitto(settings=TELL_ALL) as broker:
        counts = await kill(tmp_path, broker, rounds=KILLS)
    assert counts == {
        "reports": (KILLS + 2) * len(HOMES),
        "unopened": 0,
        "missing": 0,
        "doubled": 0,
        "wrong": 0,
    }
