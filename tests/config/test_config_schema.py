"""The JSON Schema of the configuration: what the models accept is valid by it, and it knows every key."""

import json
import re
import tomllib
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from meteragent import config
from meteragent.cli import main
from meteragent.config import model
from meteragent.config.schema import file_schema
from meteragent.config.source import FORMATS
from meteragent.decode.profiles import PROFILES
from meteragent.domain.errors import ConfigError
from tests.config.test_config_refuse import REFUSED
from tests.support.configurations import BUDGET, energy, streams, written
from tests.support.generated import assert_renewed
from tests.support.not_run import ROOT
from tests.support.tariffs import text_of_bands
from tests.support.weighted import text_of_prices

SCHEMA = file_schema()
VALID = Draft202012Validator(SCHEMA)
TABLES: dict[str, type[BaseModel]] = {
    one.__name__: one
    for one in (
        model.Source,
        model.Window,
        model.Privacy,
        model.Sink,
        model.Store,
        model.Page,
        model.Tariff,
        model.TariffBand,
        model.Weights,
        model.PriceHours,
        model.Archive,
        model.Budget,
    )
}
MONTH = "length = '1mo'\ntimezone = 'UTC'"
ACCEPTED = {
    "the least": written(),
    "energies": written(source=energy("Wh")),
    "the calendar": written(window=MONTH, privacy="preset = 'bill'"),
    "a mean day": written(window=f"{MONTH}\nbands = ['00-07', '07:30-22']", privacy="space = 'profile'"),
    "numbers of all kinds": written(privacy="level = 0.5\nhide = '0.11kWh'\nquantum = '1/2'"),
    "a budget": written(privacy=BUDGET % (48, "24h")),
    "streams": streams(("one", "m/{meter}", "'a/{meter}'"), ("two", "n/{meter}", "'b/{meter}'")),
    "an archive": written() + "[archive]\nkey_file = 'archive.key'\nvalue = 'kwh'\n",
    "a page": written() + "[page]\nlisten = '[::1]:80'\n",
    "tariffs": text_of_bands(
        more="[[tariff]]\nname = 'a'\nprices = { day = 0.3, weekend = '1/3', night = 0 }\n"
    ),
    "amounts": text_of_prices().replace("holidays = [2026-12-25]\n", ""),
    "the reference": (ROOT / "deploy" / "meteragent.toml").read_text(),
}
WRONG_BY_FORM = (
    "kind",
    "unit",
    "inflight 0",
    "inflight text",
    "hold without unit",
    "hold 1.5 h",
    "payload",
    "source typo",
    "clock",
)


def document(text: str) -> Any:
    """A file as JSON has it."""
    return json.loads(json.dumps(tomllib.loads(text)))


@pytest.mark.parametrize("what", ACCEPTED)
def test_what_the_models_accept_is_valid(what: str) -> None:
    """A configuration that is accepted is valid by the schema."""
    config.parse(ACCEPTED[what])
    assert [error.message for error in VALID.iter_errors(document(ACCEPTED[what]))] == []


@pytest.mark.parametrize("what", WRONG_BY_FORM)
def test_what_is_wrong_by_form_is_not_valid(what: str) -> None:
    """An unknown key, a number without its unit, a word that is none of the list: the schema says so too."""
    keys, key, *_ = REFUSED[what]
    assert not VALID.is_valid(document(written(**{key.partition(".")[0]: keys})))


def test_a_profile_is_one_of_the_list_or_a_name_of_ones_own() -> None:
    """Editors offer formats and devices; any other name that a file of one's own may have is valid too."""
    offered, own = SCHEMA["$defs"]["Source"]["properties"]["profile"]["anyOf"]
    assert offered["enum"] == [*FORMATS, *PROFILES]
    for name, is_valid in (("my-meter", True), ("Shelly Pro", False), ("../json", False), ("", False)):
        text = written(source=f"profile = {name!r}")
        assert VALID.is_valid(document(text)) is is_valid
        assert bool(re.search(own["pattern"], name)) is is_valid


def test_the_schema_knows_every_key() -> None:
    """Each key of each table is in the schema with a sentence on what it is, and no other."""
    for name, table in TABLES.items():
        shown = SCHEMA["$defs"][name]["properties"]
        assert set(shown) == set(table.model_fields)
        assert [key for key, told in shown.items() if not told.get("description", "").endswith(".")] == []
        assert SCHEMA["$defs"][name]["additionalProperties"] is False


def test_defaults_are_as_people_write_them() -> None:
    """A default in the schema, written into a file, changes nothing."""
    plain = config.parse(written())
    for section in ("source", "window", "privacy", "sink", "store"):
        keys = SCHEMA["$defs"][section.title()]["properties"]
        defaults = {name: key["default"] for name, key in keys.items() if "default" in key}
        assert defaults
        lines = "\n".join(f"{name} = {json.dumps(default)}" for name, default in defaults.items())
        assert config.parse(written(**{section: lines})) == plain


texts = st.text(st.sampled_from("0123456789 .-/_eEminshdwokKBWi"), max_size=8)


@given(
    st.sampled_from(["source.hold", "source.scale", "source.max_payload", "privacy.hide", "window.length"]),
    st.one_of(texts, st.integers(-5, 10**6), st.decimals(-9, 10**6, places=3), st.booleans()),
)
def test_whatever_the_models_accept_is_valid(place: str, value: str | int | Decimal) -> None:
    """No value of a key is accepted by the models and refused by the schema."""
    section, key = place.split(".")
    shown = json.dumps(value) if isinstance(value, (str, bool)) else str(value)
    text = written(**{section: f"{key} = {shown}"})
    try:
        config.parse(text)
    except ConfigError:
        return
    assert VALID.is_valid(document(text))


def test_the_schema_is_sound_and_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    """It is a schema of its draft; the command prints it, and deploy/ has the same."""
    Draft202012Validator.check_schema(SCHEMA)
    assert main(["schema"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed) == SCHEMA
    assert_renewed(ROOT / "deploy" / "meteragent.schema.json", printed)
