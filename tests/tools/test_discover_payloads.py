"""`discover` on the corpus of payloads: each heard alone, and what may and must not be proposed for it."""

from fractions import Fraction

import pytest

from meteragent import config
from meteragent.config.source import profile_of
from meteragent.domain.units import MICRO, UNIT_FACTOR, Kind
from meteragent.tools.discover import Access, Findings, Listener, Offer, find_meters
from tests.support.payloads import Payload, payloads

ENTRIES = payloads()
ACCESS = Access("mqtt://127.0.0.1:1883")
UNITLESS = frozenset(
    [
        *("homeassistant-statestream", "esphome", "vzlogger", "sml2mqtt", "chirpstack"),
        *("chirpstack-v3", "ttn-v3"),
        *("rtl_433", "rtlamr", "rtlamr2mqtt", "emonhub", "emonhub-csv"),
    ]
)
"""Families some of whose messages do not state their unit, so that nothing is proposed."""


def heard(*entries: tuple[str, bytes]) -> Findings:
    """Return what is found when all of this is sent three times."""
    clock_ms = 0
    listener = Listener(lambda: clock_ms)
    for _ in range(3):
        for topic, content in entries:
            listener.on_message(topic, content, False)
        clock_ms += 10_000
    return find_meters(listener)


def is_stated(offer: Offer, payload: Payload) -> bool:
    """Return whether the manifest states what an offer reads, or does not mention the quantity."""
    source = config.parse(offer.to_toml(ACCESS)).stream[0].source
    device = profile_of(source)
    if device is not None and device.name == payload.profile:
        name = source.value or next(name for name, q in device.quantities.items() if q.kind is source.kind)
        return " " in payload.reads.get(name, " ")
    base = "W" if source.kind is Kind.POWER else "Wh"
    texts = [*payload.reads.values(), *payload.facts.get("offers", ())]
    stated = {Fraction(text.split()[0]) for text in texts if text.endswith(f" {base}")}
    readings = config.build_decoder(source)(payload.bytes)
    return all(Fraction(one.value_u * UNIT_FACTOR[source.unit], MICRO) in stated for one in readings)


@pytest.mark.parametrize("payload", ENTRIES, ids=str)
def test_no_offer_contradicts_the_manifest(payload: Payload) -> None:
    """By itself, a payload is offered as what it holds or not at all: never as what is refused in it."""
    offers = [one for proposal in heard((payload.topic, payload.bytes)).proposals for one in proposal.offers]
    assert [dict(offer.source) for offer in offers if not is_stated(offer, payload)] == []


@pytest.mark.parametrize(
    "payload",
    [one for one in ENTRIES if any(" " in text for text in one.reads.values())],
    ids=str,
)
def test_what_can_be_read_is_proposed_or_named(payload: Payload) -> None:
    """A payload with a number is proposed, or listed with the reason; it is never only called quiet."""
    found = heard((payload.topic, payload.bytes))
    assert found.proposals or found.unplaced
    if payload.profile not in UNITLESS and not payload.profile.endswith("-topics"):
        assert found.proposals


@pytest.mark.parametrize(
    "payload",
    [one for one in ENTRIES if set(one.reads.values()) == {"other"} and one.profile != "tasmota"],
    ids=str,
)
def test_another_medium_is_not_proposed(payload: Payload) -> None:
    """Gas, water, heat and telegrams of another kind are proposed under no family and by no name."""
    assert not heard((payload.topic, payload.bytes)).proposals


@pytest.mark.parametrize(
    ("code", "kind"),
    [(b"1-0:16.7.0*255", "power"), (b"1-0:1.8.0", "register"), (b"1-0:2.8.0*255", "register")],
)
def test_a_channel_of_vzlogger_is_of_the_kind_of_its_code(code: bytes, kind: str) -> None:
    """With the OBIS code on ../id the kind is known, and only the unit is missing."""
    channel = "vzlogger/data/chn0"
    found = heard((f"{channel}/raw", b"244.300000"), (f"{channel}/id", code))
    [entry] = [entry for entry in found.unplaced if entry.topic == f"{channel}/raw"]
    assert entry.missing == ("unit",)
    assert entry.source["kind"] == kind
    assert f"of kind {kind}" in entry.reason
