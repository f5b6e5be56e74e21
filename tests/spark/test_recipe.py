"""The recipe of deploy/spark: what it takes from messages, and what it makes of releases."""

import importlib.util
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

from pyspark.sql import DataFrame, Observation, SparkSession

from meteragent import config
from meteragent.archive.policy import Policy
from meteragent.spark import descriptors, sanitise
from tests.spark import homes
from tests.spark.homes import Place
from tests.support.not_run import ROOT

FOLDER = ROOT / "deploy" / "spark"


def recipe() -> ModuleType:
    """The script."""
    spec = importlib.util.spec_from_file_location("from_kafka", FOLDER / "from_kafka.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_configuration() -> None:
    """The configuration of streams is one that can be released under."""
    policy = Policy.of(config.load(FOLDER / "stream.toml"))
    assert policy.columns == ("meter", "time", "value")


def test_readings(spark: SparkSession) -> None:
    """Numbers are read exactly; what is not a reading is left out; without a number the value is null."""
    noon = "2026-11-20T12:00:00Z"
    said = [
        f'{{"t":"{noon}","power":512.123456}}',
        f'{{"t":"{noon}","power":"x"}}',
        '{"t":"x","power":1}',
        "[",
        None,
    ]
    rows = [("m1", item) for item in said] + [(None, said[0])]
    actual = recipe().readings(messages_of(spark, rows)).collect()
    at = datetime(2026, 11, 20, 12, tzinfo=UTC)
    assert [(row.meter, row.time.astimezone(UTC), row.value) for row in actual] == [
        ("m1", at, Decimal("512.123456")),
        ("m1", at, None),
    ]


NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
TIMES = {
    '"2026-11-20T13:00:00+01:00"': NOON,
    '"2026-11-20 07:00:00-0500"': NOON,
    str(int(NOON.timestamp())): NOON,
    f'"{int(NOON.timestamp())}"': NOON,
    f"{NOON.timestamp():.3f}": NOON,
    f"{NOON.timestamp():.10e}": NOON,
    '"2026-11-20T12:00:00"': None,
    '"2026-11-20"': None,
    '"12:00"': None,
    '"T12:00Z"': None,
    "2026": None,
    str(int(NOON.timestamp()) * 1000): None,
    "1e300": None,
    "true": None,
    "null": None,
}


def test_times_do_not_depend_on_the_session(spark: SparkSession) -> None:
    """A time has an offset or is Unix seconds; others are dropped and counted, as are arrays."""
    payloads = [f'{{"t":{text},"power":{at}}}' for at, text in enumerate(TIMES)]
    rows = [("m1", item) for item in [*payloads, f"[{payloads[0]},{payloads[0]}]", "7"]] + [("", payloads[0])]
    zone, messages = spark.conf.get("spark.sql.session.timeZone"), messages_of(spark, rows)
    observation, observe = Observation(), type(messages).observe
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    with patch.object(
        type(messages), "observe", lambda rows, _, *columns: observe(rows, observation, *columns)
    ):
        try:
            actual = recipe().readings(messages).selectExpr("value", "unix_micros(time) time").collect()
        finally:
            spark.conf.set("spark.sql.session.timeZone", str(zone))
    micros = int(NOON.timestamp()) * 1_000_000
    read = {int(row.value): row.time for row in actual}
    assert read == {at: micros for at, time in enumerate(TIMES.values()) if time}
    lost = sum(time is None for time in TIMES.values()) + 2
    assert observation.get == {"messages": len(rows), "no_meter": 1, "no_time": lost, "no_value": 2}


def messages_of(spark: SparkSession, rows: Sequence[tuple[str | None, str | None]]) -> DataFrame:
    """Messages as Kafka delivers them."""
    return spark.createDataFrame(rows, "key string, value string").selectExpr(
        "cast(key as binary) key", "cast(value as binary) value"
    )


def test_messages(spark: SparkSession, tmp_path: Path) -> None:
    """A release is a message under its meter's name, and names a descriptor that is told."""
    place = Place.make(tmp_path)
    released = homes.plain(place).slice(0, 1)
    rows = spark.createDataFrame(homes.wide(place.policy)).where("meter = 'm0'")
    sent = recipe().messages(sanitise(rows, place.policy)).orderBy("value").collect()
    first = min((json.loads(row.value) for row in sent), key=lambda item: str(item["start"]))
    assert {row.key for row in sent} == {"m0"}
    assert first["values"] == released.column("values").to_pylist()[0]
    assert first["k"] == homes.KEY.at(homes.starts(place.policy)[0]).id
    assert first["d"] in {item["id"] for item in descriptors(place.policy)}
