"""The unit that is shipped, as systemd reads it."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.not_run import ROOT

UNIT = ROOT / "deploy" / "systemd" / "meteragent.service"
COLLECT = ROOT / "deploy" / "collect" / "meteragent-collect.service"
CROWD = ROOT / "deploy" / "crowd" / "meteragent-crowd@.service"
EXPOSURE_MOST = 2.0


def said(*command: str | Path) -> str:
    """What a command says, and that it ends well."""
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def exposure(analyze: Path, unit: Path) -> float:
    """The exposure level of a unit's sandbox: 0 is best, 10 is none."""
    text = said(analyze, "security", "--offline=true", "--no-pager", unit)
    (actual,) = re.findall(r"Overall exposure level for .*: ([0-9.]+)", text)
    return float(actual)


def test_the_sandbox_is_tight(systemd_analyze: Path, tmp_path: Path) -> None:
    """Systemd rates the exposure of each unit at 2.0 or less of 10, and would not without the sandbox."""
    assert exposure(systemd_analyze, UNIT) <= EXPOSURE_MOST
    assert exposure(systemd_analyze, COLLECT) <= EXPOSURE_MOST
    assert exposure(systemd_analyze, CROWD) <= EXPOSURE_MOST
    bare = tmp_path / "meteragent.service"
    bare.write_text("[Service]\nExecStart=/bin/true\n")
    assert exposure(systemd_analyze, bare) > EXPOSURE_MOST


@pytest.mark.parametrize("unit", [UNIT, COLLECT, CROWD], ids=lambda unit: unit.stem)
def test_every_directive_is_understood(unit: Path, systemd_analyze: Path, tmp_path: Path) -> None:
    """Systemd has nothing to remark; a directive that it does not know it would."""
    program = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text())
    here = tmp_path / unit.name
    here.write_text(program)
    assert unit.name not in said(systemd_analyze, "verify", "--recursive-errors=no", here)
    here.write_text(program.replace("NoNewPrivileges", "NoNewPrivilege"))
    with pytest.raises(AssertionError, match="NoNewPrivilege"):
        said(systemd_analyze, "verify", "--recursive-errors=no", here)


def test_the_unit_keeps_the_promise() -> None:
    """Its own user, a private state, no core dump, no swap, a watchdog; bad configuration is not retried."""
    lines = UNIT.read_text().splitlines()
    wanted = """
    DynamicUser=yes
    StateDirectory=meteragent
    StateDirectoryMode=0700
    UMask=0077
    LimitCORE=0
    MemorySwapMax=0
    Type=notify
    WatchdogSec=3min
    RestartPreventExitStatus=78
    """
    assert set(wanted.split()) <= set(lines)
