"""Prices in the configuration: what makes amounts, and what is refused."""

from collections.abc import Callable
from fractions import Fraction

import pytest

from meteragent import config
from meteragent.domain.metric import Metric
from meteragent.domain.shapes import Amount, PriceSource
from meteragent.domain.units import DAY_MS, HOUR_MS, MICRO
from tests.support.configurations import refused, streams, written
from tests.support.weighted import PRICES, text_of_prices

ROW = "[[window.weights.price]]\nhours = ['07:00/23:00']\nprice = 0.3\n"


def parse(text: str) -> Callable[[], object]:
    """Parse a configuration later."""
    return lambda: config.parse(text)


def test_prices_make_amounts() -> None:
    """The space and the metric follow from the table; no preset's name stands for them."""
    [source] = config.parse(text_of_prices()).stream
    terms = config.terms(source)
    assert (terms.metric, terms.preset, terms.places) == (Metric.L1, None, ())
    assert terms.shape == Amount(30 * DAY_MS, "EUR", 450_000, 200_000, PriceSource.TABLE)
    monday, *_ = terms.prices
    assert monday == (7 * HOUR_MS, 23 * HOUR_MS, 300_000)
    assert (terms.value_unit, terms.length_ms) == ("EUR", 30 * DAY_MS)
    assert terms.hides_wh == 110


def test_prices_of_a_topic_need_no_calendar() -> None:
    """Terms know the source, and no price."""
    text = written(window="length = '24h'") + "[window.weights]\nbound = 1\ntopic = 'prices'\n"
    terms = config.terms(config.parse(text).stream[0])
    assert terms.shape == Amount(DAY_MS, "EUR", MICRO, 0, PriceSource.TOPIC)
    assert terms.prices == ()


def test_hours_over_midnight_are_one_price() -> None:
    """Parts that meet at midnight are joined."""
    table = PRICES.replace('"07:00/23:00"', '"22:00/06:00"').replace('days = "mon-fri"\n', "", 1)
    table = table.partition('[[window.weights.price]]\ndays = "sat')[0]
    prices = config.terms(config.parse(text_of_prices(prices=table)).stream[0]).prices
    assert prices[:2] == (
        (0, 6 * HOUR_MS, 300_000),
        (22 * HOUR_MS, 30 * HOUR_MS, 300_000),
    )


