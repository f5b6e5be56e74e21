"""The vitals of an agent, read back from the JSON in which it tells them."""

import json
from dataclasses import fields
from fractions import Fraction

from meteragent.agent.vitals import AgentVitals, StreamVitals
from meteragent.core.arrivals import ArrivalRow
from meteragent.domain.problem import Problem


def agent_vitals(text: str) -> AgentVitals:
    """Parse the JSON of an agent."""
    document = json.loads(text)
    streams = []
    for stream in document["streams"]:
        epsilons = {meter: Fraction(epsilon) for meter, epsilon in stream.pop("spent_per_w").items()}
        arrivals = tuple(ArrivalRow(*row) for row in stream.pop("arrivals"))
        streams.append(StreamVitals(**stream, spent_per_w=epsilons, arrivals=arrivals))
    facts = {item.name: document[item.name] for item in fields(AgentVitals)}
    raised = tuple(Problem(**item) for item in document["raised"])
    return AgentVitals(**facts | {"streams": tuple(streams), "raised": raised})
