"""The report (proposals with configurations, reasons for other topics, next steps), and a progress line."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from meteragent.decode.profile import Profile
from meteragent.decode.profiles import PROFILES
from meteragent.domain.counters import REFUSALS
from meteragent.domain.figures import count_text
from meteragent.tools.discover.candidate import Candidate
from meteragent.tools.discover.configuration import Access, configuration_toml, source_keys, toml_value
from meteragent.tools.discover.doubts import list_doubts, rough_duration
from meteragent.tools.discover.listener import Listener, cadence_ms
from meteragent.tools.discover.search import Search, search_log
from meteragent.tools.discover.words import Role

_UNCERTAIN = "Nothing can be proposed with certainty."
_NOTHING = "No topic looks like a meter. Listen longer (--seconds 600): some meters send rarely."
_SEVERAL = """\
Several of these may measure the same electricity: a main meter and its
sub-meters, or one meter reported twice. Each one that you release adds to the
privacy spent. Start with one: the main meter."""
_SHOWN = 10
_UNPLACED_SHOWN = 30


def report_text(
    listener: Listener, access: Access, seconds: int, profiles: Mapping[str, Profile] = PROFILES
) -> str:
    """Return the report: counts, candidates with configurations, topics not proposed, and the next steps."""
    outcome = search_log(listener, profiles)
    meters = outcome.candidates
    lines = [f"Heard {_heard_count(listener)} in {seconds} s."]
    if listener.shed:
        shed = f"{listener.shed:,} messages arrived on further topics"
        lines.append(f"{shed} and were only counted: use --topic.")
    if outcome.ours:
        lines.append(f"Left out: {count_text(len(outcome.ours), 'topic')} of meteragent's private streams.")
    for place, candidate in enumerate(meters, 1):
        lines += ["", *_candidate_lines(place, candidate, access)]
    if not meters:
        lines += ["", _UNCERTAIN if outcome.unplaced else _NOTHING]
    lines += _unproposed_lines(outcome)
    if len(meters) > 1 or any(len(candidate.meters) > 1 for candidate in meters):
        lines += ["", _SEVERAL]
    return "\n".join([*lines, "", *_next_steps(outcome)])


def progress_line(listener: Listener, seconds: int) -> str:
    """Return a line about the messages so far; this is faster than computing a report."""
    if not listener.message_count:
        return f"{seconds} s: nothing yet"
    live = sum(1 for log in listener.topics.values() if log.times_ms)
    return f"{seconds} s: {_heard_count(listener)} so far, {live:,} of them live"


def _heard_count(listener: Listener) -> str:
    return f"{count_text(listener.message_count, 'message')} on {count_text(len(listener.topics), 'topic')}"


def _next_steps(outcome: Search) -> Iterator[str]:
    if outcome.candidates:
        yield "Next: save a configuration as home.toml, then: meteragent check home.toml"
    elif any(entry.missing for entry in outcome.unplaced):
        yield from _wrap(
            "Next: ",
            "find out what is missing above, in the device's manual or on its display. Write the topic and"
            " all of these keys below [source] in home.toml, then: meteragent check home.toml",
        )
    elif any(text in entry.reason for entry in outcome.unplaced for text in REFUSALS.values()):
        yield "Next: change what is sent, as stated above, then run this command again."
    else:
        yield "Next: meteragent discover with --seconds 600, while the meter is on."
    yield "No values are shown here, but topics and ids name your devices: read this before you"
    yield "post it."


def _candidate_lines(place: int, candidate: Candidate, access: Access) -> Iterator[str]:
    yield from _wrap(f"{place}. ", f"{candidate.title} ({candidate.certainty}): {candidate.quantity_text}")
    alternatives = [_alternative_text(candidate, offer) for offer in candidate.alternatives]
    facts = {
        "topic": candidate.template,
        "role": "" if candidate.role is Role.UNKNOWN else str(candidate.role),
        "meters": _first_names(candidate.meters),
        "phases": ", ".join(candidate.phases),
        "ids": _first_names([f"{name} ({count})" for name, count in candidate.ids.most_common()]),
        "heard": _heard_text(candidate),
    }
    for name, text in facts.items():
        if text:
            yield from _wrap(f"   {name:<9}", text)
    if alternatives:
        yield "   also (each quantity that you release adds to the privacy spent)"
        yield from (line for text in alternatives for line in _wrap("   - ", text))
    traps = candidate.device.traps if candidate.device else ()
    for name, texts in (("assumed or uncertain", list_doubts(candidate)), ("good to know", traps)):
        if texts:
            yield f"   {name}"
            yield from (line for text in texts for line in _wrap("   - ", text))
    yield from ("   a configuration to start with:", "")
    lines = configuration_toml(candidate, access, "home" if place == 1 else f"meter-{place}").splitlines()
    yield from (f"       {line}".rstrip() for line in lines)


def _alternative_text(candidate: Candidate, offer: Candidate) -> str:
    """Return another quantity of a meter, with the `[source]` keys that would read this quantity instead."""
    proposed_keys = source_keys(candidate)
    keys = {key: value for key, value in source_keys(offer).items() if proposed_keys.get(key) != value}
    return f"{offer.quantity_text}: {_keys_text(keys)}"


def _keys_text(keys: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {toml_value(value)}" for key, value in keys.items())


def _unproposed_lines(outcome: Search) -> Iterator[str]:
    """Yield the topics that are not proposed, with reasons, and topics that name neither power nor energy."""
    if outcome.unplaced:
        yield from ("", "Heard, but not proposed:")
        for entry in outcome.unplaced[:_UNPLACED_SHOWN]:
            yield f"  {entry.topic}"
            yield from _wrap("    ", entry.reason)
            if entry.missing:
                keys = _keys_text({key: value for key, value in entry.source.items() if key != "topic"})
                yield from _wrap("    ", f"known: {keys}; missing: {', '.join(entry.missing)}")
        if len(outcome.unplaced) > _UNPLACED_SHOWN:
            yield f"  and {len(outcome.unplaced) - _UNPLACED_SHOWN:,} more: use --topic"
    if outcome.quiet:
        topics = count_text(len(outcome.quiet), "topic")
        yield from ("", f"Heard, but without any name for power or energy: {topics}")
        yield from (f"  {topic}" for topic in sorted(outcome.quiet)[:_SHOWN])
        if len(outcome.quiet) > _SHOWN:
            yield f"  and {len(outcome.quiet) - _SHOWN:,} more"


def _wrap(head: str, text: str) -> list[str]:
    """Wrap a paragraph for a terminal without breaking names; `head` begins the first line."""
    return textwrap.wrap(
        text,
        width=79,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _first_names(names: Sequence[str]) -> str:
    remainder = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + remainder


def _heard_text(candidate: Candidate) -> str:
    every_ms = cadence_ms(candidate.topics)
    text = count_text(candidate.message_count, "message")
    if candidate.retained_count:
        text += f", {candidate.retained_count:,} of them retained"
    return text + (f"; about one every {rough_duration(every_ms)}" if every_ms is not None else "")
