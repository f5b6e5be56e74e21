"""Keep this process's memory to itself: raw readings and keys are in it."""

import contextlib
import ctypes
import resource

_PR_SET_DUMPABLE = 4


def forbid_dumps() -> None:
    """Let nobody dump this process: no core file, no core for a program that the kernel pipes it to.

    The limit alone is not looked at where `core_pattern` is a pipe. A process that may not be dumped cannot
    be traced or read by other processes of its user either. Where the system knows no such flag the limit
    stands.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
