"""A PostgreSQL that is full, read-only, slow, locked or restarted: only what is written is acknowledged."""

import asyncio
import json
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from meteragent.service.health import ask_socket
from tests.conftest import MakeBroker
from tests.integration.block_device import MIB, ext4
from tests.integration.collecting import DURABLE, Collector, burst, by_mqtt, count
from tests.integration.service import LIMIT_S, until
from tests.support.collecting import empty_database, refusals, rows
from tests.support.postgres import Postgres, server_programs

SAID_S = 60.0
"""Within this time, `health` says that the database cannot be written."""
SIZE = 200
"""Records in a burst; on the full disk, ten times as many."""


def _execute(server: Postgres, *statements: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@contextmanager
def read_only(server: Postgres) -> Iterator[None]:
    """Refuse all writes, as a server does that has become a standby."""
    _execute(server, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
    yield
    _execute(server, "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")


@contextmanager
def locked(server: Postgres) -> Iterator[None]:
    """Hold a lock on the table of records, as somebody who changes it."""
    with psycopg.connect(server.url()) as connection:
        connection.execute("LOCK TABLE meteragent.record IN ACCESS EXCLUSIVE MODE")
        yield


@contextmanager
def slow(server: Postgres) -> Iterator[None]:
    """Make each new row take so long that a whole burst takes more than the time for an answer."""
    _execute(
        server,
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END'",
        "CREATE TRIGGER slow BEFORE INSERT ON meteragent.record FOR EACH ROW EXECUTE FUNCTION wait()",
    )
    yield


@contextmanager
def restarted(server: Postgres) -> Iterator[None]:
    """Stop the server, and start it again."""
    server.stop()
    yield
    server.start()


@contextmanager
def full(server: Postgres) -> Iterator[None]:
    """Take all room on the file system of the server, which then refuses writes, or ends."""
    ballast = server.folder / "ballast"
    subprocess.run(["dd", "if=/dev/zero", f"of={ballast}", "bs=64k"], check=False, capture_output=True)
    yield
    ballast.unlink()
    server.stop()
    server.start()


@contextmanager
def server_in(place: str) -> Iterator[Postgres]:
    """Start a server of this test's own."""
    programs = server_programs()
    assert programs is not None
    with Postgres(programs, place) as server:
        yield server


@contextmanager
def small_disk() -> Iterator[str]:
    """Make a small file system with a short path, which everybody may use."""
    with tempfile.TemporaryDirectory(prefix="full-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        with ext4(Path(folder) / "disk", "-m", "0", size_bytes=256 * MIB) as device:
            device.mount.chmod(0o777)
            yield str(device.mount)


async def held(
    fault: Callable[[Postgres], AbstractContextManager[None]],
    server: Postgres,
    mosquitto: MakeBroker,
    folder: Path,
) -> None:
    """Send while the database has a fault, and kill `collect` meanwhile; then nothing may be missing."""
    url, rng = empty_database(server), random.Random(fault.__name__)

    def codes() -> Any:
        return json.loads(ask_socket(folder / "health") or '{"problem_codes": null}')["problem_codes"]

    with mosquitto(is_persistent=True, settings=DURABLE) as broker:
        chain = by_mqtt(broker)
        with Collector(folder, chain.source, url, "tests.integration.hasty") as collector:
            await until(collector.is_connected)
            messages, expected = burst(rng, 0, SIZE)
            await chain.send(messages)
            await until(lambda: count(url) == len(expected))
            with fault(server):
                messages, more = burst(rng, 1, SIZE * (10 if fault is full else 1))
                await chain.send(messages)
                if fault is not slow:
                    await until(lambda: codes() == ["collect_sink_down"], SAID_S)
                collector.kill()
                collector.start()
                await asyncio.sleep(1)
            await until(lambda: collector.is_connected() and count(url) == len(expected + more), 2 * LIMIT_S)
            await until(lambda: codes() == [])
            assert await asyncio.to_thread(collector.stop) == 0
    with psycopg.connect(url) as connection:
        assert rows(connection) == sorted(expected + more)
        assert refusals(connection) == {}


@pytest.mark.parametrize("fault", [read_only, locked, slow, restarted])
async def test_nothing_is_lost_and_it_is_said(
    fault: Callable[[Postgres], AbstractContextManager[None]], mosquitto: MakeBroker, tmp_path: Path
) -> None:
    """`health` says within a minute that the database cannot be written, and every record is kept."""
    with server_in("/tmp") as server:
        await held(fault, server, mosquitto, tmp_path)


async def test_a_full_disk_loses_nothing(mosquitto: MakeBroker, tmp_path: Path) -> None:
    """A server without room may even end; when there is room again, every record is written."""
    with small_disk() as place, server_in(place) as server:
        await held(full, server, mosquitto, tmp_path)
