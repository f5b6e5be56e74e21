"""The errors that `check` promises for nested streams once a receiver has combined them."""

import functools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from meteragent import config
from meteragent.cli import main
from meteragent.consume import Series, collect, nested
from meteragent.core.noise import Noise
from meteragent.domain.grid import parse_time
from meteragent.domain.units import DAY_MS, HOUR_MS
from meteragent.privacy import SeededBits
from meteragent.report import whole
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.support.configurations import streams, written
from tests.support.windows import window_of

MONDAY_MS = parse_time("2026-06-01T00:00:00Z")
WEEKS = 400
SHARES = "shares = { '6h' = 0.5, '1d' = 0.3, '1w' = 0.2 }"
SE = 4.9
"""A normal number is further off than this many standard errors with a chance of 1e-6."""


@functools.cache
def settings() -> config.Config:
    """Nested streams whose weeks and days are those of UTC."""
    return config.parse(written(privacy=SHARES, window="timezone = 'UTC'"))


@functools.cache
def released() -> tuple[Series, ...]:
    """Return what leaves of a load of 0 W: the noise of the product's windows, in all three streams."""
    series = []
    for place, stream in enumerate(settings().stream):
        schedule, noise = config.schedule(stream), Noise(SeededBits(place))
        messages, at_ms = list[bytes](), MONDAY_MS
        while at_ms < MONDAY_MS + 7 * WEEKS * DAY_MS:
            terms = schedule.terms_at(at_ms)
            window = window_of(terms)(at_ms, terms, terms.id, (), "m1")
            window.open_first_slot(noise, at_ms)
            described = describe_terms(terms)
            if not messages:
                messages.append(described.encode_message("m1", at_ms))
            messages.append(RecordFormat.of(described).encode("m1", at_ms, 0, window.close_slot(0)))
            at_ms = window.end_ms
        series.append(collect(messages)["m1"])
    return tuple(series)


def promised(place: int) -> tuple[float, float]:
    """Return the standard deviation and the half width of 95% that `check` states, in kWh."""
    stream = settings().stream[place]
    errors = whole.compute_whole_guarantee(settings(), stream).errors
    kwh = 1.0 if errors["combined"].unit == "kWh" else 6 / 1000
    return errors["combined"].value * kwh, errors["combined_ci95"].value * kwh


def independent(values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return the first value of each week: those of two weeks are independent."""
    return values[:: len(values) // size]


@pytest.mark.parametrize("place", range(3))
def test_the_combined_error_is_that_promised(place: int) -> None:
    """Of a week, its first day and its first hours: the mean square, and 95% inside, over 400 weeks."""
    result = nested(*released())[place]
    hours = (result.end_ms - result.time_ms) / HOUR_MS
    errors = independent(result.values * hours / 1000, WEEKS)
    sd, half = promised(place)
    squares = errors**2
    assert len(errors) == WEEKS
    assert abs(float(errors.mean())) < SE * sd / math.sqrt(WEEKS)
    assert abs(float(squares.mean()) - sd**2) < SE * float(squares.std()) / math.sqrt(WEEKS)
    assert float(result.sd[0] * hours[0]) / 1000 == pytest.approx(sd, rel=1e-3)
    inside = float(np.mean(np.abs(errors) <= half))
    assert abs(inside - 0.95) < SE * math.sqrt(0.95 * 0.05 / WEEKS)


def test_every_stream_gains_by_the_others() -> None:
    """The combined error is below that of the stream alone; a stream by itself has no combined error."""
    for stream in settings().stream:
        terms = config.terms(stream)
        alone_kwh = terms.sd * terms.length_ms / HOUR_MS / 1000
        assert promised(settings().stream.index(stream))[0] < alone_kwh
    alone = config.parse(written())
    assert whole.nested_path(alone, alone.stream[0]) == ()
    assert "combined" not in whole.compute_whole_guarantee(alone, alone.stream[0]).errors


def test_only_streams_of_one_table_are_combined() -> None:
    """Two tables with the same lengths share nothing."""
    two = config.parse(streams(("one", "a/{meter}", "'x/{meter}'"), ("two", "b/{meter}", "'y/{meter}'")))
    assert [whole.nested_path(two, stream) for stream in two.stream] == [(), ()]
    assert two.nested_with(two.stream[1]) == (two.stream[1],)


def test_check_states_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A day is off by 0.7 instead of 2.1 kWh and a month by 1.4 instead of 1.6, in words and as JSON."""
    path = tmp_path / "home.toml"
    shares = "shares = { '30min' = 0.7, '1d' = 0.2, '1mo' = 0.1 }"
    path.write_text(written(privacy=shares, window="timezone = 'Europe/Amsterdam'", source="every = '10s'"))
    main(["check", str(path), "--json"])
    facts = [stream["errors"] for stream in json.loads(capsys.readouterr().out)["streams"]]
    assert [errors["combined"] for errors in facts] == pytest.approx([441, 0.69, 1.44], rel=0.01)
    main(["check", str(path)])
    text = capsys.readouterr().out
    assert text.count("one number, combined") == 3
    main(["check", str(path), "--statement"])
    assert "one number, combined" in capsys.readouterr().out
