"""JMESPath on decimals: what a user writes about several numbers is counted exactly."""

import json
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meteragent.decode import expression as expression_module
from meteragent.decode import json as json_format
from meteragent.decode.expression import compile_search
from meteragent.decode.json import document_of
from meteragent.domain.errors import PayloadError
from meteragent.domain.units import MICRO
from tests.support.steps import steps_of

DOCUMENT = document_of(
    b"""{
    "ENERGY": {"Power": [173.1, 58.2], "Total": 1.5},
    "Datas": [[229.1, 0.8, 173.1], [229.3, 0.3, 58.2], [230.0, 1.1, -251.3]],
    "phases": [{"n": "a", "w": 10.1}, {"n": "b", "w": 0.2}, {"n": "c", "w": 7}],
    "text": "0042.50", "word": "none", "yes": true, "nothing": null, "empty": [], "mixed": [1.5, "2"]
}"""
)

EXACT = {
    "sum(ENERGY.Power)": "231.3",
    "sum(to_array(ENERGY.Total))": "1.5",
    "sum(Datas[*][2])": "-20.0",
    "sum(phases[].w)": "17.3",
    "sum(empty)": "0",
    "sum([ENERGY.Total, `0.1`, `2`])": "3.6",
    "avg(ENERGY.Power)": "115.65",
    "max(phases[].w)": "10.1",
    "min(phases[].w)": "0.2",
    "abs(Datas[2][2])": "251.3",
    "ceil(ENERGY.Power[0])": "174",
    "floor(Datas[2][2])": "-252",
    "to_number(text)": "42.50",
    "to_number(ENERGY.Total)": "1.5",
    "sort(phases[].w)[1]": "7",
    "sort_by(phases, &w)[0].w": "0.2",
    "max_by(phases, &w).w": "10.1",
    "min_by(phases, &n).w": "10.1",
    "phases[?w > `5`] | sum([].w)": "17.1",
    "phases[?w >= `7`] | [-1].w": "7",
    "phases[?type(w) == 'number'] | [0].w": "10.1",
}
OTHERS = {
    "max_by(phases, &w).n": "a",
    "sort(phases[].n)[2]": "c",
    "max(phases[].n)": "c",
    "type(yes)": "boolean",
    "type(nothing)": "null",
    "type(word)": "string",
    "type(ENERGY)": "object",
    "avg(empty)": None,
    "max(empty)": None,
    "min_by(empty, &w)": None,
    "to_number(word)": None,
    "to_number(yes)": None,
    "to_number(empty)": None,
}
WRONG = [
    "sum(mixed)",
    "sum(text)",
    "sum(nothing)",
    "max(mixed)",
    "abs(yes)",
    "avg(word)",
    "sort_by(phases, &x)",
]


@pytest.mark.parametrize("expression", EXACT)
def test_numbers_are_counted_exactly(expression: str) -> None:
    """Every function of numbers gives the decimal that pen and paper give."""
    found = compile_search(expression)(DOCUMENT)
    assert isinstance(found, Decimal)
    assert found == Decimal(EXACT[expression])


@pytest.mark.parametrize("expression", OTHERS)
def test_what_is_no_number_is_as_the_library_has_it(expression: str) -> None:
    """Texts are compared as texts, nothing of an empty list is nothing, and no text becomes a number."""
    assert compile_search(expression)(DOCUMENT) == OTHERS[expression]


@pytest.mark.parametrize("expression", WRONG)
def test_what_cannot_be_counted_is_refused(expression: str) -> None:
    """A function of a value that is not a number is refused, and the error keeps nothing of the value."""
    decode = json_format.make_decoder(expression, None)
    payload = json.dumps(DOCUMENT, default=float).encode()
    with pytest.raises(PayloadError) as refused:
        decode(payload)
    assert refused.value.reason == "refused_type"
    assert refused.value.__context__ is None


decimals = st.decimals(-(10**9), 10**9, places=6).map(lambda one: f"{one:f}")


