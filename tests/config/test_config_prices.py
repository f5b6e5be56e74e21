"""Tariffs in a configuration: prices of bands that a stream has, and every error at once with its line."""

from pathlib import Path

import pytest

from meteragent import config
from meteragent.config.tariff import band_names
from meteragent.domain.tariff import Tariff
from tests.support.configurations import refused, written
from tests.support.tariffs import REGISTER, text_of_bands

FLAT = "[[tariff]]\nname = 'flat'\nprices = { day = 0.3, weekend = 0.3, night = 0.3 }\nfee = 9.5\n"
NIGHT = "[[tariff]]\nname = 'night'\nprices = { day = 0.34, weekend = 0.34, night = 0.22 }\n"


def test_tariffs_are_read() -> None:
    """Prices by band, a fee or none, EUR or another currency, in the order of the file."""
    settings = config.parse(text_of_bands(more=FLAT + NIGHT))
    assert config.tariffs_of(settings, settings.stream[0]) == (
        Tariff("flat", {"day": 0.3, "weekend": 0.3, "night": 0.3}, 9.5, "EUR"),
        Tariff("night", {"day": 0.34, "weekend": 0.34, "night": 0.22}),
    )
    swiss = config.parse(text_of_bands(more=f"{FLAT}currency = 'CHF'\n"))
    assert config.tariffs_of(swiss, swiss.stream[0])[0].currency == "CHF"


def test_a_tariff_belongs_to_streams_whose_bands_it_prices() -> None:
    """Of two streams with bands, each has the tariffs that price all of its own."""
    text = ""
    for name, band in (("one", "day"), ("two", "peak")):
        text += (
            f"[[stream]]\nname = '{name}'\n"
            f"source = {{ topic = '{name}/{{meter}}', kind = 'power', unit = 'W' }}\n"
            f"sink = {{ topic = 'private/{name}/{{meter}}' }}\nprivacy = {{ preset = 'tariff' }}\n"
            "[stream.window]\ntimezone = 'UTC'\nrest = 'night'\n"
            f"band = [{{ name = '{band}', hours = ['07/23'] }}]\n"
        )
    text += "[[tariff]]\nname = 'a'\nprices = { day = 1, night = 2 }\n"
    text += "[[tariff]]\nname = 'b'\nprices = { peak = 1, day = 1, night = 2 }\n"
    settings = config.parse(text)
    names = [[tariff.name for tariff in config.tariffs_of(settings, stream)] for stream in settings.stream]
    assert names == [["a", "b"], ["b"]]


@pytest.mark.parametrize(
    ("tariffs", "key", "expected"),
    [
        (FLAT + FLAT, "tariff[1].name", "a different name for each tariff"),
        (FLAT + NIGHT + "currency = 'CHF'\n", "tariff[1].currency", "'EUR', as in the first tariff"),
        (FLAT.replace("weekend", "wekend"), "tariff[0].prices.wekend", "'day', 'night', 'weekend'"),
        (FLAT.replace("weekend", "unknown"), "tariff[0].prices.unknown", "'day', 'night', 'weekend'"),
        (FLAT.replace("weekend = 0.3, ", ""), "tariff[0].prices", "a price for each band"),
        (FLAT.replace("9.5", "-1"), "tariff[0].fee", "greater than or equal to 0"),
        (FLAT.replace("= 0.3,", "= 'x',", 1), "tariff[0].prices.day", "a finite number"),
        (FLAT + "currency = 'euro'\n", "tariff[0].currency", "three capital letters"),
        (FLAT.replace("name = 'flat'\n", ""), "tariff[0].name", "the tariff's name"),
        ("[[tariff]]\nname = 'x'\nprices = {}\n", "tariff[0].prices", "at least 1 value"),
        (FLAT + "price = 1\n", "tariff[0].price", "prices"),
    ],
)
def test_tariffs_that_no_stream_can_use_are_refused(tariffs: str, key: str, expected: str) -> None:
    """Each refusal has the key, what is expected, and the line of the key."""
    text = text_of_bands(more=tariffs)
    error = refused(lambda: config.parse(text))
    assert error.key == key
    assert expected in error.expected
    assert error.line is not None
    name = key.rpartition(".")[2].removesuffix("[0]")
    assert name in text.splitlines()[error.line - 1] or name == "name"


