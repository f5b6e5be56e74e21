"""What agents send to `collect`, and the tables that it fills."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from meteragent.collect.core import Core, Limits, Message
from meteragent.collect.topic import StreamTopic
from meteragent.domain.terms import Terms
from meteragent.wire.descriptor import describe_terms
from tests.support.messages import NOON_MS, described, recorded
from tests.support.postgres import Postgres

TEMPLATE = "private/{meter}/power"
NOW_MS = NOON_MS + 86_400_000


def topic(meter: str) -> str:
    """Return the topic of a meter's records."""
    return TEMPLATE.replace("{meter}", meter)


def core(limits: Limits | None = None) -> Core:
    """Return a core of one stream, `main`, that knows nothing yet."""
    return Core([StreamTopic.parse("main", TEMPLATE)], limits or Limits())


def terms_message(terms: Terms, meter: str = "m1") -> Message:
    """Return a meter's descriptor on its topic."""
    return Message(f"{topic(meter)}/privacy", described(terms, meter))


def record_messages(terms: Terms, quanta: Sequence[int], meter: str = "m1", first: int = 0) -> list[Message]:
    """Return records of consecutive slots on their topic."""
    return [Message(topic(meter), payload) for payload in recorded(terms, quanta, meter, first)]


def id_of(terms: Terms) -> str:
    """Return the id of terms."""
    return describe_terms(terms).id


class TableRow(NamedTuple):
    """A row of the table of records, with its time in ms."""

    meter: str
    time_ms: int
    band: str
    quanta: int


def rows(connection: "psycopg.Connection[Any]", stream: str = "main") -> list[TableRow]:
    """Return the rows of a stream, in order."""
    query = (
        "SELECT meter, (extract(epoch FROM t) * 1000)::bigint, band, quanta FROM meteragent.record"
        " WHERE stream = %s ORDER BY meter, t, band"
    )
    return [TableRow(*row) for row in connection.execute(query, (stream,)).fetchall()]


def refusals(connection: "psycopg.Connection[Any]") -> dict[str, int]:
    """Return the refusals by reason."""
    query = "SELECT reason, sum(count)::bigint FROM meteragent.refused GROUP BY reason"
    return dict(connection.execute(query).fetchall())


def empty_database(server: Postgres) -> str:
    """Remove all tables from a server's database, and return its address."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS meteragent CASCADE")
    return server.url()
