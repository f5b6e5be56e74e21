"""The key list that an operator published before its store was lost; a new store lacks the list's serial.

Homes refuse a list whose serial, the time of publication, is lower than the highest that they have accepted.
The serial of the retained list lies in the future if the clock was ahead at the list's publication. So an
operator with a new store publishes no list before its clock has passed that serial.
"""

import asyncio
import logging
from typing import Final

from meteragent.crowd import home
from meteragent.crowd.codec import Malformed
from meteragent.crowd.group import Group
from meteragent.mqtt import Endpoint, Entropy, Link, Session, SubscriptionRefused, Token, keep_connected

LISTEN_S: Final = 1.0
"""How long, in seconds, a retained list may take to arrive after the subscription is granted."""

_log = logging.getLogger("meteragent")


async def fetch_newest_serial(endpoint: Endpoint, group: Group, role: str, entropy: Entropy) -> int:
    """Wait for a connection; return the serial of the role's retained key list, or 0 if there is no list.

    Only a list that the role's identity has signed is used. The result is also 0 if the broker withholds the
    list, or does not let this user read it.
    """
    topic = f"crowd/{group.name}/keys/{role}"
    newest = 0
    is_read = asyncio.Event()

    def _on_message(_topic: str, payload: bytes, _qos: int, _retain: bool, _token: Token | None) -> None:
        nonlocal newest
        try:
            newest = home.decode_key_list(group, role, payload, newest).serial
        except Malformed:
            _log.warning("the retained message on %s is not a key list of this operator", topic)

    async def _serve(session: Session) -> None:
        try:
            await session.subscribe(topic)
        except SubscriptionRefused:
            _log.warning("the broker does not let this operator read %s: check the access list", topic)
        await asyncio.sleep(LISTEN_S)
        is_read.set()

    link = Link(
        endpoint,
        f"meteragent-crowd-{role}-{group.name}-keys",
        on_message=_on_message,
        session_expiry_s=0,
        role="broker",
    )
    async with asyncio.TaskGroup() as tasks:
        connection = tasks.create_task(keep_connected(link, _serve, entropy))
        await is_read.wait()
        connection.cancel()
    return newest
