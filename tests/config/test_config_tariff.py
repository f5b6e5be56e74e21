"""Bands of energy in a configuration: what they must cover, what they are called, what excludes them."""

import pytest

from meteragent import config
from tests.support.configurations import energy, refused, written

DAY_BAND = """
[[window.band]]
name = "day"
days = "mon-fri"
hours = ["07:00/23:00"]
"""


def tariff(bands: str = DAY_BAND, *, window: str = "rest = 'night'", **sections: str) -> str:
    """A configuration of the preset `tariff`, with these bands."""
    sections = {
        "privacy": "preset = 'tariff'",
        "window": f"timezone = 'Europe/Amsterdam'\n{window}",
    } | sections
    return written(**sections) + bands


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        (tariff(""), "window.band", "[[window.band]] with name, days"),
        (tariff(window=""), "window.band", "a band for every hour of the week, or window.rest"),
        (tariff(DAY_BAND * 2), "window.band", "a different name for each"),
        (tariff(window="rest = 'day'"), "window.band", "a different name for each"),
        (tariff(DAY_BAND.replace("day", "unknown", 1)), "window.band", "another name"),
        (tariff(DAY_BAND.replace('"day"', '"a\\"b"')), "window.band[0].name", "letters, digits"),
        (tariff(DAY_BAND.replace("mon-fri", "weekdays")), "window.band[0].days", "days of the week such as"),
        (tariff(DAY_BAND.replace("07:00", "7")), "window.band[0].hours[0]", "hours of the local day"),
        (
            tariff(DAY_BAND + DAY_BAND.replace('"day"', '"late"').replace("07", "22")),
            "window.band",
            "not overlap",
        ),
        (tariff(window="rest = 'night'\nholidays = ['26-12-25']"), "window.holidays[0]", "a date such as"),
        (tariff(window="rest = 'night'\nblocks = 4"), "window.blocks", ": the bands are the slots"),
        (
            tariff(window="rest = 'night'\nlength = '7d'").replace("timezone = 'Europe/Amsterdam'\n", ""),
            "window.length",
            "'1mo', '1w' or '1d'",
        ),
        (tariff(source=energy("Wh", "24h")), "source.interval", "'1h' or less"),
        (tariff(privacy="preset = 'tariff'\nmetric = 'linf'"), "privacy.metric", "'l1', the default"),
        (written(privacy="metric = 'l1'"), "privacy.metric", "privacy.space = 'profile' or 'bands'"),
        (written(window="rest = 'night'"), "window.rest", "privacy.preset = 'tariff'"),
        (written(window="holidays = [2026-12-25]"), "window.holidays", "privacy.preset = 'tariff' or"),
        (tariff() + "[archive]\nkey_file = 'k'\n", "privacy.metric", "'linf'"),
    ],
)
def test_what_are_no_bands_of_a_tariff(text: str, key: str, expected: str) -> None:
    """Bands of energy cover each hour of the week once, have plain names, and belong to l1."""
    error = refused(lambda: config.parse(text))
    assert error.key == key
    assert expected in error.expected
