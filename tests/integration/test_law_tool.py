"""The law of what leaves, through a real broker and a real agent, in small."""

from pathlib import Path

import pytest

from simulators.long_run import LongRun
from tests.commands import law
from tests.support.broker import mosquitto_program

METERS, SECONDS = 40, 12


@pytest.mark.usefixtures("mosquitto")
async def test_what_leaves_has_its_law(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All windows of all meters are counted, of one slot and of two, with a dither and without.

    None of the tests is below its threshold, which the right law is with a chance of 1e-6.
    """
    program = mosquitto_program()
    assert program is not None
    with LongRun(tmp_path / "log", "law", ("tests/commands",)) as log:
        log.append(await law.part(program, tmp_path, METERS, SECONDS))
        windows = law.windows_of(log)
        assert windows["1 0"] >= METERS * (SECONDS - 2)
        assert windows["2 1"] >= METERS * (SECONDS - 4) // 2
        assert law.totals(log)
    assert "16 tests" in capsys.readouterr().out
