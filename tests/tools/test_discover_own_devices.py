"""`discover` where an agent already announces its private streams to Home Assistant."""

import json

from meteragent.tools.discover.describe import home_assistant
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.home_assistant import Discovery
from tests.support.configurations import settled


def test_the_agent_s_own_devices_are_no_meters() -> None:
    """Neither private numbers nor diagnostic entities are described, whatever their names."""
    discovery = Discovery("homeassistant", "agent/status", total=True)
    topic, payload = discovery.message("private/m/power", describe_terms(settled()).encode_message("m", 0))
    document = json.loads(payload)
    assert home_assistant.is_description(topic)
    assert list(home_assistant.read_statements(topic, document)) == []
    other = document | {"origin": {"name": "another program"}}
    assert len(list(home_assistant.read_statements(topic, other))) == 5
