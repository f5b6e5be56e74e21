"""Import the released energies into Home Assistant's statistics, at their own times.

    pip install websockets
    python energy_statistics.py meteragent.toml --url http://homeassistant.local:8123 --token-file token

Home Assistant draws an MQTT sensor's number at the time of its arrival, which is the end of its slot or
later. This script reads the records that have left from the agent's store, as `meteragent export` does, and
imports their energy by the hour, as an external statistic for each stream and meter. The energy dashboard
offers these statistics. Run the script as often as you like, for example every hour, as the agent's user.

Rules:
1. Only released records are read, with `meteragent.consume`. A slot's energy counts evenly over its time. An
   hour is imported once a record reaches its end.
2. Every row has an absolute sum, so a repeated import writes the same rows, and an interrupted one is
   completed by the next. Sums continue from the last row up to the first hour, because the store forgets
   records after `store.keep`. The first hour is imported only if Home Assistant does not have it.
3. Energies are whole mWh, whose sums are exact: the same records always give the same rows.
"""

import argparse
import hashlib
import json
import re
import ssl
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from meteragent import config
from meteragent.consume import Record, Series
from meteragent.domain.errors import MeteragentError
from meteragent.domain.grid import iso_time
from meteragent.domain.units import DAY_MS, HOUR_MS
from meteragent.store import read_only
from meteragent.tools import export

SOURCE = "meteragent"
MWH_PER_KWH = 1_000_000
ROWS = 500
"""The number of rows in a message."""
CONFIRM_S = 60.0
"""How long to wait until Home Assistant's recorder has written the rows."""

_PLAIN = re.compile(r"[a-z0-9]+", re.ASCII)
_KINDS: Sequence[Mapping[str, Any]] = (
    {"mean_type": 0, "unit_class": "energy"},
    {"has_mean": False, "mean_type": 0},
    {"has_mean": False},
)
"""How versions of Home Assistant are told that a statistic has no mean, the newest first."""


class Row(NamedTuple):
    """A row of a statistic: the start of an hour (ms), its energy, and the sum at its end (mWh)."""

    start_ms: int
    energy_mwh: int
    sum_mwh: int

    def document(self) -> dict[str, Any]:
        """Return the row as Home Assistant reads it, in kWh."""
        energy, total = self.energy_mwh / MWH_PER_KWH, self.sum_mwh / MWH_PER_KWH
        return {"start": iso_time(self.start_ms), "state": energy, "sum": total}


class Failure(Exception):
    """An error: Home Assistant refused a command, or did not carry it out."""


def statistic_id(stream: str, meter: str) -> str:
    """Return the id of a statistic; names with other characters than a-z and 0-9 end in a digest."""
    name = f"{stream}_{meter}"
    if _PLAIN.fullmatch(stream) and _PLAIN.fullmatch(meter):
        return f"{SOURCE}:{name}"
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    digest = hashlib.sha256(f"{stream}\0{meter}".encode()).hexdigest()[:8]
    return f"{SOURCE}:{slug}_{digest}" if slug else f"{SOURCE}:{digest}"


def released(store: Path) -> dict[tuple[str, str], Series]:
    """Return the records that have left, by stream and meter."""
    records: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
    with read_only(store) as connection:
        descriptors = export.read_descriptors(connection)
        for exported in export.delivered_records(connection):
            record = Record.parse(exported.payload)
            records[exported.stream, record.meter].append(record)
    return {key: Series.of(values, descriptors) for key, values in records.items()}


def hourly(series: Series) -> dict[int, int]:
    """Return the energy (mWh) of each hour that is over, by the start of the hour (ms).

    Raises:
        ValueError: The values are not the energies of their times.

    """
    series.require_energy()
    energies: defaultdict[int, Fraction] = defaultdict(Fraction)
    ends_ms = series.end_ms.tolist()
    for record, end_ms in zip(series.records, ends_ms, strict=True):
        if record.band is not None:
            raise ValueError("the bands of a mean day do not describe single days")
        energy_mwh = Fraction(record.value) * series.descriptor_of(record).kwh_per_unit() * MWH_PER_KWH
        for hour_ms in range(record.time_ms - record.time_ms % HOUR_MS, end_ms, HOUR_MS):
            overlap_ms = min(end_ms, hour_ms + HOUR_MS) - max(record.time_ms, hour_ms)
            energies[hour_ms] += energy_mwh * overlap_ms / (end_ms - record.time_ms)
    return {hour_ms: round(e) for hour_ms, e in energies.items() if hour_ms + HOUR_MS <= max(ends_ms)}


def rows(series: Series, earlier: Row | None) -> list[Row]:
    """Return the rows to import after the last row that Home Assistant has up to the first hour."""
    energies = hourly(series)
    first_ms = int(series.time_ms[0])
    sum_mwh, from_ms = 0, first_ms - first_ms % HOUR_MS
    if earlier is not None:
        sum_mwh = earlier.sum_mwh
        if earlier.start_ms == from_ms:
            from_ms += HOUR_MS
    result = []
    for start_ms in sorted(hour_ms for hour_ms in energies if hour_ms >= from_ms):
        sum_mwh += energies[start_ms]
        result.append(Row(start_ms, energies[start_ms], sum_mwh))
    return result


