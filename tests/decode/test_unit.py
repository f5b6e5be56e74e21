"""The unit that a program states beside the readings."""

from fractions import Fraction

import pytest

from meteragent.decode import json
from meteragent.decode.unit import stated_unit
from meteragent.domain.errors import PayloadError


@pytest.mark.parametrize(
    ("payload", "unit"),
    [
        (b"W", "W"),
        (b'"kW"', "kW"),
        (b" kWh\r\n\0", "kWh"),
        (b'{"unit_of_measurement": "Wh", "name": "x"}', "Wh"),
        (b'{"unit_of_meas": " W "}', "W"),
        ("°C".encode(), "°C"),
        (b"", None),
        (b'"unknown"', None),
        (b"unavailable", None),
        (b"null", None),
        (b"{}", None),
        (b'{"unit_of_measurement": 5}', None),
        (b"[" * 5000, "[" * 5000),
    ],
)
def test_a_unit_is_a_text_a_string_or_a_key(payload: bytes, unit: str | None) -> None:
    """As Home Assistant's attributes and discovery messages state it; no value is no statement."""
    assert stated_unit(payload) == unit


@pytest.mark.parametrize(
    ("payload", "value", "unit", "scale", "is_taken"),
    [
        (b'{"p": 1.5, "unit": "kW"}', "p", "W", 1, False),
        (b'{"p": 1.5, "unit": "kW"}', "p", "kW", 1, True),
        (b'{"p": 1.5, "unit": "kW"}', "p", "W", 1000, True),
        (b'{"p": 1500, "unit": "W"}', "p", "W", 1000, False),
        (b'{"p": 1500, "unit_of_measurement": " w "}', "p", "W", 1, True),
        (b'{"p": 1500, "uom": "mW"}', "p", "W", 1, False),
        (b'{"p": 1500, "uom": "MW"}', "p", "W", 1, False),
        (b'{"p": 1500, "unit": "kWh"}', "p", "W", 1, True),
        (b'{"p": 1500, "unit": "lx"}', "p", "W", 1, True),
        (b'{"p": 1500, "unit": 7}', "p", "W", 1, True),
        (b'{"e": 1.5, "units": "MWh"}', "e", "kWh", 1, False),
        (b'{"e": 1.5, "units": "kWh"}', "e", "kWh", 1, True),
        (b'{"e": 1.5, "units": "KWH"}', "e", "kWh", 1, True),
        (b'{"e": 1.5, "units": "KWH"}', "e", "Wh", 1, False),
        (b'{"e": 3600, "unit": "J"}', "e", "Wh", 1, False),
        (b'{"a": {"p": 1.5, "unit": "kW"}, "unit": "W"}', "a.p", "W", 1, False),
        (b'{"a": {"p": 1.5, "unit": "W"}, "unit": "kW"}', "a.p", "W", 1, True),
        (b'{"a": [{"p": 1.5}], "unit": "kW"}', "a[0].p", "W", 1, False),
    ],
)
def test_another_unit_beside_the_number_is_refused(
    payload: bytes, value: str, unit: str, scale: int, is_taken: bool
) -> None:
    """W that are stated as kW would be wrong by 1,000; the unit of another quantity is not the number's."""
    decode = json.make_decoder(value, None, Fraction(scale), unit)
    if is_taken:
        assert decode(payload).value_u > 0
    else:
        with pytest.raises(PayloadError, match="refused_unit"):
            decode(payload)
