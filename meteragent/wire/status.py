"""The agent's status topic, which shows whether the agent is running and nothing about any meter.

Messages are retained. "online" is sent on every connection and then every `PERIOD_S` seconds, whatever else
is sent (law 4). "offline" is the connection's last will.
"""

from meteragent.domain.grid import iso_time

PERIOD_S = 60.0

OFFLINE = b'{"v":1,"status":"offline"}'


def online_message(now_ms: int) -> bytes:
    """Encode the status of a running agent, with the time of the message."""
    return f'{{"v":1,"status":"online","t":"{iso_time(now_ms)}"}}'.encode()