class Recorder:
    """A connection to Home Assistant, for its statistics."""

    def __init__(self, url: str, token: str) -> None:
        """Connect and log in; raises Failure, OSError or WebSocketException."""
        parts = urlsplit(url)
        scheme = {"http": "ws", "https": "wss"}.get(parts.scheme)
        if scheme is None or not parts.hostname:
            raise Failure(f"{url} is not an address such as http://homeassistant.local:8123")
        context = ssl.create_default_context() if scheme == "wss" else None
        address = f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}/api/websocket"
        self._connection: ClientConnection = connect(address, ssl=context, max_size=None)
        self._number = 0
        self._receive()
        self._connection.send(json.dumps({"type": "auth", "access_token": token}))
        if self._receive()["type"] != "auth_ok":
            raise Failure("Home Assistant refused the token: create one in your profile, under Security")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def last_row(self, statistic: str, until_ms: int) -> Row | None:
        """Return the last row of a statistic that starts at or before a time, or None."""
        days = 1
        while days < 100_000:
            earlier = self.rows_between(statistic, until_ms - days * DAY_MS, until_ms + HOUR_MS)
            if earlier:
                return earlier[-1]
            days *= 16
        return None

    def rows_between(self, statistic: str, start_ms: int, end_ms: int) -> list[Row]:
        """Return the rows of a statistic from a time to another one."""
        answer = self._ask(
            "recorder/statistics_during_period",
            start_time=iso_time(max(start_ms, 0)),
            end_time=iso_time(end_ms),
            statistic_ids=[statistic],
            period="hour",
            types=["state", "sum"],
            units={"energy": "kWh"},
        )
        return [
            Row(int(row["start"]), _mwh(row["state"]), _mwh(row["sum"])) for row in answer.get(statistic, ())
        ]

    def write(self, statistic: str, name: str, rows: Sequence[Row]) -> None:
        """Import rows, and wait until they are written; raises Failure."""
        metadata = {
            "statistic_id": statistic,
            "source": SOURCE,
            "name": name,
            "unit_of_measurement": "kWh",
            "has_sum": True,
        }
        for at in range(0, len(rows), ROWS):
            self._import(metadata, [row.document() for row in rows[at : at + ROWS]])
        give_up_s = time.monotonic() + CONFIRM_S
        while self.rows_between(statistic, rows[-1].start_ms, rows[-1].start_ms + HOUR_MS) != [rows[-1]]:
            if time.monotonic() > give_up_s:
                raise Failure(f"Home Assistant has not written {statistic} within {CONFIRM_S:.0f} s")
            time.sleep(0.1)

    def _import(self, metadata: Mapping[str, Any], stats: Sequence[Mapping[str, Any]]) -> None:
        """Import rows in the form that this version of Home Assistant accepts; raises Failure."""
        for kind in _KINDS:
            try:
                self._ask("recorder/import_statistics", metadata={**metadata, **kind}, stats=stats)
            except Failure as failure:
                if kind is _KINDS[-1] or "invalid_format" not in str(failure):
                    raise
            else:
                return

    def _ask(self, kind: str, **fields: Any) -> Any:
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "type": kind, **fields}))
        while (answer := self._receive()).get("id") != self._number:
            pass
        if not answer["success"]:
            error = answer["error"]
            raise Failure(f"{kind}: {error['code']}: {error['message']}")
        return answer["result"]

    def _receive(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._connection.recv())
        return answer


def _mwh(kwh: float) -> int:
    return round(kwh * MWH_PER_KWH)


def import_all(recorder: Recorder, meters: Mapping[tuple[str, str], Series]) -> Iterator[str]:
    """Import the statistics of all meters, and yield a line for each."""
    for (stream, meter), series in meters.items():
        statistic = statistic_id(stream, meter)
        first_ms = int(series.time_ms[0])
        try:
            new = rows(series, recorder.last_row(statistic, first_ms - first_ms % HOUR_MS))
        except ValueError as error:
            yield f"{statistic}: skipped: {error}"
            continue
        if not new:
            yield f"{statistic}: no hour is over yet"
            continue
        recorder.write(statistic, f"{meter}, private ({stream})", new)
        end = datetime.fromtimestamp((new[-1].start_ms + HOUR_MS) / 1000, UTC)
        total_kwh = new[-1].sum_mwh / MWH_PER_KWH
        yield f"{statistic}: {len(new)} hours up to {end:%Y-%m-%d %H:%M} UTC, {total_kwh:.3f} kWh in all"


def main(arguments: Iterable[str] | None = None) -> int:
    """Read the arguments and import; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path, help="the agent's configuration, which names its store")
    parser.add_argument("--url", required=True, help="such as http://homeassistant.local:8123")
    parser.add_argument(
        "--token-file", type=Path, required=True, help="a long-lived access token of an admin"
    )
    options = parser.parse_args(None if arguments is None else [*arguments])
    try:
        meters = released(config.load(options.config).store.path)
        with Recorder(options.url, options.token_file.read_text().strip()) as recorder:
            for line in import_all(recorder, meters):
                print(line, flush=True)
    except (MeteragentError, Failure, OSError, WebSocketException) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
