"""The configuration of what leaves beside records: status and Home Assistant."""

import pytest

from meteragent import config
from tests.support.configurations import refused, streams, written

HOME = "status = 'agent/status'\nhome_assistant = 'homeassistant'"


def test_a_status_and_home_assistant_may_be_asked_for() -> None:
    """Both keys; a status stands alone too."""
    sink = config.parse(written(sink=HOME)).stream[0].sink
    assert (sink.status, sink.home_assistant) == ("agent/status", "homeassistant")
    assert config.parse(written(sink="status = 'agent/status'")).stream[0].sink.home_assistant is None


@pytest.mark.parametrize(
    ("sink", "key", "expected"),
    [
        ("home_assistant = 'homeassistant'", "sink.status", "a topic such as 'meteragent/status'"),
        (HOME.replace("agent/", "homeassistant/"), "sink.status", "announces its own start"),
        ("status = 'private/agent/power'", "sink.status", "no reading and no record uses"),
        ("status = 'private/agent/power/privacy'", "sink.status", "no reading and no record uses"),
        ("status = 'meters/agent/power'", "sink.status", "no reading and no record uses"),
    ],
)
def test_what_home_assistant_or_others_could_not_read_is_refused(sink: str, key: str, expected: str) -> None:
    """Without a status topic there is no availability; a status topic has no readings or records."""
    error = refused(lambda: config.parse(written(sink=sink)))
    assert error.key == key
    assert expected in error.expected


@pytest.mark.parametrize(("url", "accepted"), [("127.0.0.1", False), ("utility.example", True)])
def test_each_connection_has_a_status_of_its_own(url: str, accepted: bool) -> None:
    """Two streams with one status topic on one broker are refused: each would contradict the other's."""
    one, two = (f"'private/{n}/{{meter}}'\nstatus = 'agent/status'" for n in (1, 2))
    text = streams(("one", "a/{meter}", one), ("two", "b/{meter}", f"{two}\nurl = 'mqtt://{url}'"))
    if accepted:
        assert len(config.parse(text).stream) == 2
    else:
        error = refused(lambda: config.parse(text))
        assert error.key == "stream[1].sink.status"
        assert "'agent/status/two'" in error.expected
