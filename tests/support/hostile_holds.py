"""What must hold whatever is sent: nothing stops, what is accepted reads back equal, every reader answers."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg

from meteragent.collect.core import Message
from meteragent.consume import Descriptor, Record, Rules, by_feeder, collect, read_slots, read_table
from meteragent.consume.table import UnfitMeters
from meteragent.domain.errors import RecordError
from tests.support.collect_life import database_table, dataset_table, life
from tests.support.collecting import record_messages, terms_message
from tests.support.hostile import mutations, sent_records
from tests.support.stores import TERMS

END_MS = 4_102_444_800_000
VIEWS = (
    *(f"SELECT * FROM meteragent.{view}" for view in ("value", "energy", "mean_power", "feeder_total")),
    "SELECT * FROM meteragent.stream_total",
    "SELECT * FROM meteragent.shown_total('main', '1970-01-01', '2100-01-01', 2, 0.15)",
    "SELECT * FROM meteragent.shown_total('main', '1970-01-01', '2100-01-01', 2, 0.5, true)",
    "SELECT * FROM meteragent.refused",
    "SELECT name, now() - latest FROM meteragent.collector",
)
HONEST = [
    message
    for meter in ("honest", *(f"honest{number}" for number in range(150)))
    for message in (terms_message(TERMS, meter), *record_messages(TERMS, range(3), meter))
]
"""More meters than there are hostile ones with values of one kind in a batch."""
Rows = dict[tuple[str, int, str], tuple[Any, ...]]


async def hold(rng: random.Random, first: int, count: int, table_url: str, folder: Path) -> Counter[str]:
    """Send altered messages through `consume` and both sinks, and check all that must hold.

    Return how many messages there were, and how many became rows.
    """
    messages = mutations(rng, first, count)
    parsed(messages)
    stream = [*HONEST, *messages]
    played = await life(database_table(table_url), stream)
    assert len(played.acknowledged) == len(stream)
    played = await life(f'{dataset_table(folder)}\npartition = "month"', stream)
    assert len(played.acknowledged) == len(stream)
    with psycopg.connect(table_url) as connection:
        connection.execute(
            "INSERT INTO meteragent.feeder SELECT DISTINCT meter, left(md5(meter), 1) FROM meteragent.record"
        )
        for query in VIEWS:
            connection.execute(query).fetchall()
        in_table = rows_of(connection)
        summed(connection)
    assert rows_of(folder) == in_table
    summed(folder)
    contents = sent_records(stream)
    wrong = [key for key, row in in_table.items() if row not in contents.get(key, ())]
    assert not wrong, wrong[:3]
    honest = Counter(row[1] for (meter, *_), row in in_table.items() if meter.startswith("honest"))
    assert honest == dict.fromkeys(range(3), 151)
    return Counter(messages=len(messages), rows=len(in_table) - honest.total())


def parsed(messages: list[Message]) -> None:
    """Parse each message, and collect those of each meter: nothing but RecordError may come of it."""
    of_meter: dict[str, list[bytes]] = {}
    for message in messages:
        of_meter.setdefault(message.topic.removesuffix("/privacy"), []).append(message.payload)
        for parse in (Descriptor.parse, Record.parse):
            try:
                parse(message.payload)
            except RecordError:
                continue
    for payloads in of_meter.values():
        try:
            for series in collect(payloads).values():
                shape = series.descriptor_of(series.records[0]).shape
                if shape.is_additive or shape.is_priced:
                    series.value(int(series.time_ms[0]), band=series.records[0].band)
        except RecordError:
            continue


def rows_of(source: Any) -> Rows:
    """Return all rows of a stream: the end, the value, the unit and the draws, by meter, start and band."""
    try:
        homes = read_table(source, "main", 0, END_MS)
    except UnfitMeters as error:
        homes = read_table(source, "main", 0, END_MS, without=error.meters)
    return {
        (meter, record.time_ms, record.band or ""): (
            record.time_ms + record.step_ms,
            record.value,
            record.unit,
            record.draws,
        )
        for meter, series in homes.items()
        for record in series.records
    }


def summed(source: Any) -> None:
    """Add up the slots of all meters whose values can be added to those of most."""
    try:
        slots = read_slots(source, "main", 0, END_MS)
    except UnfitMeters as error:
        slots = read_slots(source, "main", 0, END_MS, without=error.meters)
    assert "honest" in slots.meters
    for rules in (Rules(), Rules(at_least=2, share=0.15)):
        by_feeder(slots, lambda meter: meter[-1:], rules)
