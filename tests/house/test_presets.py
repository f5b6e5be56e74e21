"""Presets have one home, `meteragent.domain.presets`; whatever lists them by name lists these."""

import re
from pathlib import Path

from meteragent import config
from meteragent.cli.usage import meters
from meteragent.domain.presets import PRESETS
from meteragent.domain.shapes import Space
from meteragent.texts import english_texts
from simulators.commands import arguments
from tests.commands import presets_table
from tests.support.generated import assert_renewed

ROOT = Path(__file__).resolve().parents[2]
ADDON = ROOT / "deploy/homeassistant/addon/meteragent"
PLAIN = [name for name, preset in PRESETS.items() if preset.space is Space.LINF and preset.blocks == 1]


def names_in(text: str) -> list[str]:
    """Return the presets that a text names, in their order in the text."""
    return [word for word in re.findall(r"[a-z]+(?:-[a-z]+)?", text) if word in PRESETS]


def test_init_offers_the_presets_that_are_means_of_equal_slots() -> None:
    """It has words for each of them, and its help names them."""
    assert [*english_texts("hides.")] == PLAIN
    groups = meters.COMMANDS["init"].groups.values()
    [text] = [item[1]["help"] for group in groups for item in group if item[0] == "--preset"]
    assert names_in(text) == PLAIN


def test_the_example_configuration_names_all_presets() -> None:
    """The comment beside its preset lists the others, with those that need a time zone after the rest."""
    [line] = [
        line for line in (ROOT / "deploy/meteragent.toml").read_text().splitlines() if line[:8] == "preset ="
    ]
    names = names_in(line.partition("#")[2])
    assert sorted(names) == sorted(PRESETS)
    assert [name for name in names if PRESETS[name].has_calendar] == names[-5:]


def test_the_add_on_explains_the_presets_that_it_offers() -> None:
    """Its settings and its documentation name those that need no further keys, in the same order."""
    text = (ADDON / "translations/en.yaml").read_text()
    names = names_in(text.partition("name: What to share")[2].partition("What each hides")[0])
    assert list(dict.fromkeys(names)) == list(config.FULL_PRESETS)
    rows = re.findall(r"^\| `([a-z-]+)` \|", (ADDON / "DOCS.md").read_text(), re.MULTILINE)
    assert rows == list(config.FULL_PRESETS)


def test_the_simulators_play_the_presets_of_a_day() -> None:
    """Windows longer than a day are left out, and so is whatever is no mean of equal slots."""
    assert set(arguments.WITHIN_A_DAY) < set(PLAIN)
    assert {"bill"} == set(PLAIN) - set(arguments.WITHIN_A_DAY)


def test_the_table_of_meters_is_the_generated_one() -> None:
    """It says of each profile which presets its readings are fine enough for."""
    assert_renewed(presets_table.PAGE, presets_table.renewed(presets_table.PAGE.read_text("utf-8")))
