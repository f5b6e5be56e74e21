"""Keep this process's memory to itself: raw readings and keys are in it."""

import contextlib
import ctypes
import resource

_PR_SET_DUMPABLE = 4


def forbid_dumps() -> None:
    """Let nobody dump this process: neither to a core file nor to a program to which the kernel pipes it.

    The limit alone does not suffice: the kernel ignores it if `core_pattern` is a pipe. A process that may
    not be dumped cannot be traced or read by its user's other processes either. On a system without such a
    flag, only the limit applies.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
