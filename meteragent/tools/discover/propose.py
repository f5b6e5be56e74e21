"""A candidate in words: its messages, a configuration to start with, and what is uncertain."""

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from meteragent import config
from meteragent.decode.profiles import PROFILES
from meteragent.domain.grid import format_duration
from meteragent.domain.identity import PHASE, PLACEHOLDER, holds_topic
from meteragent.domain.units import MINUTE_MS, Kind
from meteragent.tools.discover.candidate import PART_WORDS, Candidate, identifies, words
from meteragent.tools.discover.guess import guess, together
from meteragent.tools.discover.listener import Listener, TopicLog, cadence_ms
from meteragent.tools.discover.recognise import recognise

_SLOT_MS = 30 * MINUTE_MS
_HIGHEST_W = 100_000
_SHOWN = 10
_KEY_FILE = "pseudonym.key"
_MAKE_KEY = f"(umask 077; head -c 32 /dev/urandom | base64 > {_KEY_FILE})"
_USUAL_INTERVALS_MIN = (1, 5, 10, 15, 30, 60)


@dataclass(frozen=True, slots=True)
class Access:
    """The broker and how to log in, in the keys of the configuration."""

    url: str
    keys: tuple[tuple[str, str], ...] = ()


def candidates(listener: Listener) -> list[Candidate]:
    """List the possible meters, the likeliest first."""
    ours = private_streams(listener)
    topics = [
        log
        for log in listener.topics.values()
        if holds_topic(log.topic)
        and not log.topic.endswith("/config")
        and not any(f"{log.topic}/".startswith(f"{topic}/") for topic in ours)
    ]
    recognised = recognise(topics)
    recognised_ids = {id(log) for candidate in recognised for log in candidate.topics}
    usual = [candidate for candidate in recognised if candidate.rank == 0]
    families = {candidate.profile for candidate in usual}
    unknown = [log for log in topics if id(log) not in recognised_ids and not _is_of_family(log, families)]
    by_payload = together([candidate for candidate in recognised if candidate.rank])
    return sorted(
        usual + by_payload + guess(unknown),
        key=lambda candidate: (candidate.rank, candidate.kind is not Kind.POWER, -candidate.count),
    )


def private_streams(listener: Listener) -> list[str]:
    """List the topics of meteragent's records and descriptors; topics below belong to the same stream."""
    return [log.topic for log in listener.topics.values() if log.is_ours]


def _is_of_family(log: TopicLog, families: Iterable[str]) -> bool:
    """Return whether a topic has the first fixed segment of a known family's topics."""
    parts = log.topic.split("/")
    for name in families:
        for template in PROFILES[name].topics:
            segments = [(i, part) for i, part in enumerate(template.split("/")) if "{" not in part][:1]
            if all(i < len(parts) and parts[i] == part for i, part in segments) and segments:
                return True
    return False


def report(listener: Listener, access: Access, seconds: int) -> str:
    """Return the report: the messages, each candidate with its configuration, and what to do next."""
    meters = candidates(listener)
    lines = [f"Heard {listener.messages:,} messages on {len(listener.topics):,} topics in {seconds} s."]
    if listener.shed:
        lines.append(f"{listener.shed:,} of them came on further topics and were only counted: use --topic.")
    ours = private_streams(listener)
    if ours:
        lines.append(f"{len(ours):,} topics are private streams of meteragent and were left out.")
    if not meters:
        lines += [
            "",
            "None of them looks like a meter. Listen longer (--seconds 600): some send rarely. Topics:",
        ]
        lines += [f"  {topic}" for topic in sorted(listener.topics)[:_SHOWN]]
        return "\n".join(lines)
    for place, candidate in enumerate(meters, 1):
        lines += ["", *_about(place, candidate, access)]
    if len(meters) > 1 or any(len(candidate.meters) > 1 for candidate in meters):
        lines += [
            "",
            "Several of these may measure the same electricity: a main meter and its",
            "sub-meters, or one meter reported twice. Each one that you release adds to the",
            "privacy spent. Start with one: the main meter.",
        ]
    lines += [
        "",
        "Next: save a configuration as home.toml, then: meteragent check home.toml",
        "No values are shown here, but topics and ids name your devices: read this before you",
        "post it.",
    ]
    return "\n".join(lines)


