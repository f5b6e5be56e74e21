"""Protection of this process's memory, which holds raw readings and keys."""

import contextlib
import ctypes
import resource

_PR_SET_DUMPABLE = 4


def forbid_dumps() -> None:
    """Forbid dumps of this process, both to core files and to a program that the kernel pipes them to.

    The resource limit alone is not enough, because the kernel ignores it if `core_pattern` is a pipe. A
    process that may not be dumped cannot be traced or read by the user's other processes, either. On a system
    without such a flag, only the limit applies.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
