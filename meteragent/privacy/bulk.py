"""Random bits for many draws at once: the library's default, and never the agent's source.

OpenSSL's generator is ten times as fast as `os.urandom`. It keeps a state in the process, though, which it
seeds anew only every so often: a resumed copy of the process's memory, such as a virtual machine's snapshot,
gives the same bits again. The agent, which runs for years, draws from `SystemBits` alone.
"""

import ssl

from meteragent.privacy.bits import SystemBits


class BulkBits(SystemBits):
    """`SystemBits`, but arrays of more than 4 KiB come from OpenSSL's generator.

    That is CTR_DRBG with AES-256 (NIST SP 800-90A), which the operating system's source seeds, and anew after
    a fork.
    """

    def _bulk(self, size: int) -> bytes:
        return ssl.RAND_bytes(size)
