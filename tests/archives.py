"""Archives for tests: policies as people write them, keys, and readings as columns."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from meteragent import config
from meteragent.archive.key import Key
from meteragent.archive.policy import Policy
from meteragent.archive.readings import Readings
from tests.configurations import written

KEY = Key("test", "month", 0, bytes(range(32)))
TIME = pa.timestamp("ms", tz="UTC")
DAY_MS = 86_400_000
SPRING_MS = 1_774_738_800_000  # 2026-03-29 in Amsterdam begins: 23 hours
AUTUMN_MS = 1_792_879_200_000  # 2026-10-25: 25 hours
"""Local days on which the clocks change."""

AMSTERDAM = "timezone = 'Europe/Amsterdam'"
HALF_HOUR = "length = '30min'"
QUARTERS = "length = '1d'\nstep = '15min'"
LOCAL_DAY = f"length = '1d'\n{AMSTERDAM}"
BANDS = f"length = '1mo'\n{AMSTERDAM}\nbands = ['00-07', '07:30-22']"
ENERGY = "kind = 'interval_energy'\nunit = 'Wh'\ninterval = '15min'"


def text(path: Path = Path("archive.key"), *, archive: str = "", **sections: str) -> str:
    """A configuration with an [archive]."""
    return f"{written(**sections)}\n[archive]\nkey_file = '{path}'\n{archive}\n"


def policy(path: Path = Path("archive.key"), *, archive: str = "", **sections: str) -> Policy:
    """The policy of such a configuration."""
    return Policy.of(config.parse(text(path, archive=archive, **sections)))


def readings(rows: list[tuple[int, int, int | None]]) -> Readings:
    """Readings from (meter, time in ms, value in millionths or None)."""
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    values = [0 if value is None else value for value in columns[2]]
    valid = np.array([value is not None for value in columns[2]], np.bool_)
    return Readings(*(np.array(column, np.int64) for column in (columns[0], columns[1], values)), valid)
