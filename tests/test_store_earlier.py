"""Stores of earlier versions: what they lack has its default, and what they hold keeps its meaning."""

import json
from dataclasses import replace

import pytest

from meteragent.errors import StoreError
from meteragent.store import schema
from tests.stores import TERMS


def test_half_up_terms_keep_their_names() -> None:
    """Terms from before there was another rounding are half-up, and have the ids that stores know them by."""
    known = json.loads(schema.encode_terms(TERMS))
    without = {name: value for name, value in known.items() if name not in ("rounding", "crc")}
    assert schema.decode_terms(json.dumps(without)).rounding == "half-up"
    assert TERMS.id == "c4f314bc7aa9889a"
    assert replace(TERMS, rounding="dithered").id != TERMS.id
    with pytest.raises(StoreError):
        schema.decode_terms(json.dumps(without | {"rounding": "half-even"}))


def test_terms_of_the_first_version_are_read() -> None:
    """A store from before there were bands, zones and other streams: what its terms lack has its default."""
    later = {"space", "timezone", "bands", "others_per_day"}
    known = json.loads(schema.encode_terms(TERMS))
    assert later < known.keys()
    assert schema.decode_terms(json.dumps({k: v for k, v in known.items() if k not in later})) == TERMS
