"""What an agent sends in the simulation test, with whatever trouble, is as the contract describes it."""

import json
from collections import Counter

from jsonschema import Draft202012Validator

from meteragent.wire import contract
from simulators.simtest import runs
from simulators.simtest.generator import generate

VALID = {name: Draft202012Validator(schema) for name, schema in contract.all_schemas().items()}
SEEDS = range(40, 52)


def schema_of(topic: str, payload: bytes) -> str:
    """Return the name of the schema for a message, by its topic."""
    if topic.endswith("/total"):
        return "total"
    if "/privacy" in topic:
        return "descriptor"
    return "status" if "status" in json.loads(payload) else "record"


def test_what_the_agent_sends_is_valid() -> None:
    """Whatever a run publishes is valid by the schema of its topic, a descriptor or a record among it."""
    counts = Counter[str]()
    for seed in SEEDS:
        with runs.place() as folder:
            log = runs.run_world(generate(seed), folder, is_scrambled=False).log
        for topic, payload in {(topic, bytes(payload)) for _, topic, payload, _ in log}:
            if topic.startswith(("homeassistant/", "crowd/")):
                continue
            name = schema_of(topic, payload)
            counts[name] += 1
            assert list(VALID[name].iter_errors(json.loads(payload))) == [], (topic, payload)
    assert min(counts["record"], counts["descriptor"]) > 0
