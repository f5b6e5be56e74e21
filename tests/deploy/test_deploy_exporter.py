"""The exporter on the receiving side: what it shows is what `meteragent.consume` says of what came.

Messages are made by `meteragent.wire.record`, as an agent makes them.
"""

import json
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from deploy.exporter import exporter
from deploy.exporter.exporter import Board, client
from meteragent import config
from meteragent.consume import collect, mean_value, message
from meteragent.domain.grid import parse_time
from meteragent.privacy import LInfLaplace, sd
from meteragent.wire.descriptor import describe_terms
from meteragent.wire.record import RecordFormat
from tests.support.configurations import written
from tests.support.messages import HALF_HOUR_MS, HOURLY, NOON_MS, changed, described, recorded
from tests.support.stores import TERMS

NOISE = LInfLaplace(TERMS.epsilon, 1, 1)
Labels = frozenset[tuple[str, str]]


def scraped(board: Board) -> dict[tuple[str, Labels], float]:
    """What Prometheus would read, by name and labels."""
    registry = CollectorRegistry()
    registry.register(board)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


def one(board: Board, name: str, **labels: str) -> float:
    """The one sample of a name that has these labels."""
    (actual,) = every(board, name, **labels)
    return actual


def every(board: Board, name: str, **labels: str) -> list[float]:
    """All samples of a name that have these labels, in the order of their labels."""
    rows = [
        (sorted(has), value)
        for (own, has), value in scraped(board).items()
        if own == name and labels.items() <= dict(has).items()
    ]
    return [value for _, value in sorted(rows)]


def fed(*homes: tuple[str, list[int]], first: int = 0, board: Board | None = None) -> Board:
    """A board that has been sent half hours of homes, from noon on."""
    board = board or Board()
    for meter, values in homes:
        board.take(f"private/{meter}/power/privacy", described(TERMS, meter))
        for record in recorded(TERMS, values, meter, first):
            board.take(f"private/{meter}/power", record)
    return board


def test_a_home_has_its_newest_value_and_its_error() -> None:
    """Value, 95% interval and standard deviation are those of the newest slot, by the law of the noise."""
    board = fed(("m1", [5, -320]), ("m2", [7, 8]))
    labels = {"topic": "private/+/power", "unit": "W", "slot": "30min", "meter": "m1", "band": ""}
    assert scraped(board)["meteragent_private_value", frozenset(labels.items())] == -320
    half = TERMS.half_width(0.95)
    assert one(board, "meteragent_private_value_low", meter="m1") == pytest.approx(-320 - half, rel=1e-3)
    assert one(board, "meteragent_private_value_high", meter="m1") == pytest.approx(-320 + half, rel=1e-3)
    assert one(board, "meteragent_private_value_sd", meter="m1") == pytest.approx(TERMS.sd, rel=1e-6)
    assert one(board, "meteragent_private_value", meter="m2") == 8
    end_ms = NOON_MS + 2 * HALF_HOUR_MS
    assert one(board, "meteragent_private_slot_end_seconds") == end_ms / 1000
    assert one(board, "meteragent_private_slot_seconds") == 1800


def test_the_mean_of_all_homes_has_its_own_error() -> None:
    """It is what `mean_value` says, the sharper the more homes there are, and their number is told."""
    homes = {f"m{number}": [10 * number] for number in range(30)}
    board = fed(*homes.items())
    messages = [
        message for m, v in homes.items() for message in (described(TERMS, m), *recorded(TERMS, v, m))
    ]
    wanted = mean_value(collect(messages).values(), NOON_MS)
    assert one(board, "meteragent_private_homes") == 30
    assert one(board, "meteragent_private_mean") == pytest.approx(145)
    assert one(board, "meteragent_private_mean_low") == pytest.approx(wanted.low)
    assert one(board, "meteragent_private_mean_high") == pytest.approx(wanted.high)
    assert one(board, "meteragent_private_mean_sd") == pytest.approx(sd(NOISE) / 30**0.5)


def test_the_mean_waits_until_as_many_have_arrived() -> None:
    """While a slot's records come in, the mean is that of the slot before; a home shows its newer one."""
    board = fed(("m1", [100]), ("m2", [200]))
    fed(("m1", [1000]), first=1, board=board)
    assert one(board, "meteragent_private_mean") == 150
    assert every(board, "meteragent_private_value") == [1000, 200]
    fed(("m2", [3000]), first=1, board=board)
    assert one(board, "meteragent_private_mean") == 2000


def test_who_is_silent_for_two_slots_is_no_longer_told() -> None:
    """A home that has left does not stay for ever with its last value."""
    board = fed(("m1", [1, 2, 3]), ("m2", [9]))
    assert every(board, "meteragent_private_value") == [3]
    assert one(board, "meteragent_private_mean") == 3


