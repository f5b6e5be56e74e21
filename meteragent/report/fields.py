"""The fields of a record, or the names in a SenML pack, and what each says, for the statement."""

import json
from typing import Literal

from meteragent.wire.descriptor import TermsDescriptor
from meteragent.wire.record import RecordFormat

_EXAMPLE_MS = 1_795_129_200_000
_DRAWS = "how often noise was drawn: once, and at most once more for each restart within the window; public"
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
    "draws": _DRAWS,
}
_MEANINGS_SENML = {
    "bn": "the meter's name, as above; public",
    "bt": "the start of the slot, in seconds since 1970, UTC; public",
    "bver": "the version of SenML that has the unit; public",
    "": "**private**: what was measured in the slot, with noise, and its unit",
    "_band": "the hours of the day that the number is for; public",
    "_for": "the length of the slot; public",
    "_sd": "the standard deviation of the noise; public",
    "_terms": "the id of the descriptor; public",
    "_draws": _DRAWS,
}


def meanings(descriptor: TermsDescriptor, record_format: Literal["json", "senml"]) -> dict[str, str]:
    """Return the meaning of each field in a record, or of each name in a SenML pack."""
    example = json.loads(RecordFormat.of(descriptor, record_format).record("m1", _EXAMPLE_MS, 0, 0))
    if isinstance(example, dict):
        return {name: _MEANINGS[name] for name in example}
    value = example[0]["n"]
    of_pack = {name: meaning for name, meaning in _MEANINGS_SENML.items() if name in example[0]}
    return of_pack | {record["n"]: _MEANINGS_SENML[record["n"].removeprefix(value)] for record in example}
