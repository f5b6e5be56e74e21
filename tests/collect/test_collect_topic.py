"""Which topics hold a stream's records and which its descriptors."""

import pytest

from meteragent.collect.topic import Place, Role, StreamTopic

STREAM = StreamTopic.parse("main", "private/{meter}/power")
RECORD, DESCRIPTOR = Place("main", "m1", Role.RECORD), Place("main", "m1", Role.DESCRIPTOR)


@pytest.mark.parametrize(
    ("topic", "place"),
    [
        ("private/m1/power", RECORD),
        ("private/m1/power/privacy", DESCRIPTOR),
        ("private/m1/power/privacy/0a1b", DESCRIPTOR),
        ("private/m1/power/privacyX", None),
        ("private/m1/power/privacy/0a1b/c", None),
        ("private/m1/powerX/privacy", None),
        ("private/m1", None),
    ],
)
def test_the_place_of_a_topic(topic: str, place: Place | None) -> None:
    """Descriptors are at `privacy` below the records' topic, or one level deeper."""
    assert STREAM.place_of(topic) == place
