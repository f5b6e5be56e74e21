"""Long runs are stopped and continued, and their logs say what was done (simulators.long_run)."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from simulators import long_run
from simulators.__main__ import main
from simulators.invariant import InvariantViolation
from simulators.long_run import LongRun, OtherLog, Stopped, stoppable
from simulators.simtest import runs
from tests.support.not_run import ROOT

FOLDERS = ("simulators/simtest",)


def lines(path: Path) -> list[dict[str, Any]]:
    """Return what a log holds."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_log_is_continued(tmp_path: Path) -> None:
    """A run begun again with its log has the parts that were done, and adds to them."""
    path = tmp_path / "new" / "log"
    for number in range(3):
        with LongRun(path, "test", FOLDERS) as log:
            assert [part["number"] for part in log.parts] == list(range(number))
            log.append({"number": number})
    header, *parts = lines(path)
    assert header["run"] == "test"
    assert header["revision"]
    assert [part["number"] for part in parts] == [0, 1, 2]


def test_a_line_cut_short_is_dropped(tmp_path: Path) -> None:
    """The rest of a line after a kill is not a part; wherever the line was cut, the parts before it count."""
    path = tmp_path / "log"
    with LongRun(path, "test", FOLDERS) as log:
        log.append({"number": 0})
        size = path.stat().st_size
        log.append({"number": 1})
    data = path.read_bytes()
    for end in range(size, len(data)):
        path.write_bytes(data[:end])
        with LongRun(path, "test", FOLDERS) as log:
            assert [part["number"] for part in log.parts] == [0]
            log.append({"number": 2})
        assert [part.get("number") for part in lines(path)[1:]] == [0, 2]


def test_other_logs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log is refused if it belongs to another run or version, is damaged, or is being written."""
    path = tmp_path / "log"
    with LongRun(path, "test", FOLDERS), pytest.raises(OtherLog, match="another run is writing"):
        LongRun(path, "test", FOLDERS).__enter__()
    with pytest.raises(OtherLog, match="the log of 'test'"):
        LongRun(path, "other", FOLDERS).__enter__()
    with pytest.raises(OtherLog, match="by a different version of the code"):
        LongRun(path, "test", ("simulators/adversary",)).__enter__()
    before = path.read_bytes()
    with LongRun(path, "test", FOLDERS) as log:
        monkeypatch.setattr(long_run, "code_digest", lambda _: "other")
        with pytest.raises(OtherLog, match="changed during the run"):
            log.append({"number": 0})
    assert path.read_bytes() == before
    monkeypatch.undo()
    path.write_bytes(before + b"no JSON\n")
    with pytest.raises(OtherLog, match="line 2"):
        LongRun(path, "test", FOLDERS).__enter__()


def test_the_digest_sees_every_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another byte in a file, another name of one and one more file are other code; the cache is not."""
    monkeypatch.setattr(long_run, "ROOT", tmp_path)
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "one.py").write_text("1")
    digests = [long_run.code_digest(["code"])]
    (folder / "one.pyc").write_text("2")
    assert long_run.code_digest(["code"]) == digests[0]
    (folder / "one.py").write_text("2")
    digests.append(long_run.code_digest(["code"]))
    (folder / "one.py").rename(folder / "two.py")
    digests.append(long_run.code_digest(["code"]))
    (folder / "three.py").write_text("")
    digests.append(long_run.code_digest(["code"]))
    assert len(set(digests)) == 4


@pytest.mark.parametrize("number", long_run.STOP_SIGNALS)
def test_a_signal_stops_a_run(number: signal.Signals) -> None:
    """Each signal raises Stopped, also where it was ignored; afterwards it does what it did before."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with pytest.raises(Stopped), stoppable():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_signal_waits_for_the_part_in_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that comes while a part is written is raised when the part is on disk and counted."""
    fsync = os.fsync

    def fsync_and_stop(file: int) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        fsync(file)

    with LongRun(tmp_path / "log", "test", FOLDERS) as log:
        monkeypatch.setattr(os, "fsync", fsync_and_stop)
        with pytest.raises(Stopped), stoppable():
            log.append({"number": 0})
        assert log.parts == [{"number": 0}]
    assert [line["number"] for line in lines(tmp_path / "log")[1:]] == [0]


