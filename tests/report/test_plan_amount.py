"""Planning amounts: the error of a cost from what it hides, and what it hides from the error."""

import json
import math
from fractions import Fraction

import pytest

from meteragent import config
from meteragent.cli import main
from meteragent.domain.shapes import Amount
from meteragent.report.plan import amount, ask
from meteragent.report.plan.amount import AmountAnswer, AmountQuestion, Money


def answered(hide: str = "", error: str = "", bound: str = "0.45EUR", homes: int = 1) -> AmountAnswer:
    """Return the answer to a question as text."""
    share = amount.parse_share("month-cost")
    assert share is not None
    return amount.solve(
        AmountQuestion(
            share,
            ask.parse_hide(hide) if hide else None,
            amount.parse_money(error) if error else None,
            amount.parse_price(bound),
            homes=homes,
        )
    )


def test_the_error_of_a_month_s_cost_is_that_of_its_hidden_energy_at_the_largest_price() -> None:
    """110 Wh at 0.45 EUR is off by 0.07 EUR; the mean of 100 homes by a tenth of that."""
    answer = answered("110Wh")
    assert answer.is_possible
    assert answer.setting.error == pytest.approx(math.sqrt(2) * 0.45 * 0.11, rel=1e-3)
    assert answered("110Wh", homes=100).setting.error == pytest.approx(answer.setting.error / 10)
    assert "0.07 EUR" in amount.as_text(answer)


@pytest.mark.parametrize(("error", "homes"), [("0.05EUR", 1), ("0.001EUR", 1), ("2EUR", 1), ("0.05EUR", 300)])
def test_an_error_tells_how_much_can_be_hidden(error: str, homes: int) -> None:
    """The energy of three figures that is within the goal, and no larger one is."""
    answer = answered(error=error, homes=homes)
    goal = amount.parse_money(error)
    assert goal is not None
    assert answer.setting == answer.limit
    assert answer.setting.error <= goal.value
    more = amount.AmountSetting(answer.question, answer.setting.hide_wh * Fraction(103, 100))
    assert more.error > goal.value


def test_what_cannot_be_had_is_refused_with_what_can() -> None:
    """A kettle a month at 1 cent is not possible; 15 Wh are."""
    answer = answered("kettle", "0.01EUR")
    assert not answer.is_possible
    assert answer.limit is not None
    assert answer.limit.hide_wh == 15
    text = amount.as_text(answer)
    assert "NOT possible" in text
    assert "at most 15 Wh can be hidden" in text


@pytest.mark.parametrize("share", ["month-cost", "week-costs", "day cost"])
def test_what_is_printed_is_a_configuration(share: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The configuration has the amounts, prices and errors that the answer states."""
    arguments = ["--hide", "kettle", "--share", share, "--price", "0.3CHF", "--timezone", "Europe/Zurich"]
    assert main(["plan", *arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    [stream] = config.parse(facts["configuration"]).stream
    terms = config.terms(stream)
    assert isinstance(terms.shape, Amount)
    assert (terms.shape.currency, terms.shape.bound_u) == ("CHF", 300_000)
    assert terms.hides_wh == Fraction(110)
    assert facts["error_of_one_home"] == pytest.approx(terms.sd, rel=1e-3)
    assert facts["check"]["timezone"] == "Europe/Zurich"
    assert main(["plan", *arguments]) == 0
    text = capsys.readouterr().out
    assert facts["configuration"] in text
    assert "a kettle" in text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--share", "month-cost"], "give --hide or --error"),
        (["--share", "month-cost", "--error", "5%"], "a cost needs an error such as --error 0.05EUR"),
        (["--share", "month-cost", "--error", "0.05CHF"], "give --error in EUR, the currency of --price"),
        (
            ["--share", "month-cost", "--error", "0.000001EUR", "--price", "9EUR"],
            "too small to hide anything",
        ),
        (["--share", "month-cost", "--hide", "kettle", "--price", "9"], "such as 0.45EUR"),
        (
            ["--share", "day", "--hide", "kettle", "--error", "1EUR"],
            "errors in money and --price apply only to costs",
        ),
        (
            ["--share", "day", "--hide", "kettle", "--price", "1EUR"],
            "errors in money and --price apply only to costs",
        ),
        (["--share", "day", "--hide", "kettle", "--error", "0EUR"], "0.5kWh"),
    ],
)
def test_questions_without_an_answer_are_refused(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says what is expected."""
    with pytest.raises(SystemExit) as caught:
        main(["plan", *arguments])
    assert caught.value.code == 2
    assert expected in " ".join(capsys.readouterr().err.split())


def test_money_is_read() -> None:
    """A number and a currency of three capital letters; anything else is none."""
    assert amount.parse_money("0.05 EUR") == Money(Fraction(1, 20), "EUR")
    for text in ("0.05", "5%", "EUR", "0EUR", "1eur", "20W"):
        assert amount.parse_money(text) is None
