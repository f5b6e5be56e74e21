"""The rows of the kinds of windows: each room that says something of a kind says it of all, once."""

import pytest

from meteragent import config
from meteragent.config.model import Window
from meteragent.config.shapes import FULL_PRESETS, OWN_KEYS, SLOT_KEYS
from meteragent.config.shapes import ROWS as CONFIG_ROWS
from meteragent.domain.presets import PRESETS
from meteragent.domain.shapes import SHAPES, Space
from meteragent.report.shapes import ROWS as REPORT_ROWS
from meteragent.wire.shapes import ROWS as WIRE_ROWS
from tests.support.configurations import refused, written

MONTHS = "length = '1mo'\ntimezone = 'UTC'\n"


@pytest.mark.parametrize("rows", [SHAPES, CONFIG_ROWS, WIRE_ROWS, REPORT_ROWS])
def test_no_kind_of_window_lacks_a_row(rows: dict[Space, object]) -> None:
    """Domain, configuration, messages and reports each have one row for each name of a kind."""
    assert set(rows) == set(Space)


@pytest.mark.parametrize("space", Space)
def test_a_row_speaks_of_keys_that_exist(space: Space) -> None:
    """Keys of its own, the one that implies the kind, and excluded ones are keys of `[window]`."""
    row = CONFIG_ROWS[space]
    assert {*row.own_keys, *row.excludes} <= Window.model_fields.keys()
    assert row.excludes.keys() <= {"step", "blocks"}
    assert row.implied_by is None or row.own_keys[row.implied_by] is not None
    assert row.rules is None or row.hours.partition(".")[0] in row.own_keys
    assert bool(row.readings) == (len(SHAPES[space].kinds) < 3)


def test_each_key_of_windows_and_slots_is_known_as_one() -> None:
    """A new key of `[window]` either belongs to kinds of windows, or has a meaning for all of them."""
    for_all = {"timezone", "lateness", "clock", "ahead", "gap", "range", "forget", "catch_up"}
    assert set(SLOT_KEYS) == set(Window.model_fields) - for_all
    assert set(OWN_KEYS) == set(SLOT_KEYS) - {"length", "step", "blocks"}


def test_a_share_is_chosen_by_its_group_and_not_by_its_name() -> None:
    """Nobody can ask for the shares of a group without the group; other words are named instead."""
    error = refused(lambda: config.parse(written(privacy="space = 'share'")))
    assert (error.key, error.found) == ("privacy.space", "'share'")
    assert "share" not in error.expected
    near = refused(lambda: config.parse(written(privacy="space = 'profil'")))
    assert near.meant == "'profile'"


def test_a_complete_preset_needs_no_key_but_a_time_zone() -> None:
    """Exactly the presets called complete are accepted with nothing else set."""
    for name, preset in PRESETS.items():
        zone = "timezone = 'UTC'" if preset.has_calendar else ""
        text = written(window=zone, privacy=f"preset = '{name}'", source="every = '1s'")
        if name in FULL_PRESETS or preset.slots > 1:
            [stream] = config.parse(text).stream
            assert config.terms(stream).preset == name
            assert config.terms(stream).shape.space is preset.space
        else:
            assert refused(lambda text=text: config.parse(text)).found == "nothing"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("sections", "key", "expected"),
    [
        ({"window": "blocks = 3"}, "window.blocks", "window.step = '15min' instead"),
        ({"window": "step = '2h'"}, "window.step", "a divisor of an hour"),
        ({"window": "length = '2h'", "zone": ""}, "window.length", "needs many parts"),
        ({"window": "bands = ['00-07']"}, "window.bands", "privacy.space = 'profile'"),
        ({"source": "every = '20min'"}, "source.every", "'15min' or less"),
        (
            {"source": "kind = 'interval_energy'\nunit = 'Wh'\ninterval = '1h'"},
            "source.interval",
            "hide the peak",
        ),
        (
            {
                "source": "kind = 'interval_energy'\nunit = 'Wh'\ninterval = '1s'",
                "window": "step = '1s'",
                "privacy": "quantum = 0.000001",
            },
            *("privacy.quantum", "a coarser quantum, such as 1 W"),
        ),
        ({"privacy": "hide = '9kWh'"}, "privacy.hide", "less: the peak would be within"),
        ({"privacy": "metric = 'l1'"}, "privacy.metric", "'linf', the default"),
        ({"sink": "total = true"}, "sink.total", "false: only energies and means"),
    ],
)
def test_what_makes_no_peak_is_refused(sections: dict[str, str], key: str, expected: str) -> None:
    """Windows are long, parts divide an hour and have readings, and the noise leaves something to see."""
    zone = sections.pop("zone", MONTHS)
    window, privacy = zone + sections.pop("window", ""), sections.pop("privacy", "")
    text = written(window=window, privacy=f"space = 'peak'\n{privacy}", **sections)
    error = refused(lambda: config.parse(text))
    assert error.key == key
    assert expected in error.expected


@pytest.mark.parametrize(
    ("space", "window"), [("peak", MONTHS), ("above", "threshold = 3000"), ("curve", "blocks = 3")]
)
def test_an_archive_takes_what_adds_up(space: str, window: str) -> None:
    """Peaks and energies above a threshold are refused beside `[archive]`; blocks of a curve are not."""
    text = written(window=window, privacy=f"space = '{space}'") + "[archive]\nkey_file = 'k'\n"
    if space == "curve":
        assert config.parse(text).archive is not None
        return
    error = refused(lambda: config.parse(text))
    assert (error.key, error.found) == ("privacy.space", f"'{space}' together with [archive]")
    assert "a space that archives support" in error.expected
