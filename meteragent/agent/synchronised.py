"""The system's boot clock, and whether its wall clock has been synchronised since the start.

The kernel reports synchronisation (adjtimex(2): TIME_ERROR until timesyncd, ntpd or chrony with `rtcsync` has
synchronised the clock), and systemd-timesyncd writes a file. But the service's sandbox forbids the call
(`ProtectClock=`), and the host of a virtual machine sets its clock without telling the kernel. So "not
synchronised" is believed only on a machine without a hardware clock, because the clock of such a machine is
stepped at each start.
"""

import ctypes
import time
from pathlib import Path

from meteragent.agent.clock import BootClock

_TIMEX_BYTES = 512
"""More than the size of any system's struct timex; a struct of zeros only queries the clock."""
_FAILED, _UNSYNCHRONISED = -1, 5
_TIMESYNCD = Path("/run/systemd/timesync/synchronized")
_HARDWARE_CLOCKS = Path("/sys/class/rtc")


def kernel_state() -> int:
    """Call adjtimex(2); return its result: 0 to 4 if synchronised, 5 if not, -1 if the call is forbidden."""
    try:
        return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    except (AttributeError, OSError):
        return _FAILED


def synchronised(
    state: int | None = None, run: Path = _TIMESYNCD, clocks: Path = _HARDWARE_CLOCKS
) -> bool | None:
    """Return whether the clock was synchronised; None if this is unknown.

    `state` is the result of `kernel_state`, which is called if `state` is None. `run` is timesyncd's file,
    `clocks` the folder of hardware clocks.
    """
    state = kernel_state() if state is None else state
    if state not in (_FAILED, _UNSYNCHRONISED) or run.exists():
        return True
    if state == _FAILED or (clocks.is_dir() and any(clocks.iterdir())):
        return None
    return False


def boot_clock() -> BootClock:
    """Return the system's boot clock."""
    return BootClock(lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000, synchronised)
