"""Messages, mostly retained, that describe the numbers on the broker.

    home_assistant, statestream, zigbee2mqtt, homie -> Statement -> Point
    tasmota -> Device

A statement names the place of a number and, if the description has them, its kind and unit. Descriptions by a
device's own software take precedence over those for Home Assistant. If two descriptions of a number
contradict each other, neither is used.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from meteragent.tools.discover.candidate import Unplaced
from meteragent.tools.discover.describe import home_assistant, homie, statestream, tasmota, zigbee2mqtt
from meteragent.tools.discover.describe.document import document_in
from meteragent.tools.discover.describe.statement import Statement, point_of
from meteragent.tools.discover.listener import TopicLog
from meteragent.tools.discover.points import Point
from meteragent.tools.discover.words import meaning_of

_FLOW_CLASSES = frozenset({"water", "volume_flow_rate", "temperature_delta"})
_FLOW_UNITS = frozenset({"m³/h", "m3/h", "L/min", "l/min", "L/h", "l/h", "GJ", "MJ"})
_FLOW = "its device also measures a flow of water or heat, so this may be heat and not electricity"
_ELECTRIC_CLASSES = frozenset({"voltage", "current", "apparent_power", "power_factor"})
_ELECTRIC_UNITS = frozenset({"V", "A", "VA"})
_CONTRADICTION = "two descriptions contradict each other"


@dataclass(slots=True)
class Descriptions:
    """The content of all descriptions: points, numbers that are not proposed, and devices.

    `places` holds the topic and expression of each number, and `refused` those that are not proposed.
    `topics` are the topics of the descriptions themselves, and `devices` are the Tasmota devices.
    """

    points: list[Point] = field(default_factory=list)
    unplaced: list[Unplaced] = field(default_factory=list)
    places: set[tuple[str, str | None]] = field(default_factory=set)
    refused: set[tuple[str, str | None]] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    devices: list[tasmota.Device] = field(default_factory=list)


def read_descriptions(logs: Mapping[str, TopicLog]) -> Descriptions:
    """Read all descriptions among the logged topics."""
    result = Descriptions(devices=list(tasmota.read_devices(logs)))
    result.topics = set(statestream.description_topics(logs))
    result.topics |= {topic for topic in logs if _is_description(topic, logs)}
    entries: dict[tuple[str, str | None], Point | Unplaced] = {}
    statements = list(_statements(logs))
    media = _media(statements)
    for statement in statements:
        place = statement.topic, statement.value
        result.places.add(place)
        point = point_of(statement, logs)
        if isinstance(point, Point) and statement.device in media:
            point = Unplaced(statement.topic, f"{statement.names[0]}: {media[statement.device]}")
        if point is None:
            continue
        earlier = entries.setdefault(place, point)
        if isinstance(earlier, Point) and not (
            isinstance(point, Point) and (earlier.kind, earlier.scale) == (point.kind, point.scale)
        ):
            entries[place] = Unplaced(statement.topic, _CONTRADICTION)
    result.refused = {place for place, entry in entries.items() if isinstance(entry, Unplaced)}
    result.points = [point for point in entries.values() if isinstance(point, Point)]
    result.unplaced = [entry for entry in entries.values() if isinstance(entry, Unplaced)]
    return result


def _media(statements: Iterable[Statement]) -> dict[str, str]:
    """Map each device that may measure heat or another medium to the reason for this suspicion.

    The reason is a flow that the device measures, or a word in the device's name or model. A device that
    measures volts, amperes, volt-amperes or a power factor is electric and is left out.
    """
    reasons: dict[str, str] = {}
    electric_devices = set()
    for statement in statements:
        names = meaning_of(f"{statement.device_name} {statement.device_model}")
        if statement.device_class in _ELECTRIC_CLASSES or statement.unit in _ELECTRIC_UNITS:
            electric_devices.add(statement.device)
        if statement.device_class in _FLOW_CLASSES or statement.unit in _FLOW_UNITS:
            reasons[statement.device] = _FLOW
        elif names.is_medium:
            reasons.setdefault(statement.device, f"the device's name or model: {names.objection}")
    return {device: reason for device, reason in reasons.items() if device not in electric_devices}


def _is_description(topic: str, logs: Mapping[str, TopicLog]) -> bool:
    if homie.is_description(topic) or tasmota.is_description(topic) or topic.endswith(zigbee2mqtt.SUFFIX):
        return True
    return home_assistant.is_description(topic) and isinstance(document_in(logs[topic].newest), dict)


def _statements(logs: Mapping[str, TopicLog]) -> Iterator[Statement]:
    """Yield all statements, starting with those of the devices' own software."""
    ends = (zigbee2mqtt.SUFFIX, homie.DESCRIPTION, "/config")
    documents = {topic: document_in(log.newest) for topic, log in logs.items() if topic.endswith(ends)}
    for topic, document in documents.items():
        if topic.endswith(zigbee2mqtt.SUFFIX):
            yield from zigbee2mqtt.read_statements(topic, document)
        elif topic.endswith(homie.DESCRIPTION):
            yield from homie.read_statements(topic, document)
    yield from homie.read_attributes(logs)
    yield from statestream.read_statements(logs)
    for topic, document in documents.items():
        if home_assistant.is_description(topic) and isinstance(document, dict):
            yield from home_assistant.read_statements(topic, document)
