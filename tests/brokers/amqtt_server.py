"""amqtt on a port of the loopback: ``python -m tests.brokers.amqtt_server PORT``, until it is killed."""

import asyncio
import logging
import sys

from amqtt.broker import Broker


async def serve(port: int) -> None:
    """Run the broker until it is killed."""
    await Broker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
            "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
        }
    ).start()
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # it logs payloads
    asyncio.run(serve(int(sys.argv[1])))
