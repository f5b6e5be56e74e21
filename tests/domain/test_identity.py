"""The template of a source: shared subscriptions and phases (meteragent.domain.identity)."""

import pytest

from meteragent.domain import identity


@pytest.mark.parametrize("text", ["$share/g/m/{meter}", "$queue/m/{meter}"])
def test_a_shared_subscription_is_refused(text: str) -> None:
    """It splits a meter's window over agents, each of which would release its part."""
    with pytest.raises(ValueError, match=r"source\.shard"):
        identity.parse_source_template(text, is_named=False, is_phased=False)


def test_a_source_has_one_segment_of_phases() -> None:
    """Where phases are summed, and nowhere else."""
    assert identity.parse_source_template("m/{meter}/{phase}", is_named=False, is_phased=True) == (
        "m",
        "{meter}",
        "{phase}",
    )
    for text, phases in (
        ("m/{meter}", True),
        ("m/{meter}/{phase}", False),
        ("{phase}/{meter}/{phase}", True),
    ):
        with pytest.raises(ValueError, match="a topic with"):
            identity.parse_source_template(text, is_named=False, is_phased=phases)


def test_a_named_meter_has_no_place_in_the_topic() -> None:
    """`source.meter` names it: the template is a plain topic, but for the place of a phase."""
    assert identity.parse_source_template("m/{phase}", is_named=True, is_phased=True) == ("m", "{phase}")
    for text in ("m/{meter}", "m/{other}", "m/a{b"):
        with pytest.raises(ValueError, match=r"without \{meter\}"):
            identity.parse_source_template(text, is_named=True, is_phased=False)
