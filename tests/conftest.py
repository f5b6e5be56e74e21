"""What tests share: a real broker, certificates, and how hard Hypothesis looks."""

import gc
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tests.support.hypothesis_profiles  # noqa: F401 -- it sets them
from tests.commands.system_parts import find
from tests.support import uses
from tests.support.broker import Broker, Certificates, mosquitto_program
from tests.support.collecting import empty_database
from tests.support.not_run import data_folder, not_run
from tests.support.postgres import Postgres, server_programs

if "LC_ALL" in os.environ:
    os.environ["LANG"] = os.environ.pop("LC_ALL")
os.environ["LC_MESSAGES"] = "C"
"""Texts are in English, here and in programs that tests start, whatever language the developer reads."""

MakeBroker = Callable[..., Broker]
MakeCertificates = Callable[..., Certificates]
FOLDERS = {
    "integration": ("integration", "parts"),
    "spark": ("spark", "parts"),
    "statistical": ("statistical",),
}
"""Marks of all tests in a folder."""
FIXTURES = {
    "data": "data",
    **dict.fromkeys(("mosquitto", "nats", "openssl", "postgres", "prometheus", "systemd_analyze"), "parts"),
}
"""Marks of all tests that ask for a fixture, or for one that asks for it."""
COVERED = {"domain", "core", "wire", "store"}
"""Rooms whose branches their own tests must reach: `make test` measures it, but not by slow tests."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test by what it uses, and what measures coverage: targets of the Makefile choose by marks."""
    room = item.path.parent.name
    fixtures = item.fixturenames if isinstance(item, pytest.Function) else ()
    for mark in {*FOLDERS.get(room, ()), *(FIXTURES[name] for name in fixtures if name in FIXTURES)}:
        item.add_marker(mark)
    if room in COVERED and item.get_closest_marker("slow") is None:
        item.add_marker("covered")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Watch what the test uses."""
    uses.watch(item)


def pytest_collection_finish() -> None:
    """Exempt what stays until the end from the garbage collection, which then takes a sixth less CPU time.

    The thousands of tests and all modules would be traversed again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def pytest_unconfigure() -> None:
    """Collect everything at the end, or nanobind reports what is frozen as leaked."""
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="module")
def leaks_of_module() -> Iterator[None]:
    """Fail the last test of a module whose fixtures leak."""
    yield
    uses.collect_leaks()


@pytest.fixture(autouse=True)
def leaks() -> Iterator[None]:
    """Fail a test that leaks."""
    yield
    uses.collect_leaks()


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """Restore the log level of the agent, which commands set for the whole process."""
    log = logging.getLogger("meteragent")
    level = log.level
    yield
    log.setLevel(level)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real load traces."""
    return data_folder()


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeBroker]:
    """Makes brokers that have not started; its arguments are those of `Broker` after the folder."""
    program = mosquitto_program()
    if program is None:
        not_run("mosquitto", "mosquitto is not on the path, nor in /usr/sbin, nor in METERAGENT_MOSQUITTO")
    brokers = []

    def make(**options: object) -> Broker:
        brokers.append(Broker(program, tmp_path_factory.mktemp("mosquitto"), **options))  # type: ignore[arg-type]
        return brokers[-1]

    yield make
    for broker in brokers:
        broker.stop()


@pytest.fixture
def broker(mosquitto: MakeBroker) -> Iterator[Broker]:
    """A running broker of this test's own, which remembers nothing."""
    with mosquitto() as running:
        yield running


@pytest.fixture(scope="session")
def openssl() -> MakeCertificates:
    """Makes certificates; its arguments are those of `Certificates.make`."""
    return Certificates.make


@pytest.fixture(scope="session")
def certificates(openssl: MakeCertificates, tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority, a server and a client."""
    return openssl(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL server of this worker; each test makes a database of its own."""
    with make_postgres() as server:
        yield server


def make_postgres() -> Postgres:
    """Return a PostgreSQL server that has not started."""
    programs = server_programs()
    if programs is None:
        not_run("postgres", "PostgreSQL 15 or later is not on the path, in Debian's folder, or installable")
    return Postgres(programs)


@pytest.fixture
def table_url(postgres: Postgres) -> str:
    """The address of an empty database."""
    return empty_database(postgres)


@pytest.fixture(scope="session")
def systemd_analyze() -> Path:
    """Systemd's own tool."""
    program = find("systemd-analyze")
    if program is None:
        not_run("systemd-analyze", "systemd-analyze is not on the path, nor in /usr/sbin")
    return program


@pytest.fixture(scope="session")
def prometheus() -> Path:
    """The program of Prometheus."""
    program = find("prometheus")
    if program is None:
        not_run("prometheus", "prometheus is not on the path, nor installable")
    return program


@pytest.fixture(scope="module")
def interruptible() -> Iterator[None]:
    """Let SIGINT interrupt this process and those that it starts.

    A shell starts what runs in the background with SIGINT ignored, and children inherit that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
