"""Stores of earlier versions: what they lack has its default, and what they hold keeps its meaning."""

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from meteragent.errors import StoreError
from meteragent.store import schema
from tests.stores import TERMS


def test_half_up_terms_keep_their_names() -> None:
    """Terms from before there was another rounding are half-up, and have the ids that stores know them by."""
    known = json.loads(schema.encode_terms(TERMS))
    later = ("rounding", "every_ms", "dead_band", "counters", "crc")
    without = {name: value for name, value in known.items() if name not in later}
    assert schema.decode_terms(json.dumps(without)) == TERMS
    assert schema.decode_terms(json.dumps(without)).rounding == "half-up"
    assert TERMS.id == "c4f314bc7aa9889a"
    changes: list[dict[str, Any]] = [
        *({"rounding": "dithered"}, {"every_ms": 0}, {"every_ms": 10}, {"dead_band": Fraction(0)}),
        *({"dead_band": Fraction(1, 3)}, {"counters": 2}),
    ]
    changed = [replace(TERMS, **change) for change in changes]
    assert len({TERMS.id, *(terms.id for terms in changed)}) == len(changes) + 1
    assert [schema.decode_terms(schema.encode_terms(terms)) for terms in changed] == changed
    with pytest.raises(StoreError):
        schema.decode_terms(json.dumps(without | {"rounding": "half-even"}))


def test_terms_of_the_first_version_are_read() -> None:
    """A store from before there were bands, zones and other streams: what its terms lack has its default."""
    later = {"space", "timezone", "bands", "others_per_day"}
    known = json.loads(schema.encode_terms(TERMS))
    assert later < known.keys()
    assert schema.decode_terms(json.dumps({k: v for k, v in known.items() if k not in later})) == TERMS
