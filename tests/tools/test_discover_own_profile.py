"""`discover` recognises the devices of a user's own profiles."""

from pathlib import Path

from meteragent import config
from meteragent.tools.discover import Access, Listener, find_meters

PROFILE = """
name = "cellar-meter"
title = "the meter in the cellar"
topics = ["cellar/{meter}/now"]
time = "arrival"
every = "10s"
period = "10s"
hold = "5min"
dead_band = 0

[match]
medium = "electricity"

[[source]]
address = "https://example.com"
date = "2026-11-23"
facts = "captured"

[quantity.power]
kind = "power"
unit = "kW"
value = "x1"
direction = "import"
"""


def heard() -> Listener:
    """Return a listener that has heard the device, whose field names and topics reveal nothing."""
    listener = Listener(lambda: 0)
    for number in (0.412, 0.733):
        message = f'{{"medium":"electricity","x1":{number}}}'
        listener.on_message("cellar/m1/now", message.encode(), False)
    return listener


def test_a_user_profile_is_recognised(tmp_path: Path) -> None:
    """A device that only a file in `profiles` describes is proposed with its kind, in W."""
    (tmp_path / "cellar-meter.toml").write_text(PROFILE)
    (proposal,) = find_meters(heard(), config.all_profiles(tmp_path)).proposals
    offer = proposal.offers[0]
    assert proposal.title == "the meter in the cellar"
    assert (offer.kind, offer.unit, offer.source["profile"]) == ("power", "W", "cellar-meter")
    assert 'preset = "appliance"' in offer.to_toml(Access("mqtt://127.0.0.1:1883"))


def test_without_the_profile_nothing_is_proposed() -> None:
    """The same messages are not proposed if no profile describes them."""
    assert not find_meters(heard()).proposals