@given(numbers=st.lists(decimals, min_size=1, max_size=20))
def test_sums_means_and_extremes_are_those_of_fractions(numbers: list[str]) -> None:
    """Whatever the meter writes, sum, mean, largest and smallest are those of exact fractions."""
    payload = f'{{"w": [{",".join(numbers)}]}}'.encode()
    exact = [Fraction(one) for one in numbers]
    expected = {"sum": sum(exact), "max": max(exact), "min": min(exact)}
    for name, value in expected.items():
        assert json_format.make_decoder(f"{name}(w)", None)(payload).value_u == value * MICRO
    mean = compile_search("avg(w)")(document_of(payload))
    assert abs(Fraction(mean) - Fraction(sum(exact), len(exact))) <= Fraction(1, 10**50)


def test_a_sum_that_no_number_holds_is_still_one() -> None:
    """Numbers beyond any use are brought to 10**100, so that sums neither overflow nor end the agent."""
    decode = json_format.make_decoder("sum(w)", None)
    assert decode(b'{"w": [9e999999, 9e999999]}').value_u == 10**12 * MICRO
    assert decode(b'{"w": [9e999999, -9e999999, 7.5]}').value_u == 7_500_000
    assert decode(b'{"w": [1e99, 0.000001, -1e99]}').value_u == 1


COSTLY = {
    "doubled lists": "[p,p]|{again}length(@)",
    "doubled lists that are compared": "[p,p]|{nested}@ == @",
    "doubled lists as text": "[p,p]|{nested}to_string(@)",
    "doubled objects": "{{a:p,b:p}}|{objects}to_string(@)",
}
STAGES = {"again": "[@,@][]|", "nested": "[@,@]|", "objects": "{a:@,b:@}|"}


@pytest.mark.parametrize("what", COSTLY)
def test_an_expression_cannot_cost_without_bound(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An expression that doubles what it handles is refused after a bounded number of steps."""
    monkeypatch.setattr(expression_module, "STEPS_MAX", 20_000)
    payload = b'{"p": [1, 2, 3], "t": 1}'
    costs = []
    for count in (13, 15):  # without the limit, the test would end, too
        stages = {name: stage * count for name, stage in STAGES.items()}
        decode = json_format.make_decoder(COSTLY[what].format(**stages), None)
        costs.append(steps_of(lambda decode=decode: decode(payload)))  # type: ignore[misc]
        with pytest.raises(PayloadError) as refused:
            decode(payload)
        assert refused.value.reason == "refused_type"
    assert costs[0] < 100 * 20_000
    assert costs[1] <= 2 * costs[0]


LINEAR = [
    "sum(p)",
    "sum(p[?@ > `1`])",
    "max_by(q, &w).w",
    "length([p, p][])",
    "sum(q[*].[w, w][])",
    "sum(p[?contains(`[1, 2, 3]`, @)])",
]


@pytest.mark.parametrize("expression", LINEAR)
def test_twice_the_document_costs_at_most_twice_the_steps(expression: str) -> None:
    """What an expression costs grows as the document does."""
    costs = []
    for count in (100, 200, 400):
        document = document_of(json.dumps({"p": [1] * count, "q": [{"w": 1}] * count}).encode())
        search = compile_search(expression)
        costs.append(steps_of(lambda search=search, document=document: search(document)))  # type: ignore[misc]
    assert costs[1] <= 2 * costs[0]
    assert costs[2] <= 2 * costs[1]


@pytest.mark.parametrize("expression", ["sum(p)", "sum(sort(p))", "max(p[?@ > `0`])"])
def test_the_largest_payload_is_within_the_steps(expression: str) -> None:
    """Lists that fill a payload of 64 KiB are evaluated."""
    payload = b'{"p": [' + b",".join([b"1"] * 32_000) + b"]}"
    assert json_format.make_decoder(expression, None)(payload).value_u >= MICRO
