"""Scenes for `discover`: what is on a broker, and in short what is proposed, what is not, and why."""

import json
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

from meteragent import config
from meteragent.decode import Decoder
from meteragent.domain.errors import PayloadError
from meteragent.tools.discover import Access, find_meters
from meteragent.tools.discover.findings import Findings, Offer
from meteragent.tools.discover.listener import Listener
from meteragent.tools.discover.words import Direction

ACCESS = Access("mqtt://127.0.0.1:1883")
Message = tuple[str, Any]
LINE_MAX = 98


@dataclass(frozen=True)
class Scene:
    """Messages on a broker, and the summary that is expected.

    Payloads are rebuilt from the structure that the source documents; numbers, names and serial numbers are
    invented.
    """

    name: str
    source: str
    live: tuple[Message, ...]
    expected: str
    retained: tuple[Message, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def lines(self) -> list[str]:
        """The lines of the expected summary."""
        return dedent(self.expected).strip().splitlines()


def heard(scene: Scene, *messages: Message) -> Listener:
    """Return the log of a scene: what is retained once, and what is live three times."""
    clock_ms = 0
    listener = Listener(lambda: clock_ms)
    for topic, payload in scene.retained:
        listener.on_message(topic, encoded(payload), retain=True)
    for _ in range(3):
        for topic, payload in (*scene.live, *messages):
            listener.on_message(topic, encoded(payload), retain=False)
        clock_ms += 10_000
    return listener


def encoded(payload: Any) -> bytes:
    """Return a payload: bytes and text as they are, anything else as JSON."""
    if isinstance(payload, bytes):
        return payload
    return payload.encode() if isinstance(payload, str) else json.dumps(payload).encode()


def summary(result: Findings) -> list[str]:
    """Return what is proposed and what is not, in lines of which long reasons are cut."""
    lines = []
    for proposal in result.proposals:
        meters = f" {','.join(proposal.meters)}" if len(proposal.meters) > 1 else ""
        for place, offer in enumerate(proposal.offers):
            lines.append((f"{proposal.role}{meters}: " if place == 0 else "  also: ") + text_of(offer))
            lines += [f"    of {', '.join(phases)}"] if (phases := offer.source.get("phases")) else []
    for entry in result.unplaced:
        missing = f" [{','.join(entry.missing)}]" if entry.missing else ""
        line = f"not {entry.topic}: {entry.reason}"
        lines.append(line[: LINE_MAX - len(missing)].strip() + missing)
    return lines


def text_of(offer: Offer) -> str:
    """Return how an offer is read, and what it is."""
    keys = dict(offer.source)
    parts = [keys["topic"], keys["profile"]]
    parts += [keys["value"]] if "value" in keys else []
    parts += [f"x {keys['scale']}"] if "scale" in keys else []
    direction = "" if offer.direction is Direction.UNSTATED else f" {offer.direction}"
    return f"{' '.join(parts)} = {offer.kind} {offer.unit}{direction}"


def accepted(result: Findings, listener: Listener) -> None:
    """Check that the agent accepts the configuration of every offer as it is, and reads its messages."""
    for proposal in result.proposals:
        for offer in proposal.offers:
            configuration = config.parse(offer.to_toml(ACCESS))
            assert not config.reading_refusals(configuration)
            source = configuration.stream[0].source
            place, decode = config.topic_of(source), config.build_decoder(source)
            logs = [log for topic, log in listener.topics.items() if place.meter_of(topic) is not None]
            assert all(any(reads(decode, payload) for payload in log.payloads) for log in logs)
            assert logs or not offer.candidate.message_count


def reads(decode: Decoder, payload: bytes) -> bool:
    """Return whether there is a reading in a payload."""
    try:
        return bool(decode(payload))
    except PayloadError:
        return False


def scene(
    name: str, source: str, live: list[Message], expected: str, retained: list[Message] | None = None
) -> Scene:
    """Make a scene."""
    return Scene(name, source, tuple(live), expected, tuple(retained or ()))


def discovery(topic: str, /, **fields: Any) -> Message:
    """Return a discovery message of Home Assistant for a sensor."""
    return f"homeassistant/sensor/{topic}/config", fields


def sensor(place: str, name: str, unit: str, topic: str, template: str | None = None, **more: Any) -> Message:
    """Return the discovery message of a power or an energy, as most devices write it."""
    node, is_power = place.partition("/")[0], unit in {"W", "kW"}
    fields: dict[str, Any] = {"name": name, "stat_t": topic, "unit_of_meas": unit}
    fields |= {"dev_cla": "power" if is_power else "energy", "uniq_id": place.replace("/", "_")}
    fields |= {"stat_cla": "measurement" if is_power else "total_increasing"}
    fields |= {"dev": {"ids": [node], "name": node}}
    fields |= {} if template is None else {"val_tpl": template}
    return discovery(place, **(fields | more))


def check(scene: Scene) -> Findings:
    """Check a scene: the summary, that configurations are accepted, and that no topic is lost."""
    listener = heard(scene)
    result = find_meters(listener)
    assert summary(result) == scene.lines
    accepted(result, listener)
    return result
