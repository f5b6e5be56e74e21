"""The running total of all records of a public id. A total is JSON, whatever the records' format."""

import json
import math

from meteragent.domain.commit import Total
from meteragent.domain.grid import iso_time
from meteragent.wire.number import decimal_text, shorten


def total_topic(sink_topic: str) -> str:
    """Return the topic of the running total."""
    return f"{sink_topic}/total"


def total_message(descriptor_id: str, public_id: str, total: Total, end_ms: int) -> bytes:
    """Encode the total at `end_ms`, the end of a slot whose descriptor is `descriptor_id`."""
    head = {"v": 1, "meter": public_id, "t": iso_time(end_ms)}
    tail = {
        "unit": total.unit,
        "sd": shorten(math.sqrt(total.variance)),
        "since": iso_time(total.since_ms),
        "d": descriptor_id,
    }
    # Insert the value as text, because json would turn the exact decimal into a float.
    return f'{_json(head)[:-1]},"value":{decimal_text(total.value_u)},{_json(tail)[1:]}'.encode()


def _json(fields: dict[str, object]) -> str:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
