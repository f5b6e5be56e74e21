"""Where the search for the most energy ends at the largest energy that is tried, the answer says so."""

import json

import pytest

from meteragent.report import plan
from meteragent.report.language import use_language
from meteragent.report.plan import amount, ask

SENTENCES = {
    "en": "The search ends at 10,000,000 Wh: more may be hidden within this error.",
    "de": "Die Suche endet bei 10.000.000 Wh: Bei diesem Fehler lässt sich womöglich mehr verbergen.",
}


def of_power(share: str, goal: str, hide: str = "") -> plan.Answer:
    """Return the answer to a question about powers or energies."""
    return plan.solve(
        plan.Question(
            ask.parse_hide(hide) if hide else None, ask.parse_share(share), None, ask.parse_goal(goal)
        )
    )


def of_amount(error: str, hide: str = "") -> amount.AmountAnswer:
    """Return the answer to a question about the cost of a month."""
    share = amount.parse_share("month-cost")
    assert share is not None
    question = amount.AmountQuestion(
        share, ask.parse_hide(hide) if hide else None, amount.parse_money(error), amount.parse_price("0.5EUR")
    )
    return amount.solve(question)


def shown(answer: plan.Answer | amount.AmountAnswer, language: str = "en") -> str:
    """Return the text of an answer, in one line."""
    with use_language(language):
        text = plan.as_text(answer) if isinstance(answer, plan.Answer) else amount.as_text(answer)
    return " ".join(text.split())


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize(
    "answer",
    [
        *(of_power(share, "99999999W") for share in ("half-hour", "day", "month", "typical-day", "curve")),
        of_amount("9999999EUR"),
    ],
    ids=["half-hour", "day", "month", "typical-day", "curve", "month-cost"],
)
def test_the_end_of_the_search_is_not_stated_as_the_most(
    answer: plan.Answer | amount.AmountAnswer, language: str
) -> None:
    """An error of megawatts would allow more than 10 MWh, which is what a question may state and no more."""
    assert answer.setting is not None
    assert answer.setting.hide_wh == ask.ENERGY_MAX_WH == 10**7
    assert SENTENCES[language] in shown(answer, language)


@pytest.mark.parametrize(
    "answer",
    [
        of_power("day", "10%"),
        of_power("day", "99999999W", "10000kWh"),
        of_amount("5000EUR"),
        of_amount("9999999EUR", "10000kWh"),
    ],
)
def test_an_energy_within_the_search_is_all(answer: plan.Answer | amount.AmountAnswer) -> None:
    """An energy that the error limits, or that the question states, needs no such sentence."""
    assert "The search ends" not in shown(answer)


@pytest.mark.parametrize(("error", "most"), [("5000EUR", "7070000"), ("9999999EUR", None)])
def test_json_states_no_most_beyond_the_search(error: str, most: str | None) -> None:
    """`hides_at_most_wh` is what the error allows, or null if the search did not come that far."""
    assert json.loads(amount.as_json(of_amount(error)))["hides_at_most_wh"] == most
    assert json.loads(amount.as_json(of_amount(error, "kettle")))["hides_at_most_wh"] == most
