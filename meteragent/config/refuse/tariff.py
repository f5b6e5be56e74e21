"""Refusals for tariffs: repeated names, different currencies, and missing, unknown or unpriced bands."""

from collections.abc import Collection, Iterator, Sequence

from meteragent.config.model import Config, Tariff
from meteragent.config.refuse.check import GRID, Problems, depends, repeated
from meteragent.config.tariff import band_names
from meteragent.domain.errors import ConfigError
from meteragent.domain.lines import Path, path_of
from meteragent.domain.refusal import nearest
from meteragent.domain.shapes import UNKNOWN_BAND

_BANDS = tuple(map(path_of, (*GRID, "source.kind")))
"""Keys that determine the bands of a stream."""


def tariffs(
    config: Config, wrong_by_stream: Sequence[Collection[Path]], wrong_paths: Collection[Path]
) -> Problems:
    """Yield refusals of repeated names, of a second currency, and of missing, unknown or unpriced bands.

    `wrong_paths` holds the refused paths in the list of tariffs; if there are any, nothing is checked.
    `wrong_by_stream` holds the refused paths in each stream.
    """
    if wrong_paths:
        return
    for number in repeated(tariff.name for tariff in config.tariff):
        value, expected = repr(config.tariff[number].name), "a different name for each tariff"
        yield ConfigError(f"tariff[{number}].name", value, expected)
    for number, tariff in enumerate(config.tariff):
        if tariff.currency != config.tariff[0].currency:
            expected = f"{config.tariff[0].currency!r}, as in the first tariff, because costs are compared"
            yield ConfigError(f"tariff[{number}].currency", repr(tariff.currency), expected)
    if config.tariff and not any(
        depends(key, path) for key in _BANDS for wrong_keys in wrong_by_stream for path in wrong_keys
    ):
        yield from _bands(config)


def _bands(config: Config) -> Problems:
    """Yield refusals of tariffs without a stream that has bands, of unknown bands, and of missing prices."""
    by_stream = [bands for stream in config.stream if (bands := band_names(stream))]
    if not by_stream:
        expected = "a stream with privacy.preset = 'tariff': tariffs price its bands"
        yield ConfigError("tariff", "tariffs without bands", expected)
        return
    all_bands = list(dict.fromkeys(band for bands in by_stream for band in bands))
    for number, tariff in enumerate(config.tariff):
        unknown_bands = [band for band in tariff.prices if band not in all_bands]
        for band in unknown_bands:
            expected = f"one of {', '.join(map(repr, all_bands))}"
            key, meant = f"tariff[{number}].prices.{band}", nearest(band, all_bands)
            yield ConfigError(key, "a price", expected, meant=meant)
        unpriced_bands = min((list(_without_price(tariff, bands)) for bands in by_stream), key=len)
        if unpriced_bands and not unknown_bands:  # an unknown band may be the missing one, misspelt
            expected = "a price for each band of a stream"
            names = ", ".join(map(repr, unpriced_bands))
            yield ConfigError(f"tariff[{number}].prices", f"no price for {names}", expected)


def _without_price(tariff: Tariff, bands: Sequence[str]) -> Iterator[str]:
    """Yield the names of the bands that lack a price; the band for energy of unknown time needs none."""
    return (band for band in bands if band not in {*tariff.prices, UNKNOWN_BAND})
