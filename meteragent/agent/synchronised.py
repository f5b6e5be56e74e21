"""The system's boot clock, and whether the wall clock has been synchronised since the machine's start.

The kernel reports synchronisation (adjtimex(2): TIME_ERROR until timesyncd, ntpd or chrony with `rtcsync` has
synchronised the clock), and systemd-timesyncd writes a file. However, the service's sandbox forbids the call
(`ProtectClock=`), and the host of a virtual machine sets the clock without informing the kernel. A report of
"not synchronised" is therefore believed only on a machine without a hardware clock, whose clock is stepped at
each start.
"""

import ctypes
import time
from pathlib import Path

from meteragent.agent.clock import BootClock

_TIMEX_BYTES = 512
"""More than the size of struct timex on any system; if all bytes are zero, adjtimex only reads the clock."""
_FAILED, _UNSYNCHRONISED = -1, 5
_TIMESYNCD = Path("/run/systemd/timesync/synchronized")
_HARDWARE_CLOCKS = Path("/sys/class/rtc")


def kernel_state() -> int:
    """Return the result of adjtimex(2): 0 to 4 if synchronised, 5 if not, -1 if the call fails."""
    try:
        return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    except (AttributeError, OSError):
        return _FAILED


def synchronised(
    state: int | None = None, run: Path = _TIMESYNCD, clocks: Path = _HARDWARE_CLOCKS
) -> bool | None:
    """Return whether the wall clock has been synchronised since the machine's start; None if unknown.

    `state` is the result of `kernel_state`, which is called if `state` is None. `run` is the path of
    timesyncd's file, and `clocks` is the folder of hardware clocks.
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
