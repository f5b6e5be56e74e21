"""Create the JetStream streams that `meteragent collect` reads, before the first agent starts."""

import asyncio

import nats
from nats.js.api import StreamConfig


async def main() -> None:
    """Create a stream of records, and one that keeps the last descriptors of each meter."""
    client = await nats.connect("nats://utility:password@127.0.0.1:4222")
    stream = client.jetstream().add_stream
    await stream(StreamConfig("RECORDS", subjects=["private.*.power"], max_age=30 * 86_400))
    descriptors = ["private.*.power.privacy", "private.*.power.privacy.>"]
    await stream(StreamConfig("DESCRIPTORS", subjects=descriptors, max_msgs_per_subject=5))
    await client.close()


asyncio.run(main())
