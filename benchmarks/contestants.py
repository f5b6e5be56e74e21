"""The contestants that turn readings into records: the agent, and peers that forward messages unchanged.

Each contestant is a separate process (or two brokers with a bridge), so that its CPU time and memory can be
measured.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import report_missing
from tests.commands import system_parts
from tests.support.broker import Broker, mosquitto_program

ROOT = Path(__file__).resolve().parent.parent
SUBSCRIBED = b"meters/"
READY_S = 60.0
BYTECODE = Path(tempfile.gettempdir()) / "meteragent-benchmarks-bytecode"
TICKS = os.sysconf("SC_CLK_TCK")
BUILD_PACKAGES = ("gcc", "libc6-dev", "libmosquitto-dev")
"""The packages needed to build `forward.c`."""

CONFIG = """
[source]
url = "mqtt://127.0.0.1:{port}"
topic = "meters/{{meter}}/power"
profile = "json"
time = "t"
kind = "power"
unit = "W"
inflight = 2000
[window]
length = "{length}"
clock = "{clock}"
[sink]
topic = "private/{{meter}}/power"
inflight = 1000
[store]
path = "{folder}/db"
"""


@dataclass(frozen=True)
class RunningContestant:
    """A running contestant: the ports for its readings and records, its process, and its folder.

    `start_s` and `subscribed_s` are the times of its start and its subscription, or 0 if they are not
    measured. With one reading per slot, the record of a reading is sent once `behind` further readings of the
    meter have arrived.
    """

    source_port: int
    sink_port: int
    pid: int
    folder: Path
    start_s: float = 0.0
    subscribed_s: float = 0.0
    behind: int = 0

    @property
    def cpu_s(self) -> float:
        """The CPU time of the process, in s."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def memory_mb(self) -> float:
        """The resident memory, in units of 10^6 bytes."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @property
    def peak_memory_mb(self) -> float:
        """The peak resident memory, in units of 10^6 bytes."""
        return self._status_mb("VmHWM")

    @property
    def mapped_memory_mb(self) -> float:
        """The resident memory of mapped files, such as libraries, in units of 10^6 bytes."""
        return self._status_mb("RssFile")

    def _status_mb(self, key: str) -> float:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        [kib] = (line.split()[1] for line in lines if line.startswith(f"{key}:"))
        return int(kib) * 1024 / 1e6


Contestant = Callable[[int], AbstractContextManager[RunningContestant]]
"""A function of the QoS; it returns a context manager that runs a contestant and awaits its subscription."""


@contextmanager
def process(*command: str | Path, log: Path | None = None) -> Iterator[int]:
    """Run a process during the block, and yield its process id.

    The process uses cached bytecode, as an installed program does. Its output goes to `log`, or else to a
    temporary file; if the process exits during the block, the last 2,000 bytes of the output are printed.
    """
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(BYTECODE)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile() if log is None else log.open("w+b") as output:
        child = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, env=environment)
        try:
            yield child.pid
        finally:
            if child.poll() is not None:
                output.seek(0)
                print(
                    *command, "has exited:", output.read()[-2000:].decode(errors="replace"), file=sys.stderr
                )
            child.kill()
            child.wait()


@contextmanager
def broker(**settings: str | int) -> Iterator[Broker]:
    """Run a mosquitto broker and yield it; its folder is removed afterwards.

    Unless `settings` say otherwise, the number of messages in flight has no limit.
    """
    program = mosquitto_program()
    assert program is not None
    defaults: dict[str, str | int] = {
        "max_inflight_messages": 0,
        "set_tcp_nodelay": "true",
        "log_type": "subscribe",
    }
    folder = Path(tempfile.mkdtemp())
    try:
        with Broker(program, folder, settings=defaults | settings) as local_broker:
            yield local_broker
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def mosquitto_version() -> str:
    """Return the version of mosquitto."""
    program = mosquitto_program()
    assert program is not None
    usage = subprocess.run([program, "-h"], check=False, capture_output=True, text=True).stdout
    return usage.split()[2]


def await_subscription(local_broker: Broker) -> None:
    """Wait until a client has subscribed to readings. Raises TimeoutError after `READY_S`."""
    until_s = time.monotonic() + READY_S
    while SUBSCRIBED not in (local_broker.folder / "log").read_bytes():
        if time.monotonic() > until_s:
            raise TimeoutError("no client has subscribed")
        time.sleep(0.002)


def agent(length: str = "1s", clock: str = "event") -> Contestant:
    """Return a contestant: the agent, with a new store on the project's disk."""

    @contextmanager
    def start(_: int) -> Iterator[RunningContestant]:
        """Run the agent."""
        with ExitStack() as stack:
            local_broker = stack.enter_context(broker())
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=ROOT)))
            path = folder / "bench.toml"
            text = CONFIG.format(port=local_broker.port, folder=folder, length=length, clock=clock)
            path.write_text(text)
            start_s = time.monotonic()
            pid = stack.enter_context(process(sys.executable, "-m", "meteragent", "run", path))
            await_subscription(local_broker)
            yield RunningContestant(
                local_broker.port, local_broker.port, pid, folder, start_s, time.monotonic(), behind=1
            )

    return start


