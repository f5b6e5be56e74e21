"""What users pass to the receiving side by mistake is refused with what to pass instead."""

from pathlib import Path

import pytest

from meteragent.consume import Slots, by_feeder, mean_energy, mean_value, peak
from tests.consume.test_consume_many import series
from tests.support.messages import NOON_MS
from tests.support.stores import TERMS


def test_what_is_passed_by_mistake_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Series by name are not series, and series are not slots: the error says what to pass instead."""
    homes = {"m1": series(TERMS, [1, 2])}
    for estimate in (
        lambda: mean_energy(homes, NOON_MS, NOON_MS + 1),  # type: ignore[arg-type]
        lambda: mean_value(homes, NOON_MS),  # type: ignore[arg-type]
        lambda: peak(homes, NOON_MS, NOON_MS + 1),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=r"pass homes\.values\(\)"):
            estimate()
    with pytest.raises(TypeError, match=r"expected Slots, not dict: see Slots\.read"):
        by_feeder(homes)  # type: ignore[arg-type]
    monkeypatch.setattr("meteragent.consume.slots.missing_module", lambda _: "pyarrow")
    with pytest.raises(ModuleNotFoundError, match=r"Slots\.read needs pyarrow: pip install"):
        Slots.read(Path("private.parquet"))