def test_other_slots_and_topics_are_other_streams() -> None:
    """Half hours and ten minutes, and what is on another topic, have means of their own."""
    board = fed(("m1", [100]))
    board.take("private/m2/power/privacy", described(HOURLY, "m2"))
    board.take("private/m2/power", recorded(HOURLY, [300], "m2")[0])
    board.take("other/m1/privacy/f00", described(TERMS, "m1"))
    board.take("other/m1", recorded(TERMS, [500], "m1")[0])
    assert every(board, "meteragent_private_mean", topic="other/+") == [500]
    assert every(board, "meteragent_private_mean", slot="30min", topic="private/+/power") == [100]
    assert every(board, "meteragent_private_mean", slot="10min") == [300]


def test_the_bands_of_a_mean_day_are_told_apart() -> None:
    """A home has a value for each band, and all homes a mean for each."""
    text = written(privacy="preset = 'typical-day'", window="timezone = 'UTC'")
    known = config.schedule(config.parse(text).stream[0])
    june_ms = parse_time("2026-06-01T00:00:00Z")
    shared, board = describe_terms(known.terms_at(june_ms)), Board()
    for meter, factor in (("m1", 1), ("m2", 3)):
        board.take(f"private/{meter}/privacy", shared.encode_message(meter, june_ms))
        for band in range(4):
            record = RecordFormat.of(shared).encode(meter, june_ms, band, 100 * (band + 1) * factor)
            board.take(f"private/{meter}", record)
    assert every(board, "meteragent_private_value", meter="m1", slot="1mo") == [1, 2, 3, 4]
    assert every(board, "meteragent_private_mean") == [2, 4, 6, 8]
    assert one(board, "meteragent_private_mean", band="06:00/12:00") == 4


def test_what_is_no_record_is_counted_and_not_shown() -> None:
    """Noise on the line, unknown or forged terms, and values off the lattice; a total is something else."""
    board = Board()
    (record,) = recorded(TERMS, [100], "m1")
    board.take("private/m1/power", record)  # its terms are not known yet
    board.take("private/m1/power/privacy", changed(described(TERMS, "m1"), level="2"))
    board.take("private/m1/power", b"\xff")
    board.take("private/m1/power", b"[]")
    assert one(board, "meteragent_exporter_refused_total") == 4
    board.take("private/m1/power/privacy", described(TERMS, "m1"))
    board.take("private/m1/power", changed(record, value=100.5))
    board.take("private/m1/power/total", json.dumps({"v": 1, "value": 5}).encode())
    assert one(board, "meteragent_exporter_refused_total") == 5
    assert one(board, "meteragent_exporter_messages_total") == 7
    assert not every(board, "meteragent_private_value")
    assert not every(board, "meteragent_private_mean")


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further homes, streams and descriptors are refused and counted; those that are there go on."""
    for name in ("HOMES", "STREAMS", "TERMS"):
        monkeypatch.setattr(exporter, name, 1)
    board = fed(("m1", [1]), ("m2", [2]))
    assert one(board, "meteragent_exporter_refused_total") == 1
    board.take("private/m2/power/privacy", described(replace(TERMS, lateness_ms=1), "m2"))
    board.take("private/m2/power/privacy", described(HOURLY, "m2"))
    board.take("more/m1", recorded(TERMS, [1], "m1")[0])
    assert one(board, "meteragent_exporter_refused_total") >= 3
    assert every(board, "meteragent_private_value") == [1]
    fed(("m1", [5]), first=1, board=board)
    assert every(board, "meteragent_private_value") == [5]


def test_a_forged_id_stands_for_its_own_topic_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms with the id of others, from another home, refuse no record of an honest home, first or last."""
    forged = describe_terms(replace(TERMS, level=2 * TERMS.level)).encode_message("evil", NOON_MS)
    forged = forged.replace(json.loads(forged)["id"].encode(), describe_terms(TERMS).id.encode())
    monkeypatch.setattr(message, "id_of", lambda facts: facts["id"])  # as a search of 2^32 finds it
    board = Board()
    board.take("private/evil/power/privacy", forged)
    fed(("m1", [5]), board=board)
    board.take("private/evil/power/privacy", forged)
    fed(("m1", [6]), first=1, board=board)
    assert every(board, "meteragent_private_value") == [6]
    assert one(board, "meteragent_exporter_refused_total") == 0


def test_invented_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptors on ever more topics are refused, even if their terms are known."""
    monkeypatch.setattr(exporter, "TOPICS", 3)
    board = Board()
    for number in range(10):
        board.take(f"private/x{number}/power/privacy", described(TERMS, f"x{number}"))
    assert len(board._of_topic) == 3
    assert one(board, "meteragent_exporter_refused_total") == 7


@pytest.mark.parametrize(
    ("hours", "name"), [(0.25, "15min"), (1, "60min"), (23, "1d"), (25, "1d"), (167, "1w"), (672, "1mo")]
)
def test_a_slot_has_one_name(hours: float, name: str) -> None:
    """Days of 23 and 25 hours are days, and every month is a month: a stream is one line the year round."""
    assert exporter._slot_length(round(hours * 3_600_000)) == name


@pytest.mark.parametrize("url", ["utility.example", "http://utility.example", "mqtt://"])
def test_a_url_that_is_none_of_mqtt_is_refused(url: str) -> None:
    """It says what it should be."""
    with pytest.raises(ValueError, match=r"mqtts://utility\.example:8883"):
        client(Board(), url, "private/#", None, None)
