"""Whether the agent runs: what its status topic says, and nothing of any meter.

Retained. "online" on every connection and then every `PERIOD_S`, whatever is sent meanwhile (law 4);
"offline" is the connection's last will, which the broker publishes however it ends.
"""

from meteragent.domain.grid import iso_time

PERIOD_S = 60.0

OFFLINE = b'{"v":1,"status":"offline"}'


def online(now_ms: int) -> bytes:
    """That the agent runs, and since when that is known."""
    return f'{{"v":1,"status":"online","t":"{iso_time(now_ms)}"}}'.encode()
