"""The time since the machine's start, by which jumps of the wall clock are distinguished from passing time.

The kernel reports whether the wall clock has been synchronised (adjtimex(2): TIME_ERROR until timesyncd, ntpd
or chrony with `rtcsync` has done so), and systemd-timesyncd writes a file. But the service's sandbox forbids
the call (`ProtectClock=`), and the host of a virtual machine sets the clock without informing the kernel. So
"not synchronised" is believed only of a machine without a hardware clock, whose time is set at each start.
"""

import ctypes
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from meteragent.domain.units import HOUR_MS, MINUTE_MS

COMPARE_S = 1.0
"""The longest time between two comparisons of the wall clock with the boot clock."""
STEP_MS = 5 * MINUTE_MS
"""The longest forward step of a synchronised clock that is not a jump."""
UNKNOWN_STEP_MS = HOUR_MS
"""The longest forward step that is not a jump while it is unknown whether the clock is synchronised."""

_TIMEX_BYTES = 512
"""More than the size of struct timex on any system; if all bytes are zero, adjtimex only reads the clock."""
_FAILED, _UNSYNCHRONISED = -1, 5
_TIMESYNCD = Path("/run/systemd/timesync/synchronized")
_HARDWARE_CLOCKS = Path("/sys/class/rtc")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class BootClock:
    """The time since the machine's start, against which forward jumps of the wall clock are measured.

    Both clocks count suspended time, and both follow corrections of the clock's rate, so their difference
    changes only when the wall clock is set. Four kinds of steps are not jumps: a step before the first
    synchronisation (law 4), a step back, a step forward that only makes up for steps back, and a step of at
    most `STEP_MS` (`UNKNOWN_STEP_MS` if it is unknown whether the clock is synchronised).
    """

    def __init__(
        self, boot_ms: Callable[[], int], synchronised: Callable[[], bool | None], boot_id: str = ""
    ) -> None:
        """Start without a comparison; notes of earlier processes are used only if `boot_id` is not empty."""
        self._boot_ms = boot_ms
        self._query = synchronised
        self._boot_id = boot_id
        self._synchronised: bool | None = False
        self._query_ms: int | None = None
        self._ahead_ms: int | None = None
        self._noted: tuple[int | None, bool | None] | None = None

    def step_ms(self, wall_ms: int) -> int:
        """Return how far the wall clock has jumped forward, in ms; read `wall_ms` before this call."""
        boot_ms = self._boot_ms()
        ahead_ms = wall_ms - boot_ms
        newest_ms, was_synchronised = self._ahead_ms, self._synchronised
        if newest_ms is None or ahead_ms > newest_ms:
            self._ahead_ms = ahead_ms
        step_ms = 0 if newest_ms is None else ahead_ms - newest_ms
        is_due = self._query_ms is None or boot_ms - self._query_ms >= round(COMPARE_S * 1000)
        if not self._synchronised and (is_due or step_ms > STEP_MS):
            self._synchronised, self._query_ms = self._query(), boot_ms
        limit_ms = STEP_MS if was_synchronised else UNKNOWN_STEP_MS
        if step_ms > limit_ms and (was_synchronised or self._synchronised is None):
            return step_ms
        self._noted = self._ahead_ms, self._synchronised
        return 0

    @property
    def note(self) -> str:
        """The last comparison that found no jump, as text for `recall_note` in a later process."""
        return "" if self._noted is None else json.dumps([self._boot_id, *self._noted])

    def recall_note(self, note: str) -> None:
        """Compare next with the `note` of an earlier process, unless the machine has been restarted."""
        boot_id, ahead_ms, synchronised = json.loads(note or "[null, null, null]")
        if boot_id and boot_id == self._boot_id:
            self._ahead_ms, self._synchronised = ahead_ms, synchronised


def kernel_state() -> int:
    """Return the result of adjtimex(2): 0 to 4 if synchronised, 5 if not, -1 if the call fails."""
    try:
        return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    except (AttributeError, OSError):
        return _FAILED


def was_synchronised(
    state: int | None = None, run: Path = _TIMESYNCD, clocks: Path = _HARDWARE_CLOCKS
) -> bool | None:
    """Return whether the wall clock was synchronised since the machine's start; None if unknown."""
    state = kernel_state() if state is None else state
    if state not in (_FAILED, _UNSYNCHRONISED) or run.exists():
        return True
    if state == _FAILED or (clocks.is_dir() and any(clocks.iterdir())):
        return None
    return False


def boot_ms() -> int:
    """Return the time since the machine's start, in ms, which setting the wall clock does not change."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def wall_ms() -> int:
    """Return the time of the wall clock, in ms."""
    return time.time_ns() // 1_000_000


def boot_clock() -> BootClock:
    """Return the system's boot clock, with the boot id from systemd's unit or, if not set, from /proc."""
    boot_id = os.environ.get("METERAGENT_BOOT_ID", "")
    if not boot_id and _BOOT_ID.exists():
        boot_id = _BOOT_ID.read_text("ascii").strip()
    return BootClock(boot_ms, was_synchronised, boot_id)
