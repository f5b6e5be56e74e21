"""Conversion of MQTT topics to NATS subjects and back, by the rules of the NATS server's MQTT gateway.

Each level becomes a token: ``private/m1/power`` becomes ``private.m1.power``. An empty level becomes the
token ``/``, and a dot within a level becomes ``//`` (not before 2.10). The gateway refuses white space.

Source: NATS server, `server/mqtt.go`, mqttToNATSSubjectConversion and natsSubjectToMQTTTopic.
"""

import re
from typing import Final

_UNFIT: Final = re.compile(r"[\s\x7f]|(?:^|/)[*>](?:/|$)")
_WILDCARDS: Final = {"+": "*", "#": ">"}


def is_accepted_topic(topic: str) -> bool:
    """Return whether the gateway accepts a topic: it has neither white space nor a level ``*`` or ``>``."""
    return not _UNFIT.search(topic)


def subjects_of(topic_filter: str) -> tuple[str, ...]:
    """Return the subject filters that match what an MQTT filter matches: ``a`` and ``a.>`` for ``a/#``."""
    levels = topic_filter.split("/")
    subject = ".".join(_WILDCARDS.get(level) or level.replace(".", "//") or "/" for level in levels)
    return (subject.removesuffix(".>"), subject) if subject.endswith(".>") else (subject,)


def topic_of(subject: str) -> str:
    """Return the MQTT topic that corresponds to a subject."""
    return "/".join("" if part == "/" else part.replace("//", ".") for part in subject.split("."))
