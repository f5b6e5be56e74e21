"""Streams that count in the total of a group: what the group determines, and every refusal at once."""

import builtins
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from meteragent import config
from meteragent.domain.errors import ConfigError
from meteragent.domain.shapes import Share
from tests.support.crowd import group_text, make_group

FREE = "lateness = '10s'\ncatch_up = '1min'\nrange = [-5000, 18000]"

HOME = "meter = 'home-17'\nkind = 'power'\nunit = 'kW'"


def written(folder: Path, *, source: str = "", window: str = FREE, more: str = "", id_: str = "") -> str:
    """Return the configuration of a home of the group whose file is in a folder."""
    id_ = id_ or make_group().id.hex()
    return f"""
[source]
topic = "m/power"
{source or HOME}
[window]
{window}
[sink.crowd]
group = "{folder / "group.toml"}"
id = "{id_}"
{more}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the file of a group."""
    (tmp_path / "group.toml").write_text(group_text())
    return tmp_path


def refusals(text: str) -> dict[str, str]:
    """Return what is refused, by key."""
    with pytest.raises(ConfigError) as refusal:
        config.parse(text)
    return {error.key: f"{error.found}; {error.expected}" for error in refusal.value.errors}


def test_the_group_determines_windows_level_lattice_and_topic(folder: Path) -> None:
    """A home's terms are those of the group's file, whatever its unit."""
    [stream] = config.parse(written(folder)).stream
    terms = config.terms(stream)
    assert (terms.length_ms, terms.n, terms.level) == (1_800_000, 1, Fraction(1))
    assert (terms.value_unit, terms.radius, terms.quantum) == ("Wh", Fraction(110), Fraction(1, 2))
    assert terms.shape == Share(1_800_000, make_group().id.hex(), 1_200_000)
    assert stream.sink.topic == "crowd/elm-street/report/{meter}"
    assert config.schedule(stream).usual == terms


def test_levels_of_streams_add(folder: Path) -> None:
    """A group is one more stream of the meter, with a charge of its own for each day."""
    crowd = written(folder).replace("[source]", "[stream.source]").replace("[window]", "[stream.window]")
    crowd = crowd.replace("[sink.crowd]", "[stream.sink.crowd]")
    plain = (
        "[[stream]]\nname = 'plain'\nsource = { topic = 'm/power', meter = 'h', kind = 'power', unit = 'W' }"
    )
    text = f"{plain}\nsink = {{ topic = 'private/{{meter}}' }}\n[[stream]]\nname = 'crowd'\n{crowd}"
    configuration = config.parse(text)
    both = [config.other_charges_per_day(configuration, stream) for stream in configuration.stream]
    assert both == [config.terms(stream).epsilon_per_w_day for stream in reversed(configuration.stream)]
    assert all(both)


def test_everything_that_is_wrong_is_refused_at_once(folder: Path) -> None:
    """Keys that the group determines, keys of records, a late schedule, the range and the label."""
    text = written(
        folder,
        source="meter = 'home 17'\nkind = 'power'\nunit = 'W'",
        window="length = '1h'\nstep = '30min'\nclock = 'event'\ncatch_up = '1h'\nrange = [0, 30000]",
        more="[privacy]\nlevel = 2\nhide = '300Wh'",
        id_="0" * 64,
    ).replace("[sink.crowd]", "[sink]\nretain = true\ntopic = 'a/{meter}'\n[sink.crowd]")
    keys = refusals(text)
    assert keys.keys() == {
        *("window.length", "window.step", "window.clock", "window.range"),
        *("privacy.level", "privacy.hide", "source.meter"),
        *("sink.retain", "sink.topic", "sink.crowd.id", "sink.crowd.group"),
    }
    assert "level 1" in keys["privacy.level"]
    assert make_group().id.hex() in keys["sink.crowd.id"]
    assert "deadline_s = 1200" in keys["sink.crowd.group"]


@pytest.mark.parametrize(("catch_up", "fits"), [("18min 50s", True), ("18min 51s", False)])
def test_the_deadline_leaves_time_for_the_last_report(folder: Path, catch_up: str, fits: bool) -> None:
    """Lateness, spread and catch-up must have passed by the deadline, 20 minutes; here lateness is 10 s."""
    seconds = sum(
        int(part[:-3]) * 60 if part.endswith("min") else int(part[:-1]) for part in catch_up.split()
    )
    window = FREE.replace("catch_up = '1min'", f"catch_up = '{seconds}s'")
    text = written(folder, window=window).replace("[sink.crowd]", "[sink]\nspread = '1min'\n[sink.crowd]")
    if fits:
        assert config.parse(text).stream[0].group == make_group()
    else:
        assert refusals(text).keys() == {"sink.crowd.group"}


def test_a_file_that_is_no_group_is_refused_with_its_errors(folder: Path) -> None:
    """A missing file, and each error of a file, under the key that names it."""
    (folder / "group.toml").write_text(group_text(slot_s="7", level="-1"))
    text = written(folder, more="[privacy]\nlevel = 2")
    with pytest.raises(ConfigError) as refusal:
        config.parse(text)
    found = [error.found for error in refusal.value.errors if error.key == "sink.crowd.group"]
    assert [name for name in ("slot_s", "level") if any(f": {name}: " in text for text in found)] == [
        "slot_s",
        "level",
    ]
    assert "privacy.level" in {error.key for error in refusal.value.errors}
    (folder / "group.toml").unlink()
    assert refusals(written(folder)).keys() == {"sink.crowd.group"}


def test_an_interval_that_does_not_divide_the_quantum(folder: Path) -> None:
    """Half a Wh is no whole number of millionths of a kWh times 1.5 ms."""
    (folder / "group.toml").write_text(group_text(quantum_wh='"0.000001"', hide_wh="110"))
    id_ = make_group(quantum_wh='"0.000001"').id.hex()
    source = "meter = 'h'\nkind = 'interval_energy'\nunit = 'kWh'\ninterval = '{}'"
    assert refusals(written(folder, source=source.format("1500ms"), id_=id_)).keys() == {"source.interval"}
    assert config.parse(written(folder, source=source.format("2s"), id_=id_)).stream[0].group


def test_the_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `cryptography` 50 the configuration is refused by the name of its extra."""
    configuration = config.parse(written(folder))
    assert config.missing_extra_refusals(configuration) == []
    for name in [name for name in sys.modules if name.startswith(("meteragent.crowd.", "cryptography"))]:
        monkeypatch.delitem(sys.modules, name)
    real_import = builtins.__import__

    def without_hpke(name: str, *arguments: Any, **options: Any) -> Any:
        """Import everything but HPKE."""
        if name.startswith("cryptography.hazmat.primitives.hpke"):
            raise ModuleNotFoundError(name)
        return real_import(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_hpke)
    [refusal] = config.missing_extra_refusals(configuration)
    assert refusal.key == "sink.crowd"
    assert "extra 'crowd'" in refusal.found
    assert "crowd" in refusal.expected