def forwarder(name: str) -> Contestant:
    """Return a contestant: the program of `benchmarks.forwarders` with the given name."""

    @contextmanager
    def start(qos: int) -> Iterator[RunningContestant]:
        """Run the forwarder."""
        with broker() as local_broker:
            port = str(local_broker.port)
            command = (sys.executable, "-m", "benchmarks.forwarders", name, port, port, str(qos))
            start_s = time.monotonic()
            with process(*command) as pid:
                await_subscription(local_broker)
                now_s = time.monotonic()
                yield RunningContestant(
                    local_broker.port, local_broker.port, pid, local_broker.folder, start_s, now_s
                )

    return start


def in_c() -> Contestant | None:
    """Build `forward.c` and return it as a contestant; print a message and return None if that fails."""
    program = build(Path(tempfile.mkdtemp()) / "forward")
    if program is None:
        reason = f"cannot be built: one of {', '.join(BUILD_PACKAGES)} is missing and cannot be installed"
        report_missing("libmosquitto in C", reason)
        return None

    @contextmanager
    def start(qos: int) -> Iterator[RunningContestant]:
        """Run the program."""
        with ExitStack() as stack:
            local_broker = stack.enter_context(broker())
            pid = stack.enter_context(
                process(program, str(local_broker.port), str(local_broker.port), str(qos))
            )
            await_subscription(local_broker)
            yield RunningContestant(local_broker.port, local_broker.port, pid, local_broker.folder)

    return start


def build(program: Path) -> Path | None:
    """Compile `forward.c`; return the program, or None if it cannot be compiled.

    If the first attempt fails, `BUILD_PACKAGES` are installed. If the second attempt fails, too,
    libmosquitto-dev and its missing dependencies are unpacked (see `tests.commands.system_parts`).
    """
    if _compile(program):
        return program
    for name in BUILD_PACKAGES:
        system_parts.install(name)
    if _compile(program):
        return program
    system_parts.unpack("libmosquitto-dev")
    root = system_parts.PREFIX / "system" / "root"
    headers = [f"-I{path.parent}" for path in root.glob("**/include/**/mosquitto.h")]
    folders = sorted({path.parent for path in root.glob("**/lib*.so*")})
    libraries = [flag for path in folders for flag in (f"-L{path}", f"-Wl,-rpath,{path}")]
    return program if _compile(program, *headers, *libraries) else None


def _compile(program: Path, *flags: str) -> bool:
    """Compile the forwarder; return whether gcc could."""
    source = ROOT / "benchmarks" / "forward.c"
    command = ["gcc", "-O2", *flags, "-o", str(program), str(source), "-lmosquitto"]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@contextmanager
def bridge(qos: int) -> Iterator[RunningContestant]:
    """Run mosquitto's bridge: a second broker that fetches the readings and publishes them as records."""
    with broker() as source:
        settings: dict[str, str | int] = {
            "connection": "bench",
            "address": f"127.0.0.1:{source.port}",
            "topic": f"# in {qos} private/ meters/",
            "notifications": "false",
        }
        with broker(**settings) as sink:
            await_subscription(source)
            yield RunningContestant(source.port, sink.port, sink.pid, sink.folder)