REFUSED: dict[str, tuple[str, str, str, str]] = {
    # what: the text, the key, what was found, a part of what is expected
    "no table": (written(privacy="space = 'weighted'"), "window.weights", "nothing", "[window.weights]"),
    "another space": (
        text_of_prices(privacy="space = 'linf'").replace("holidays = [2026-12-25]\n", ""),
        "privacy.space",
        "'linf'",
        "'weighted', which window.weights implies",
    ),
    "no bound": (text_of_prices(prices=f"[window.weights]\n{ROW}"), "window.weights.bound", "nothing", "0.5"),
    "no price": (
        text_of_prices(prices="[window.weights]\nbound = 1\n"),
        "window.weights.price",
        "nothing",
        "[[window.weights.price]]",
    ),
    "a price beyond the bound": (
        text_of_prices(prices=f"[window.weights]\nbound = 0.29\n{ROW}"),
        "window.weights.price",
        "0.3",
        "plus and minus window.weights.bound = 0.29",
    ),
    "a default beyond the bound": (
        text_of_prices(prices=f"[window.weights]\nbound = 0.3\ndefault = -0.4\n{ROW}"),
        "window.weights.default",
        "-0.4",
        "between plus and minus window.weights.bound",
    ),
    "a bound with too many decimals": (
        text_of_prices(prices=f"[window.weights]\nbound = '1/3'\n{ROW}"),
        "window.weights.bound",
        "1/3",
        "six decimals",
    ),
    "two prices of one hour": (
        text_of_prices(prices=f"[window.weights]\nbound = 1\n{ROW}{ROW}"),
        "window.weights.price",
        "0 and 1 on mon from 07:00",
        "hours that do not overlap",
    ),
    "too many rows": (
        text_of_prices(prices=f"[window.weights]\nbound = 1\n{ROW * 97}"),
        "window.weights.price",
        "97",
        "at most 96",
    ),
    "no calendar": (
        written(window="length = '24h'") + f"[window.weights]\nbound = 1\n{ROW}",
        "window.length",
        "a window without",
        "window.timezone",
    ),
    "blocks": (text_of_prices(window="blocks = 4"), "window.blocks", "slots of another kind", "one number"),
    "linf": (text_of_prices(privacy="metric = 'linf'"), "privacy.metric", "'linf'", "'l1', the default"),
    "bands": (
        text_of_prices(window="rest = 'night'"),
        "window.rest",
        "a value",
        "privacy.preset = 'tariff' or privacy.space = 'bands', or no rest",
    ),
    "a topic beside a table": (
        text_of_prices(prices=f"[window.weights]\nbound = 1\ntopic = 'prices'\n{ROW}").replace(
            "clock = 'event'\n", ""
        ),
        "window.weights.topic",
        "'prices'",
        "only one of",
    ),
    "a topic by the event clock": (
        text_of_prices(prices="[window.weights]\nbound = 1\ntopic = 'prices'\n"),
        "window.clock",
        "'event'",
        "'wall'",
    ),
    "a topic of this home": (
        written(window="length = '24h'") + "[window.weights]\nbound = 1\ntopic = 'private/m1/power'\n",
        "window.weights.topic",
        "'private/m1/power'",
        "that no stream writes to or gets readings from",
    ),
    "a running total": (
        text_of_prices().replace("[sink]\n", "[sink]\ntotal = true\n"),
        "sink.total",
        "true",
        "energies",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_amount_is_refused(what: str) -> None:
    """The text names the key, the value, and the expected value."""
    text, key, found, expected = REFUSED[what]
    error = refused(parse(text))
    assert error.key == key
    assert error.found.startswith(found)
    assert expected in error.expected


def test_the_charge_does_not_depend_on_prices() -> None:
    """Level times hours over hide, whatever the bound is."""
    for bound in ("0.3", "2"):
        table = f"[window.weights]\nbound = {bound}\n{ROW}"
        terms = config.terms(config.parse(text_of_prices(prices=table, length="1d")).stream[0])
        assert terms.epsilon_per_w == Fraction(24, 110)
        assert terms.sd / float(terms.radius) == pytest.approx(2**0.5, rel=0.001)


@pytest.mark.parametrize(
    ("topic", "url", "accepted"),
    [
        ("other/m7", "127.0.0.1", False),
        ("records/m7", "127.0.0.1", False),
        ("records/m7/privacy", "127.0.0.1", False),
        ("records/m7/total", "127.0.0.1", False),
        ("agent/status", "127.0.0.1", False),
        ("prices/day-ahead", "127.0.0.1", True),
        ("records/m7", "utility.example", True),
        ("agent/status", "utility.example", True),
        ("other/m7", "utility.example", False),
    ],
)
def test_prices_come_on_a_topic_that_no_stream_uses(topic: str, url: str, accepted: bool) -> None:
    """What any stream reads, releases or reports on the broker of the prices is refused."""
    weights = f"{{ bound = 1, topic = '{topic}' }}"
    one = f"'private/1/{{meter}}'\n[stream.window]\nlength = '24h'\nweights = {weights}"
    two = f"'records/{{meter}}'\nstatus = 'agent/status'\nurl = 'mqtt://{url}'"
    tables = ("one", "a/{meter}", one), ("two", "other/{meter}", two)
    for number, text in enumerate((streams(*tables), streams(*reversed(tables)))):
        if accepted:
            assert len(config.parse(text).stream) == 2
            continue
        error = refused(parse(text))
        assert error.key == f"stream[{number}].window.weights.topic"
        assert "public prices" in error.expected
