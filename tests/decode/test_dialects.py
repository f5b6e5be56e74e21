"""Paths of other tools: refused, with the JMESPath expression that finds the same value."""

import tomllib
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent import config
from meteragent.decode.dialects import parse_steps, to_jmespath
from meteragent.decode.json import compile_expression
from tests.support.configurations import refused, written

DOCUMENT: dict[str, Any] = {
    "power": 5,
    "active-power": 6,
    "Active Power": 7,
    "1-0:16.7.0": 8,
    "16.7.0": 9,
    "data": {"power": 10, "list": [{"power": 11}]},
    "em:0": {"act_power": 12},
    "0100100700ff": 13,
    "SML": {"1-0:1.8.0*255": 14},
}
PATHS = {
    "$.power": 5,
    "$['power']": 5,
    "JSONPATH:$.power": 5,
    ".power": 5,
    ".data.power": 10,
    ".data.power | tonumber": 10,
    "{{ value_json.power }}": 5,
    "{{value_json['active-power'] | float(0)}}": 6,
    "{{ value_json.data.list[0].power }}": 11,
    "value_json.power": 5,
    "active-power": 6,
    "Active Power": 7,
    "1-0:16.7.0": 8,
    "$.1-0:16.7.0": 8,
    "16.7.0": 9,
    "SML.1-0:1.8.0*255": 14,
    "em:0.act_power": 12,
    "0100100700ff": 13,
    "/data/power": 10,
    "data/power": 10,
    "$.data.list[0].power": 11,
    "data['list'][0]['power']": 11,
}


def advice(path: str) -> str:
    """Return what the refusal of a path says in its brackets."""
    with pytest.raises(ValueError, match=r"^a JMESPath expression \(") as refusal:
        compile_expression(path)
    return str(refusal.value).removeprefix("a JMESPath expression (").removesuffix(")")


@pytest.mark.parametrize(("path", "number"), PATHS.items())
def test_a_path_of_another_tool_is_refused_with_what_finds_the_value(path: str, number: int) -> None:
    """What is to be written is TOML, compiles, and finds what the other tool's path means."""
    toml = tomllib.loads(advice(path).replace("write ", "value = "))
    assert compile_expression(toml["value"])(DOCUMENT) == number


@pytest.mark.parametrize(
    ("path", "scale"),
    [("power * 1000", "1000"), ("{{ value_json.power/1000 }}", "'1/1000'"), ("$.power*0.1", "0.1")],
)
def test_a_path_that_calculates_leads_to_scale(path: str, scale: str) -> None:
    """A factor belongs in source.scale."""
    assert advice(path) == f"write 'power', and source.scale = {scale}"


def test_a_template_of_the_whole_payload_leads_to_a_bare_number() -> None:
    """Without a document there is no path to write."""
    assert "profile = 'number'" in advice("{{ value | float }}")


@pytest.mark.parametrize(
    "path",
    [
        "$..power",
        "a + b",
        "{{ value_json.power-5 }}",
        "{{ states('sensor.x') }}",
        "power[",
        "$",
        "-power",
        "",
    ],
)
def test_what_is_no_plain_path_is_refused_without_a_guess(path: str) -> None:
    """A search, a sum, a difference or a part of an expression is not translated."""
    assert "write" not in advice(path)


def test_the_refusal_of_a_configuration_says_what_to_write() -> None:
    """`check` names the key, and the text to write there."""
    text = written(source="profile = 'json'\nvalue = '1-0:16.7.0'")
    refusal = refused(lambda: config.parse(text))
    assert refusal.key == "source.value"
    assert "write '\"1-0:16.7.0\"'" in refusal.expected


@given(st.lists(st.text(min_size=1) | st.integers(0, 9), min_size=1, max_size=4))
def test_a_path_is_written_so_that_it_finds_its_value(path: list[str | int]) -> None:
    """Any names and indices become an expression that finds the value at that path."""
    names: list[str | int] = ["first", *path]
    document: Any = Decimal(5)
    for step in reversed(names):
        document = {step: document} if isinstance(step, str) else [None] * step + [document]
    assert compile_expression(to_jmespath(names))(document) == 5


@given(st.text(alphabet="ab.-:/*[]'\"1 ", max_size=12))
def test_the_steps_of_a_template_are_names_or_places(text: str) -> None:
    """A difference or a quotient is never taken for a name."""
    path = parse_steps(text)
    assert path is None or all(isinstance(step, int) or f".{step}" in text or step in text for step in path)
    assert path is None or "[" in text or not set(text) & set("-/*: ")
