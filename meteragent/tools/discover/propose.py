"""A candidate in words: what was heard, a configuration to begin with, and what is not sure."""

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
from meteragent.tools.discover.heard import Heard, Listener, cadence_ms
from meteragent.tools.discover.recognise import recognise

_SLOT_MS = 30 * MINUTE_MS
_HIGHEST_W = 100_000
_SHOWN = 10
_KEY_FILE = "pseudonym.key"
_MAKE_KEY = f"(umask 077; head -c 32 /dev/urandom | base64 > {_KEY_FILE})"
_USUAL_INTERVALS_MIN = (1, 5, 10, 15, 30, 60)


@dataclass(frozen=True, slots=True)
class Access:
    """How the broker was reached, as the configuration says it."""

    url: str
    keys: tuple[tuple[str, str], ...] = ()


def candidates(listener: Listener) -> list[Candidate]:
    """What may be a meter, the likeliest first."""
    ours = private_streams(listener)
    topics = [
        heard
        for heard in listener.topics.values()
        if holds_topic(heard.topic)
        and not heard.topic.endswith("/config")
        and not any(f"{heard.topic}/".startswith(f"{o}/") for o in ours)
    ]
    known = recognise(topics)
    theirs = {id(heard) for one in known for heard in one.heard}
    usual = [one for one in known if one.rank == 0]
    families = {one.profile for one in usual}
    rest = [h for h in topics if id(h) not in theirs and not _of_family(h, families)]
    found = usual + together([one for one in known if one.rank]) + guess(rest)
    return sorted(found, key=lambda one: (one.rank, one.kind is not Kind.POWER, -one.count))


def private_streams(listener: Listener) -> list[str]:
    """The topics of records and descriptors of meteragent; what is below them is of the same stream."""
    return [heard.topic for heard in listener.topics.values() if heard.is_ours]


def _of_family(heard: Heard, families: Iterable[str]) -> bool:
    """Whether a topic is beside a known family's: its first segment that is no placeholder is theirs."""
    parts = heard.topic.split("/")
    for name in families:
        for template in PROFILES[name].topics:
            fixed = [(at, part) for at, part in enumerate(template.split("/")) if "{" not in part][:1]
            if all(at < len(parts) and parts[at] == part for at, part in fixed) and fixed:
                return True
    return False


def report(listener: Listener, access: Access, seconds: int) -> str:
    """All that there is to say."""
    found = candidates(listener)
    lines = [f"Heard {listener.messages:,} messages on {len(listener.topics):,} topics in {seconds} s."]
    if listener.shed:
        lines.append(f"{listener.shed:,} of them on more topics than are kept: narrow it with --topic.")
    ours = private_streams(listener)
    if ours:
        lines.append(f"{len(ours)} topics are private streams of meteragent, and left out.")
    if not found:
        lines += [
            "",
            "None of them looks like a meter. Listen longer (--seconds 600): some send rarely. Topics:",
        ]
        lines += [f"  {topic}" for topic in sorted(listener.topics)[:_SHOWN]]
        return "\n".join(lines)
    for place, one in enumerate(found, 1):
        lines += ["", *_about(place, one, access)]
    if len(found) > 1 or any(len(one.meters) > 1 for one in found):
        lines += [
            "",
            "Several of these may measure the same electricity: a main meter and its",
            "sub-meters, or one meter told twice. Each that is released adds its eps. Begin",
            "with one: the main meter.",
        ]
    lines += [
        "",
        "No values are shown here, but topics and ids name your devices: look before you post this.",
    ]
    return "\n".join(lines)


def _about(place: int, one: Candidate, access: Access) -> Iterator[str]:
    sure = ("a known family", "a known family, by its payload", "a guess")[one.rank]
    yield from _wrapped(f"{place}. ", f"{one.title} ({sure}): {_kind_text(one)}")
    facts = {
        "topic": one.template,
        "meters": _some(one.meters),
        "phases": ", ".join(one.phases),
        "ids": _some([f"{name} ({count})" for name, count in one.ids.most_common()]),
        "heard": _heard_text(one),
        "also": one.also and f"{_some(one.also)}: the same secret, each more adds its eps",
    }
    for name, text in facts.items():
        if text:
            yield from _wrapped(f"   {name:<9}", text)
    for name, known in (("not sure", _doubts(one)), ("know", one.device.traps if one.device else ())):
        if known:
            yield f"   {name}"
            yield from (line for text in known for line in _wrapped("   - ", text))
    yield "   a configuration to begin with:"
    yield ""
    yield from (
        f"       {line}".rstrip()
        for line in toml(one, access, "home" if place == 1 else f"meter-{place}").splitlines()
    )