def _about(place: int, candidate: Candidate, access: Access) -> Iterator[str]:
    certainty = ("a known family", "a known family, by its payload", "a guess")[candidate.rank]
    yield from _wrapped(f"{place}. ", f"{candidate.title} ({certainty}): {_kind_text(candidate)}")
    facts = {
        "topic": candidate.template,
        "meters": _some(candidate.meters),
        "phases": ", ".join(candidate.phases),
        "ids": _some([f"{name} ({count})" for name, count in candidate.ids.most_common()]),
        "heard": _heard_text(candidate),
        "also": candidate.also
        and f"{_some(candidate.also)}: the same secret; each one adds to the privacy spent",
    }
    for name, text in facts.items():
        if text:
            yield from _wrapped(f"   {name:<9}", text)
    traps = candidate.device.traps if candidate.device else ()
    for name, texts in (("uncertain", _doubts(candidate)), ("good to know", traps)):
        if texts:
            yield f"   {name}"
            yield from (line for text in texts for line in _wrapped("   - ", text))
    yield "   a configuration to start with:"
    yield ""
    yield from (
        f"       {line}".rstrip()
        for line in toml(candidate, access, "home" if place == 1 else f"meter-{place}").splitlines()
    )


def _wrapped(head: str, text: str) -> list[str]:
    """Wrap a text for a terminal, without breaking names."""
    return textwrap.wrap(
        text,
        width=79,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _kind_text(candidate: Candidate) -> str:
    return f"{str(candidate.kind).replace('_', ' ')} in {candidate.unit}"


def _some(names: Sequence[str]) -> str:
    remainder = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + remainder


def _heard_text(candidate: Candidate) -> str:
    every_ms = cadence_ms(candidate.topics)
    text = f"{candidate.count:,} messages"
    if candidate.retained:
        text += f", {candidate.retained:,} of them retained"
    return text + (f"; about one every {_rough(every_ms)}" if every_ms is not None else "")


def _rough(duration_ms: int) -> str:
    """Return a duration in whole seconds or minutes."""
    if duration_ms < 1000:
        return f"{max(duration_ms, 1)} ms"
    seconds = round(duration_ms / 1000)
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"


# What is uncertain ----------------------------------------------------------------------------------


def _doubts(candidate: Candidate) -> list[str]:
    return [
        *candidate.doubts,
        *_about_unit(candidate),
        *_about_meters(candidate),
        *_about_times(candidate),
        *_about_values(candidate),
    ]


def _about_unit(candidate: Candidate) -> Iterator[str]:
    if candidate.device is not None and candidate.scale is None:
        yield f"the payload does not state the unit: {candidate.unit} is an assumption"
    if candidate.device is not None and not candidate.device.dead_band_known and candidate.kind is Kind.POWER:
        yield "how far the power may change before the device reports it: set source.dead_band to that"
    if candidate.kind is Kind.INTERVAL_ENERGY and candidate.interval_ms is None:
        yield "the interval that a reading covers: source.interval is the time between messages"
    parts = sorted({part for log in candidate.topics for part in _parts_beside(log)})
    if parts:
        yield f"{', '.join(parts)} start again at zero and are parts of the same secret: do not add them"


def _parts_beside(log: TopicLog) -> Iterator[str]:
    """Yield the names of registers of a day, a week, a month in a known family's payloads."""
    for payload in list(log.payloads)[-1:]:
        for name in _keys(payload):
            if words(name) and words(name) <= PART_WORDS - {"period", "minute", "hour", "last"}:
                yield name


def _keys(payload: bytes) -> Iterator[str]:
    try:
        nodes = [json.loads(payload)]
    except (ValueError, RecursionError):
        return
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            yield from node
            nodes += node.values()
        elif isinstance(node, list):
            nodes += node


def _about_meters(candidate: Candidate) -> Iterator[str]:
    if candidate.ids:
        yield "which id is yours: compare it with the meter's number, since a radio hears the neighbours too"
    if len(candidate.meters) > 1:
        count = len(candidate.meters)
        yield f"which of the {count} are yours, and which is the main meter: each adds to the privacy spent"
    if candidate.device is not None and candidate.device.identifies and candidate.meters:
        yield f"{{meter}} is {candidate.device.identifies}: with this configuration it does not leave"
    elif any(identifies(log.topic) for log in candidate.topics):
        yield "a topic seems to hold a serial number or an address: with this configuration it does not leave"


def _about_times(candidate: Candidate) -> Iterator[str]:
    live, every_ms = candidate.count - candidate.retained, cadence_ms(candidate.topics)
    if not live:
        yield "only retained messages came: they may be old, and the agent ignores them; listen longer"
    elif live == len(candidate.topics) and every_ms is None:
        yield "one message a topic: the time between messages is not known; listen longer"
    if every_ms is not None and 2 * every_ms > _SLOT_MS:
        yield f"{_rough(every_ms)} between readings is long for half-hour slots: this proposes days"
    if not candidate.timed:
        yield "no time in the payload: the time of arrival counts"


def _about_values(candidate: Candidate) -> Iterator[str]:
    numbers = [number for topic in candidate.watts for number in topic]
    if candidate.kind is Kind.POWER and any(number < 0 for number in numbers):
        yield "values below zero: is power fed in? the proposed window.range reaches as far below 0 as above"
    if candidate.kind is Kind.POWER and any(abs(number) > _HIGHEST_W for number in numbers):
        yield "values above 100 kW in this unit: is the unit another one, or is this not a home?"
    if candidate.kind is Kind.REGISTER and any(b < a for row in candidate.watts for a, b in pairwise(row)):
        yield "a register that fell: two meters on one topic, a reset, or not a register"


# The configuration ----------------------------------------------------------------------------------


def toml(candidate: Candidate, access: Access, name: str = "home") -> str:
    """Return a configuration that is accepted without changes; a single meter gets a neutral `name`.

    Several meters need a key file. Readings that are too sparse or too coarse for half hours get monthly
    windows.
    """
    text = _toml(candidate, access, name, coarse=False)
    return _toml(candidate, access, name, coarse=True) if config.refusals(config.parse(text)) else text


def _toml(candidate: Candidate, access: Access, name: str, *, coarse: bool) -> str:
    """Return a configuration of half hours, of days for slow readings, or of months if `coarse`."""
    has_many = len(candidate.meters) > 1
    source = {"url": access.url, **dict(access.keys), **_place(candidate, None if has_many else name)}
    source |= {"profile": candidate.profile}
    source |= {
        key: text for key, text in (("value", candidate.value), ("time", candidate.time)) if text is not None
    }
    if candidate.ids and candidate.device is not None and candidate.device.needs_id:
        source["id"] = candidate.ids.most_common(1)[0][0]
    source |= {"kind": str(candidate.kind), "unit": candidate.unit}
    if candidate.kind is Kind.INTERVAL_ENERGY and candidate.interval_ms is None:
        source["interval"] = _interval(candidate)
    sink = {"topic": f"private/{PLACEHOLDER}/{'power' if candidate.kind is Kind.POWER else 'energy'}"}
    if has_many:
        sink["pseudonym_key_file"] = _KEY_FILE
    tables = {
        "source": _lines(source),
        "window": _window(candidate, coarse),
        "privacy": _preset(candidate, coarse),
        "sink": _lines(sink),
    }
    if candidate.phases:
        tables["source"].insert(-2, f"phases = {json.dumps(list(candidate.phases))}")
    if has_many:
        tables["sink"].append(f"# make the key once: {_MAKE_KEY}")
    return "\n".join(f"[{name}]\n" + "\n".join(lines) for name, lines in tables.items() if lines)


def _place(candidate: Candidate, name: str | None) -> dict[str, str]:
    """Return the topic and the meter's name; without a `name`, the topic names the meter."""
    if name is None:
        return {"topic": candidate.template}
    segments = candidate.topics[0].topic.split("/")
    free = {PLACEHOLDER} if candidate.phases else {PLACEHOLDER, PHASE}
    parts = zip(candidate.template.split("/"), segments, strict=True)
    topic = "/".join(segment if part in free else part for part, segment in parts)
    return {"topic": topic, "meter": name}


def _lines(table: dict[str, str]) -> list[str]:
    return [f"{key} = {json.dumps(text, ensure_ascii=False)}" for key, text in table.items()]


def _interval(candidate: Candidate) -> str:
    every_ms = cadence_ms(candidate.topics) or 15 * MINUTE_MS
    nearest = min(_USUAL_INTERVALS_MIN, key=lambda minutes: abs(minutes * MINUTE_MS - every_ms))
    return format_duration(nearest * MINUTE_MS)


def _is_slow(candidate: Candidate) -> bool:
    every_ms = cadence_ms(candidate.topics)
    return every_ms is not None and 2 * every_ms > _SLOT_MS


def _window(candidate: Candidate, coarse: bool) -> list[str]:
    lines = ['timezone = "UTC"  # yours, such as "Europe/Amsterdam"'] if coarse or _is_slow(candidate) else []
    if candidate.kind is Kind.POWER and any(number < 0 for topic in candidate.watts for number in topic):
        lines.append("range = [-20000, 20000]")
    return lines


def _preset(candidate: Candidate, coarse: bool) -> list[str]:
    if coarse:
        return ['preset = "bill"  # readings are too coarse for shorter windows']
    if _is_slow(candidate):
        return ['preset = "day"']
    return [
        'preset = "appliance"  # `meteragent check` shows what it hides and costs; others: television, street'
    ]
