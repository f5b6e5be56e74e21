"""What is missing is said, and fails the run unless the user has accepted it."""

import os
from pathlib import Path

import pytest
from _pytest.outcomes import Failed, Skipped

from tests.commands import system_parts
from tests.support import uses
from tests.support.not_run import data_folder, not_run


def test_missing_part_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test whose part is missing fails and says NOT RUN, also when MISSING_OK names another one."""
    monkeypatch.setenv("MISSING_OK", "mosquitto database")
    with pytest.raises(Failed, match="NOT RUN: real load traces"):
        not_run("data", "real load traces")


@pytest.mark.parametrize("accepted", ["data", "mosquitto data", "data,mosquitto"])
def test_accepted_part_is_left_out(monkeypatch: pytest.MonkeyPatch, accepted: str) -> None:
    """A part that MISSING_OK names is left out, and that is still said."""
    monkeypatch.setenv("MISSING_OK", accepted)
    with pytest.raises(Skipped, match="NOT RUN: real load traces"):
        not_run("data", "real load traces")


def test_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """METERAGENT_DATA names the folder of traces; without it, or if it is not there, they are missing."""
    monkeypatch.setattr(uses, "_running", [])
    monkeypatch.delenv("MISSING_OK", raising=False)
    monkeypatch.setenv("METERAGENT_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.setenv("METERAGENT_DATA", str(tmp_path / "nothing"))
    with pytest.raises(Failed, match="NOT RUN"):
        data_folder()
    monkeypatch.delenv("METERAGENT_DATA")
    with pytest.raises(Failed, match="set METERAGENT_DATA"):
        data_folder()


def program(path: Path, text: str) -> None:
    """A program of the shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_find(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program on the path counts if it starts; one without its libraries (127) does not."""
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path / "thing", "exit 3")
    assert system_parts.find("thing") == tmp_path / "thing"
    program(tmp_path / "thing", "exit 127")
    assert system_parts.find("thing") is None


def test_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Java that is too old for Spark does not count, nor one that says no version."""
    monkeypatch.setenv("PATH", str(tmp_path))
    said = {
        "openjdk 11.0.2 2019-01-15": False,
        "java 17.0.1 2021-10-19": True,
        "openjdk 21": True,
        "?": False,
    }
    for text, counts in said.items():
        program(tmp_path / "java", f"echo '{text}'")
        assert bool(system_parts.find("java")) is counts


def test_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the packages that may hold a program, the first that the system has is taken."""
    monkeypatch.setattr(system_parts, "run", lambda *command: (100 * ("openjdk-17" in command[-1]), ""))
    assert system_parts.package("java") == "openjdk-21-jre-headless"
    assert system_parts.package("mosquitto") == "mosquitto"
    assert system_parts.package("dockerd") == "docker.io"


def test_relink(tmp_path: Path) -> None:
    """A link to where a package would have put a file leads to the unpacked one; one that leads stays."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "unpacked.cfg").write_text("here")
    for name, target in {"cfg": "/etc/unpacked.cfg", "there": "/etc/passwd", "near": "cfg"}.items():
        (tmp_path / name).symlink_to(target)
    system_parts.relink(tmp_path)
    assert (tmp_path / "cfg").read_text() == (tmp_path / "near").read_text() == "here"
    assert (tmp_path / "there").readlink() == Path("/etc/passwd")


def test_wrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An unpacked program is started with the libraries that were unpacked with it, under one process id."""
    monkeypatch.setattr(system_parts, "PREFIX", tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    library = tmp_path / "root" / "lib" / "libthing.so.1"
    program(tmp_path / "root" / "usr" / "sbin" / "thing", 'echo "$PPID $LD_LIBRARY_PATH $*"')
    library.parent.mkdir()
    library.touch()
    (tmp_path / "bin").mkdir()
    assert system_parts.wrap("thing", tmp_path / "root") == tmp_path / "bin" / "thing"
    _, said = system_parts.run(tmp_path / "bin" / "thing", "-c", "x")
    assert said.split() == [str(os.getpid()), str(library.parent), "-c", "x"]


def test_ladder(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The rungs are tried in order; where all fail the ladder says NOT RUN and fails, unless accepted."""
    tried: list[str] = []
    monkeypatch.setenv("MISSING_OK", "")
    for rung in ("find", "install", "unpack"):
        monkeypatch.setattr(system_parts, rung, lambda name, rung=rung: tried.append(rung))
    assert not system_parts.ensure("thing")
    assert tried == ["find", "install", "unpack"]
    assert capsys.readouterr().out.startswith("NOT RUN: the tests that need thing")
    monkeypatch.setenv("MISSING_OK", "data thing")
    assert system_parts.ensure("thing")
    assert capsys.readouterr().out.startswith("NOT RUN: the tests that need thing")
