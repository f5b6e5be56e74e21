"""The fields of a record, and what each says, for the statement."""

import json

from meteragent.wire.descriptor import TermsDescriptor
from meteragent.wire.record import RecordFormat

_MEANINGS = {
    "v": "the version of the format; public",
    "meter": "the meter's name, as above; public",
    "t": "the start of the slot, in UTC; public",
    "for": "the length of the slot; public",
    "band": "the hours of the day that the number is for; public",
    "value": "**private**: what was measured in the slot, with noise",
    "unit": "its unit; public",
    "sd": "the standard deviation of the noise; public",
    "d": "the id of the descriptor; public",
    "draws": "how often noise was drawn: once, and at most once more for each restart in the window; public",
}


def meanings(descriptor: TermsDescriptor) -> dict[str, str]:
    """Return the meaning of each field in a record."""
    return {name: _MEANINGS[name] for name in json.loads(RecordFormat.of(descriptor).record("m1", 0, 0, 0))}