def test_a_signal_that_was_lost_ends_the_run_after_its_part(tmp_path: Path) -> None:
    """What a signal raises in a finalizer, or where everything is caught, does not end the run at once."""
    with LongRun(tmp_path / "log", "test", FOLDERS) as log, stoppable():
        with suppress(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Stopped):
            log.append({"number": 0})
    assert [line["number"] for line in lines(tmp_path / "log")[1:]] == [0]


def wait_for_a_part(process: subprocess.Popen[Any], path: Path) -> None:
    """Wait until a run has written its first part, or has ended."""
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < 2):
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)


def test_simtest_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    """Killed and started again, it runs each seed once, and its totals are of both."""
    path = tmp_path / "log"
    command = [
        sys.executable,
        "-m",
        "simulators",
        "simtest",
        "--jobs",
        "1",
        "--log",
        str(path),
        "--from",
        "40",
    ]
    process = subprocess.Popen([*command, "--seeds", "100000"], cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        wait_for_a_part(process, path)
    finally:
        process.kill()
        process.wait()
    parts = sum("seeds" in line for line in lines(path))
    ended = subprocess.run(
        [*command, "--seeds", str(20 * parts + 25)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    runs_of = [seed for part in lines(path)[1:] for seed in range(part["from"], part["from"] + part["seeds"])]
    assert runs_of == list(range(40, 40 + 20 * parts + 25))
    assert f"{20 * parts + 25}  schedules\n" in ended.stdout
    assert f"{20 * parts + 25}  seeds run, 0 of them violated an invariant" in ended.stdout


def test_simtest_ends_at_a_signal(tmp_path: Path) -> None:
    """SIGTERM ends it with 143 after its last whole part; it prints the totals and that it can go on."""
    path = tmp_path / "log"
    command = [sys.executable, "-m", "simulators", "simtest", "--jobs", "1", "--log", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        wait_for_a_part(process, path)
        process.terminate()
        out, _ = process.communicate()
    assert process.returncode == 143
    assert f"{20 * len(lines(path)[1:])}  seeds run, 0 of them violated an invariant\nstopped" in out


def test_simtest_goes_past_what_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a log a schedule that breaks does not end it: the others run, and the end is 1, again too.

    Without one it ends there. All other schedules stand for the first, which alone is run.
    """
    run, results = runs.run, list[Any]()

    def breaks(plan: Any, where: Path, **options: Any) -> Any:
        if plan.seed in (3, 5):
            raise InvariantViolation("nothing holds")
        if not results:
            results.append(run(plan, where, **options))
        return results[0]

    monkeypatch.setattr(runs, "run", breaks)
    monkeypatch.setattr("simulators.commands.simtest.shrink", lambda plan, *_, **__: plan)
    command = ["simtest", "--seeds", "30", "--jobs", "1"]
    for _ in range(2):
        assert main([*command, "--log", str(tmp_path / "log")]) == 1
        told = capsys.readouterr().out
        assert "28  schedules\n" in told
        assert "30  seeds run, 2 of them violated an invariant" in told
        assert "seed 3 INVARIANT VIOLATED: nothing holds" in told
    assert main(command) == 1
    assert "20  seeds run, 2 of them violated an invariant" in capsys.readouterr().out


def test_simtest_refuses_a_log_that_is_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log of another run: 2, and which."""
    with LongRun(tmp_path / "log", "kill_rounds", FOLDERS):
        pass
    assert main(["simtest", "--seeds", "1", "--log", str(tmp_path / "log")]) == 2
    assert "is the log of 'kill_rounds'" in capsys.readouterr().err