def test_all_errors_of_tariffs_are_told_at_once(tmp_path: Path) -> None:
    """Also beside errors of the stream; consequences of those are not."""
    text = text_of_bands(
        more=FLAT.replace("weekend", "wekend") + FLAT.replace("flat", "two").replace("day =", "dya =")
    )
    errors = refused(lambda: config.parse(text)).errors
    assert [error.key for error in errors] == ["tariff[0].prices.wekend", "tariff[1].prices.dya"]
    assert [error.meant for error in errors] == ["'weekend'", "'day'"]
    file = tmp_path / "home.toml"
    file.write_text(text.replace("rest = 'night'", "rest = 'night'\nfrob = 1"))
    lines = refused(lambda: config.load(file))
    assert [error.key for error in lines.errors] == [
        "window.frob",
        "tariff[0].prices.wekend",
        "tariff[1].prices.dya",
    ]
    broken = text_of_bands(more=FLAT).replace('hours = ["07:00/23:00"]', "hours = ['x']", 1)
    assert refused(lambda: config.parse(broken)).key == "window.band[0].hours[0]"


def test_tariffs_need_bands() -> None:
    """Without a stream of bands there is nothing to price; of a register, unknown energy may have a price."""
    error = refused(lambda: config.parse(written() + FLAT))
    assert (error.key, "privacy.preset = 'tariff'" in error.expected) == ("tariff", True)
    priced = FLAT.replace("night = 0.3", "night = 0.3, unknown = 0.4")
    settings = config.parse(text_of_bands(source=REGISTER, more=priced))
    assert config.tariffs_of(settings, settings.stream[0])[0].price_range("unknown") == (0.4, 0.4)


def test_a_misspelt_key_of_a_band_is_named_once() -> None:
    """A key that is missing because its name is misspelt is refused under the name in the file."""
    text = text_of_bands().replace('hours = ["07:00/23:00"]\n[[', 'huors = ["07:00/23:00"]\n[[', 1)
    error = refused(lambda: config.parse(text))
    assert (error.key, error.meant) == ("window.band[0].huors", "hours")
    lacking = text_of_bands().replace('hours = ["07:00/23:00"]\n[[', "[[", 1)
    error = refused(lambda: config.parse(lacking))
    assert error.key == "window.band[0].hours"
    assert "23:00/07:00" in error.expected


@pytest.mark.parametrize(("length", "windows"), [("1mo", 1), ("1w", 4), ("1d", 30)])
def test_the_windows_of_a_month(length: str, windows: int) -> None:
    """A band counts in the windows in which it has hours: of 30 days from a Monday, 22 working days."""
    month = config.ordinary_month(config.parse(text_of_bands(length=length, source=REGISTER)).stream[0])
    assert month.windows == windows
    days = {"day": 22, "weekend": 8} if length == "1d" else dict.fromkeys(("day", "weekend"), windows)
    assert month.counts == {**days, "night": windows, "unknown": windows}


def test_a_band_without_hours_needs_no_price() -> None:
    """Where other bands cover the whole week, `window.rest` takes no hours."""
    text = text_of_bands(more=FLAT.replace(", night = 0.3", ""))
    assert refused(lambda: config.parse(text)).key == "tariff[0].prices"
    whole = text.replace("07:00/23:00", "00:00/24:00")
    settings = config.parse(whole)
    assert band_names(settings.stream[0]) == ("day", "weekend")
    assert len(config.tariffs_of(settings, settings.stream[0])) == 1
