"""Topics as subjects of NATS, by the rules of its server's MQTT gateway.

A level becomes a token: ``private/m1/power`` is ``private.m1.power``. An empty level is the token ``/``, and
a dot within a level is ``//`` (servers before 2.10 refuse dots). The gateway refuses white space.

Source: NATS server, `server/mqtt.go`, mqttToNATSSubjectConversion and natsSubjectToMQTTTopic.
"""

import re
from typing import Final

_UNFIT: Final = re.compile(r"[\s\x7f]|(?:^|/)[*>](?:/|$)")
_WILDCARDS: Final = {"+": "*", "#": ">"}


def holds(topic: str) -> bool:
    """Return whether the gateway accepts a topic and passes it on unchanged: no space, no level * or >."""
    return not _UNFIT.search(topic)


def subjects(topic_filter: str) -> tuple[str, ...]:
    """Return the subjects that a topic filter matches; ``a/#`` also matches ``a``, but ``a.>`` does not."""
    subject = ".".join(map(_token, topic_filter.split("/")))
    return (subject.removesuffix(".>"), subject) if subject.endswith(".>") else (subject,)


def topic(subject: str) -> str:
    """Return the topic whose subject this is."""
    return "/".join(map(_level, subject.split(".")))


def _level(part: str) -> str:
    return "" if part == "/" else part.replace("//", ".")


def _token(level: str) -> str:
    return _WILDCARDS.get(level) or level.replace(".", "//") or "/"
