"""What the tests of the core share."""

import pytest

from meteragent.core.noise import Noise


@pytest.fixture
def half_quantum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every dither is half a quantum: values are rounded half up, and the same in each run."""
    monkeypatch.setattr(
        Noise, "draw_dither", lambda _, terms, slot_index: terms.steps_per_quantum[slot_index] // 2
    )
