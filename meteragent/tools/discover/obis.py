"""The OBIS codes that vzlogger announces on ../id, beside a channel's numbers; they state the kind."""

import re
from collections.abc import Iterable
from dataclasses import replace

from meteragent.domain.units import Kind
from meteragent.tools.discover.candidate import Unplaced
from meteragent.tools.discover.listener import TopicLog

_CODE = re.compile(rb"1-0:(1|2|16)\.([78])\.0(?:\*255)?", re.ASCII)
_KINDS = {b"7": Kind.POWER, b"8": Kind.REGISTER}
_FAMILY = "vzlogger"


def with_kinds(unplaced: Iterable[Unplaced], logs: Iterable[TopicLog]) -> list[Unplaced]:
    """Add the kind to vzlogger channels whose OBIS code was received; the unit remains unknown."""
    kinds = {
        log.topic.removesuffix("/id"): _KINDS[match[2]]
        for log in logs
        if log.topic.endswith("/id") and log.payloads and (match := _CODE.fullmatch(log.payloads[-1].strip()))
    }
    return [_with_kind(entry, kinds.get(entry.topic.rpartition("/")[0])) for entry in unplaced]


def _with_kind(entry: Unplaced, kind: Kind | None) -> Unplaced:
    if kind is None or entry.source.get("profile") != _FAMILY:
        return entry
    missing = tuple(key for key in entry.missing if key != "kind")
    reason = (
        f"a vzlogger channel of kind {kind}: nothing states the {' and the '.join(missing)} of its numbers"
    )
    source = {key: value for key, value in entry.source.items() if key != "value"} | {"kind": str(kind)}
    return replace(entry, reason=reason, missing=missing, source=source)