def _wrapped(head: str, text: str) -> list[str]:
    """A text in lines of a terminal; names are not broken."""
    return textwrap.wrap(
        text,
        width=79,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _kind_text(one: Candidate) -> str:
    return f"{str(one.kind).replace('_', ' ')} in {one.unit}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _heard_text(one: Candidate) -> str:
    every_ms = cadence_ms(one.heard)
    text = f"{one.count} messages"
    if one.retained:
        text += f", {one.retained} of them retained"
    return text + (f"; one about every {_rough(every_ms)}" if every_ms is not None else "")


def _rough(duration_ms: int) -> str:
    """A duration in whole seconds or minutes."""
    if duration_ms < 1000:
        return f"{max(duration_ms, 1)} ms"
    seconds = round(duration_ms / 1000)
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"


# What is not sure -----------------------------------------------------------------------------------


def _doubts(one: Candidate) -> list[str]:
    return [*one.doubts, *_about_unit(one), *_about_meters(one), *_about_times(one), *_about_values(one)]


def _about_unit(one: Candidate) -> Iterator[str]:
    if one.device is not None and one.scale is None:
        yield f"the payload does not state the unit: {one.unit} is an assumption"
    if one.device is not None and not one.device.dead_band_known and one.kind is Kind.POWER:
        yield "how far the power may move unsent: source.dead_band, see the device's settings"
    if one.kind is Kind.INTERVAL_ENERGY and one.interval_ms is None:
        yield "what a reading covers: source.interval is how far apart they came"
    parts = sorted({part for heard in one.heard for part in _parts_beside(heard)})
    if parts:
        yield f"{', '.join(parts)} begin again and are parts of the same secret: never read them too"


def _parts_beside(heard: Heard) -> Iterator[str]:
    """Names of registers of a day, a week, a month that stand in a known family's payloads."""
    for payload in list(heard.payloads)[-1:]:
        for name in _keys(payload):
            if words(name) and words(name) <= PART_WORDS - {"period", "minute", "hour", "last"}:
                yield name


def _keys(payload: bytes) -> Iterator[str]:
    try:
        left = [json.loads(payload)]
    except (ValueError, RecursionError):
        return
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield from node
            left += node.values()
        elif isinstance(node, list):
            left += node


def _about_meters(one: Candidate) -> Iterator[str]:
    if one.ids:
        yield "which id is yours: compare with the number on the meter; a radio hears the neighbours too"
    if len(one.meters) > 1:
        yield f"which of the {len(one.meters)} are yours, and which is the main meter: others add to its eps"
    if one.device is not None and one.device.identifies and one.meters:
        yield f"{{meter}} is {one.device.identifies}: as proposed it does not leave"
    elif any(identifies(heard.topic) for heard in one.heard):
        yield "a topic seems to hold a serial number or an address: as proposed it does not leave"


def _about_times(one: Candidate) -> Iterator[str]:
    live, every_ms = one.count - one.retained, cadence_ms(one.heard)
    if not live:
        yield "only retained messages came: they may be old, and the agent leaves them out; listen longer"
    elif live == len(one.heard) and every_ms is None:
        yield "one message a topic: how often they come is not known; listen longer"
    if every_ms is not None and 2 * every_ms > _SLOT_MS:
        yield f"{_rough(every_ms)} between readings is long for slots of half an hour: a day is proposed"
    if not one.timed:
        yield "no time in the payload: the time of arrival counts"


def _about_values(one: Candidate) -> Iterator[str]:
    numbers = [number for topic in one.watts for number in topic]
    if one.kind is Kind.POWER and any(number < 0 for number in numbers):
        yield "values below zero: is power fed in? window.range is proposed to reach as far below 0"
    if one.kind is Kind.POWER and any(abs(number) > _HIGHEST_W for number in numbers):
        yield "values of more than 100 kW in this unit: is it another unit, or no home?"
    if one.kind is Kind.REGISTER and any(b < a for row in one.watts for a, b in pairwise(row)):
        yield "a register that fell: two meters on one topic, a reset, or no register"


# The configuration ----------------------------------------------------------------------------------


def toml(one: Candidate, access: Access, name: str = "home") -> str:
    """A configuration that is accepted as it is; a single meter gets a `name` that says nothing.

    With several meters it needs a key file. Readings too sparse or too coarse for half hours get a month.
    """
    text = _toml(one, access, name, coarse=False)
    return _toml(one, access, name, coarse=True) if config.refusals(config.parse(text)) else text


def _toml(one: Candidate, access: Access, name: str, *, coarse: bool) -> str:
    """A configuration of half hours; of days where readings are slow, of months where they are `coarse`."""
    several = len(one.meters) > 1
    source = {"url": access.url, **dict(access.keys), **_place(one, None if several else name)}
    source |= {"profile": one.profile}
    source |= {key: text for key, text in (("value", one.value), ("time", one.time)) if text is not None}
    if one.ids and one.device is not None and one.device.needs_id:
        source["id"] = one.ids.most_common(1)[0][0]
    source |= {"kind": str(one.kind), "unit": one.unit}
    if one.kind is Kind.INTERVAL_ENERGY and one.interval_ms is None:
        source["interval"] = _interval(one)
    sink = {"topic": f"private/{PLACEHOLDER}/{'power' if one.kind is Kind.POWER else 'energy'}"}
    if several:
        sink["pseudonym_key_file"] = _KEY_FILE
    tables = {
        "source": _lines(source),
        "window": _window(one, coarse),
        "privacy": _preset(one, coarse),
        "sink": _lines(sink),
    }
    if one.phases:
        tables["source"].insert(-2, f"phases = {json.dumps(list(one.phases))}")
    if several:
        tables["sink"].append(f"# make the key once: {_MAKE_KEY}")
    return "\n".join(f"[{name}]\n" + "\n".join(lines) for name, lines in tables.items() if lines)


def _place(one: Candidate, name: str | None) -> dict[str, str]:
    """The topic, and the meter's name; without one the topic names the meter."""
    if name is None:
        return {"topic": one.template}
    parts, known = one.template.split("/"), one.heard[0].topic.split("/")
    fixed = [have if want == PLACEHOLDER else want for want, have in zip(parts, known, strict=True)]
    if not one.phases:
        fixed = [have if want == PHASE else want for want, have in zip(fixed, known, strict=True)]
    return {"topic": "/".join(fixed), "meter": name}


def _lines(table: dict[str, str]) -> list[str]:
    return [f"{key} = {json.dumps(text, ensure_ascii=False)}" for key, text in table.items()]


def _interval(one: Candidate) -> str:
    every_ms = cadence_ms(one.heard) or 15 * MINUTE_MS
    nearest = min(_USUAL_INTERVALS_MIN, key=lambda minutes: abs(minutes * MINUTE_MS - every_ms))
    return format_duration(nearest * MINUTE_MS)


def _is_slow(one: Candidate) -> bool:
    every_ms = cadence_ms(one.heard)
    return every_ms is not None and 2 * every_ms > _SLOT_MS


def _window(one: Candidate, coarse: bool) -> list[str]:
    lines = ['timezone = "UTC"  # yours, such as "Europe/Amsterdam"'] if coarse or _is_slow(one) else []
    if one.kind is Kind.POWER and any(number < 0 for topic in one.watts for number in topic):
        lines.append("range = [-20000, 20000]")
    return lines


def _preset(one: Candidate, coarse: bool) -> list[str]:
    if coarse:
        return ['preset = "bill"  # shorter windows: `meteragent check` says what such readings hide']
    if _is_slow(one):
        return ['preset = "day"']
    return [
        'preset = "appliance"  # `meteragent check` says what it hides and costs; others: television, street'
    ]
