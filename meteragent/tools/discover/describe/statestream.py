"""The attributes that Home Assistant's MQTT Statestream publishes next to a sensor's state, as JSON."""

from collections.abc import Iterator, Mapping

from meteragent.tools.discover.describe.document import document_in, newest_in
from meteragent.tools.discover.describe.statement import Statement
from meteragent.tools.discover.listener import TopicLog
from meteragent.tools.discover.words import meaning_of, word_set

SOURCE = "its unit topic"
_UNIT = "/unit_of_measurement"
_ATTRIBUTES = word_set(
    "unit_of_measurement device_class state_class friendly_name icon attribution last_updated last_changed"
    " last_reset restored supported_features"
)


def read_statements(logs: Mapping[str, TopicLog]) -> Iterator[Statement]:
    """Yield a statement for each sensor that has a unit topic."""
    for topic, log in logs.items():
        base = topic.removesuffix(_UNIT)
        if base == topic or not log.payloads or base.count("/") < 2:
            continue
        names = [_text(logs, f"{base}/friendly_name"), base.rpartition("/")[2]]
        yield Statement(
            source=SOURCE,
            topic=f"{base}/state",
            value=None,
            unit=_text(logs, topic),
            names=tuple(name for name in names if name) or (base,),
            device=_device(base),
            device_class=_text(logs, f"{base}/device_class"),
            state_class=_text(logs, f"{base}/state_class"),
            profile="homeassistant-statestream",
        )


def _device(base: str) -> str:
    """Return the device of an entity: its name without the words for the measured quantity."""
    prefix, _, name = base.rpartition("/")
    return f"statestream:{prefix}:{' '.join(sorted(meaning_of(name).labels))}"


def description_topics(logs: Mapping[str, TopicLog]) -> Iterator[str]:
    """Yield the topics of attributes next to a state."""
    for topic in logs:
        base, _, name = topic.rpartition("/")
        if name in _ATTRIBUTES and f"{base}{_UNIT}" in logs:
            yield topic


def _text(logs: Mapping[str, TopicLog], topic: str) -> str | None:
    """Return the string in the newest payload of a topic, plain or as JSON; None if there is none."""
    payload = newest_in(logs, topic)
    document = document_in(payload)
    if isinstance(document, str):
        return document
    return payload.decode(errors="replace").strip() or None if document is None else None
