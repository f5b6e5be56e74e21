"""Which meters are fine enough for a setting, as `check` judges them."""

import json

import pytest

from meteragent import config
from meteragent.cli import main
from meteragent.decode.profiles import PROFILES
from meteragent.domain.units import Kind
from meteragent.report.plan.meters import judge_meters

SETTING = 'sink.topic = "private/{{meter}}"\nprivacy.preset = "{}"\n'
ZONE = 'window.timezone = "Europe/Brussels"\n'


def source(profile: str, kind: Kind, unit: str) -> str:
    """Return a source of this profile."""
    keys = {"topic": "m/p", "meter": "home", "profile": profile, "kind": kind, "unit": unit}
    return "".join(f'source.{key} = "{value}"\n' for key, value in keys.items())


@pytest.mark.parametrize(
    ("preset", "fine", "coarse"),
    [
        ("television", "shelly-gen2-em1", "dsmr-p1"),
        ("appliance", "shelly-gen2-em", "tasmota-sml"),
        ("day", "dsmr-p1", "shelly-gen2-em"),
        ("bill", "tasmota-sml", "shelly-gen2-em"),
    ],
)
def test_the_verdict_is_that_of_a_configuration(preset: str, fine: str, coarse: str) -> None:
    """A fine meter's configuration is accepted, and that of a coarse one is refused."""
    setting = SETTING.format(preset) + (ZONE if preset in {"day", "bill"} else "")
    power = judge_meters(setting)[Kind.POWER]
    assert fine in power["fine"]
    assert coarse in power["coarse"]
    assert config.parse_or_none(source(fine, Kind.POWER, "W") + setting) is not None
    assert config.parse_or_none(source(coarse, Kind.POWER, "W") + setting) is None


def test_each_profile_is_judged_once_for_each_kind() -> None:
    """Profiles with the same period, dead band or step have the same verdict, and none is left out."""
    for kind, names_by_verdict in judge_meters(SETTING.format("appliance")).items():
        names = [name for names in names_by_verdict.values() for name in names]
        quantities = {name: profile.find_quantity(kind, None) for name, profile in PROFILES.items()}
        assert sorted(names) == sorted(
            name for name, found in quantities.items() if found and not found.is_count
        )


def test_plan_names_the_meters_that_may_have_its_setting(capsys: pytest.CaptureFixture[str]) -> None:
    """In words and as JSON: a Shelly's power is too coarse for a day, but its register is not."""
    arguments = ["plan", "--hide", "0.3kWh", "--share", "day"]
    assert main(arguments) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "power, too coarse: shelly-gen2-em, shelly-gen2-em1," in text
    assert "energy from a register, fine enough: shelly-gen2-em," in text
    assert main([*arguments, "--json"]) == 0
    meters = json.loads(capsys.readouterr().out)["meters"]
    assert "shelly-gen2-em" in meters["power"]["coarse"]
    assert "shelly-gen2-em" in meters["register"]["fine"]
