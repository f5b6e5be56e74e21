"""Whether what arrives counts: problems by their cause, for the whole stream, that end with their cause."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from meteragent import config
from meteragent.agent import intake_health, metrics, watch
from meteragent.agent.intake_health import (
    ENOUGH,
    FEWEST,
    SOON_MS,
    IntakeHealth,
    first_silence_ms,
    silence_ms,
)
from meteragent.domain.counters import COUNTERS, REFUSALS, Counts
from meteragent.domain.problem import Problem
from meteragent.domain.units import DAY_MS, HOUR_MS
from tests.support.agent_world import START_MS, STREAM, World, quick, reading
from tests.support.configurations import written
from tests.support.profile_fixtures.dsmr import telegram

MINUTE_MS = 60_000
HALF_HOURS = STREAM.format("", "").replace('"1s"', '"30min"')
KILOWATTS = HALF_HOURS.replace('unit = "W"', 'unit = "kW"').replace("radius = 10", "radius = 1")


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose agent looks at its clock every 2 ms."""
    return quick(tmp_path, monkeypatch)


async def problems(world: World) -> list[Problem]:
    """Return the running agent's problems, without that of waiting records: this sink confirms none."""
    answer = await asyncio.to_thread(watch.ask, world.store)
    assert answer is not None
    return [item for item in metrics.from_json(answer).problems if item.code != "messages_wait"]


async def codes(world: World) -> list[str]:
    """Return the codes of the problems."""
    return [item.code for item in await problems(world)]


async def every_ten_seconds(world: World, seconds: int, payload: Callable[[], bytes]) -> None:
    """Send readings of a meter for a while; the agent checks its clock in between."""
    source = world.sides["source"]
    for _ in range(seconds // 10):
        source.session.send(source, payload(), "meters/m/power")
        await world.settle()
        world.now_ms += 10_000
        await world.settle()


async def quiet(world: World, minutes: int) -> None:
    """Let time pass without messages."""
    for _ in range(minutes):
        world.now_ms += MINUTE_MS
        await world.settle()


# Through the agent ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "reason"),
    [(b'{"apower":312,"t":1}', "refused_missing 6"), (b"\xff\x00?", "refused_encoding 6")],
    ids=["another device", "garbage"],
)
async def test_a_wrong_profile_is_told_within_a_minute(world: World, payload: bytes, reason: str) -> None:
    """If no message of a meter can be read, that is a problem after a minute, with a count of each reason."""
    async with world.running(HALF_HOURS):
        await every_ten_seconds(world, 40, lambda: payload)
        assert await codes(world) == []
        await every_ten_seconds(world, 10, lambda: payload)
        assert await codes(world) == ["none_accepted"]
        await every_ten_seconds(world, 10, lambda: payload)
        await quiet(world, 1)
        [actual] = await problems(world)
        assert (actual.code, actual.stream) == ("wrong_profile", "main")
        assert actual.cause == f"none of 6 messages holds a reading: {reason}"
        assert "source.profile" in actual.cure


async def test_a_wrong_profile_is_over_with_the_first_reading(world: World) -> None:
    """One reading that counts ends the problem: the next message may again be an odd one."""
    async with world.running(HALF_HOURS):
        await every_ten_seconds(world, 90, lambda: b"{}")
        assert await codes(world) == ["wrong_profile"]
        await every_ten_seconds(world, 10, lambda: reading(100, world.now_ms))
        assert await codes(world) == []
        await every_ten_seconds(world, 10, lambda: b"{}")
        assert await codes(world) == []


async def test_a_clock_that_is_slow_is_told(world: World) -> None:
    """If this machine's clock is two hours slow, every reading is from the future."""
    async with world.running(HALF_HOURS):
        await every_ten_seconds(world, 80, lambda: reading(100, world.now_ms + 2 * HOUR_MS))
        [actual] = await problems(world)
        assert actual.code == "clock_behind"
        assert actual.cause == "all 8 readings are ahead of this machine's clock"
        await every_ten_seconds(world, 10, lambda: reading(100, world.now_ms))
        assert await codes(world) == []


async def test_a_meter_of_another_time_zone_is_told(world: World) -> None:
    """A P1 meter whose time stays an hour off its arrival is a problem; the cure names the key to set."""

    def finnish() -> bytes:
        """Return a telegram whose local time is two hours ahead of UTC, and is read as one hour."""
        local = datetime.fromtimestamp(world.now_ms / 1000 + 7200, UTC)
        return telegram("ADN9 6534", f"0-0:1.0.0({local:%y%m%d%H%M%S}W)", "1-0:1.7.0(0000.417*kW)")

    text = HALF_HOURS.replace("[source]", '[source]\nprofile = "dsmr-p1"\n')
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("time", "value")))
    async with world.running(text.replace('profile = "json"', "")):
        await every_ten_seconds(world, 130, finnish)
        [actual] = await problems(world)
        assert actual.code == "wrong_zone"
        assert "source.timezone" in actual.cure
    async with world.running(
        text.replace('profile = "json"', "").replace("[source]", '[source]\ntimezone = "Europe/Helsinki"')
    ):
        await every_ten_seconds(world, 130, finnish)
        assert await codes(world) == []


async def test_a_meter_whose_clock_is_slow_is_told(world: World) -> None:
    """If the meter's clock is slow, every reading comes too late once a window is open."""
    async with world.running(HALF_HOURS):
        await every_ten_seconds(world, 10, lambda: reading(100, world.now_ms))
        await quiet(world, 35)
        await every_ten_seconds(world, 80, lambda: reading(100, world.now_ms - 2 * HOUR_MS))
        [actual] = await problems(world)
        assert (actual.code, actual.cause) == ("all_late", "all 8 readings came too late to count")


async def test_watts_read_as_kilowatts_are_told(world: World) -> None:
    """If every reading is outside the range, the unit is wrong; one reading inside ends the problem."""
    async with world.running(KILOWATTS):
        await every_ten_seconds(world, 40, lambda: reading(312, world.now_ms))
        assert await codes(world) == []
        await every_ten_seconds(world, 30, lambda: reading(312, world.now_ms))
        [actual] = await problems(world)
        assert actual.code == "all_clamped"
        assert actual.cause == "all of the last 7 readings were outside window.range"
        await every_ten_seconds(world, 10, lambda: reading(1, world.now_ms))
        assert await codes(world) == []


async def test_silence_is_told_after_an_hour(world: World) -> None:
    """An hour without readings is a problem, with what came instead; a reading ends it."""
    async with world.running(HALF_HOURS):
        await every_ten_seconds(world, 10, lambda: reading(100, world.now_ms))
        await quiet(world, 59)
        assert await codes(world) == []
        await quiet(world, 2)
        [actual] = await problems(world)
        assert (actual.code, actual.stream) == ("no_readings", "main")
        assert actual.cause == "no reading has been accepted for more than 1 h; messages received instead: 0"
        source = world.sides["source"]
        source.on_message("meters/m/power", reading(1, world.now_ms), 0, True, None)
        await world.until(lambda: world.agent.counts["retained"] == 1)
        [actual] = await problems(world)
        assert actual.cause.endswith("; messages received instead: retained 1")
        await every_ten_seconds(world, 10, lambda: reading(100, world.now_ms))
        assert await codes(world) == []


async def test_a_lost_source_is_no_silence(world: World) -> None:
    """While the source is disconnected, that is the only problem, and the time of others stands still."""
    async with world.running(HALF_HOURS):
        await world.turn()
        world.sides["source"].lose()
        await quiet(world, 90)
        assert await codes(world) == ["source_down"]


async def test_one_stream_does_not_speak_for_another(world: World) -> None:
    """Each stream is judged by its own messages; the agent's counts are the sum."""
    two = "".join(
        f'[[stream]]\nname = "{name}"\n'
        + HALF_HOURS.replace("\n[", "\n[stream.").replace("meters/", f"{name}/")
        for name in ("one", "two")
    ).replace("private/", "private/{0}/")
    text = two.replace("{0}", "one", 1).replace("{0}", "two", 1)
    async with world.running(text):
        for _ in range(8):
            item, other = world.sides["source-one"], world.sides["source-two"]
            item.session.send(item, reading(5, world.now_ms), "one/m/power")
            other.session.send(other, b"{}", "two/m/power")
            await world.settle()
            world.now_ms += 10_000
            await world.settle()
        assert [(item.code, item.stream) for item in await problems(world)] == [("wrong_profile", "two")]
        assert world.agent.counts["received"] == 16


# Its rules --------------------------------------------------------------------------------------


def heard(*steps: dict[str, int], every_ms: int = 10_000, silence: int | None = HOUR_MS) -> IntakeHealth:
    """Return the health of a stream after steps with these counts."""
    counts = Counts()
    listening = IntakeHealth(counts, silence, START_MS)
    for number, step in enumerate(steps, 1):
        for name, count in step.items():
            counts.add(name, count)
        listening.update(START_MS + number * every_ms, connected=True)
    return listening


def told(listening: IntakeHealth) -> list[str]:
    """Return the codes of the problems."""
    return [item.code for item in listening.problems("main")]


@pytest.mark.parametrize(
    "name", sorted(set(REFUSALS) - {"refused_ahead", "refused_zone", "refused_meters", "refused_unavailable"})
)
def test_each_reason_of_the_payload_is_one_of_the_profile(name: str) -> None:
    """Every reason why a payload cannot be read counts; the problem needs `FEWEST` messages and `SOON_MS`."""
    assert told(heard(*[{name: 1}] * 7)) == ["wrong_profile"]
    assert told(heard({name: FEWEST - 1}, *[{}] * 9)) == []
    assert told(heard(*[{name: FEWEST}] * (SOON_MS // 10_000))) == ["none_accepted"]
    assert told(heard({"accepted": 1}, *[{name: FEWEST}] * (SOON_MS // 10_000))) == []


@pytest.mark.parametrize("name", [*REFUSALS, "late"])
def test_nothing_accepted_since_the_start_is_told_at_once(name: str) -> None:
    """The fifth refused message is enough, with the reasons; the first reading that counts ends it."""
    assert told(heard({name: FEWEST - 1})) == []
    [actual] = heard({name: FEWEST}, every_ms=1).problems("main")
    assert (actual.code, actual.cause) == (
        "none_accepted",
        f"no reading has been accepted yet: {name} {FEWEST}",
    )
    assert told(heard({name: 100}, {"accepted": 1}, {name: FEWEST}, every_ms=1)) == []
    assert told(heard({name: 100}, {"early": 1}, {name: FEWEST}, every_ms=1)) == []


def test_what_is_no_refusal_is_no_sign_at_the_start() -> None:
    """Retained messages of each connection, and those of other quantities or agents, are normal."""
    assert told(heard({"retained": 100, "other": 100, "other_shard": 100})) == []


def test_readings_that_are_all_clamped_since_the_start_are_told_at_once() -> None:
    """The fifth is enough; after a reading within the range, a minute is needed."""
    assert told(heard({"accepted": FEWEST - 1, "clamped": FEWEST - 1})) == []
    assert told(heard({"accepted": FEWEST, "clamped": FEWEST}, every_ms=1)) == ["all_clamped"]
    assert told(heard({"accepted": 1}, {"accepted": 9, "clamped": 9}, every_ms=1)) == []


@pytest.mark.parametrize("name", ["accepted", "early", "late", "duplicate", "refused_ahead"])
def test_what_was_understood_acquits_the_profile(name: str) -> None:
    """If any message was read as a reading, the profile is not wrong, whatever became of the reading."""
    assert "wrong_profile" not in told(heard(*[{"refused_missing": 3, name: 1}] * 9))


def test_what_usually_comes_between_is_no_sign() -> None:
    """With ten odd messages between readings, only more than twenty are a sign; `ENOUGH` always are."""
    usual = [{"refused_missing": 10}, {"accepted": 1}]
    assert told(heard(*usual, *[{"refused_missing": 2}] * 10)) == []
    assert told(heard(*usual, *[{"refused_missing": 3}] * 7)) == ["wrong_profile"]
    flood = [{"refused_missing": 10_000}, {"accepted": 1}]
    assert told(heard(*flood, {"refused_missing": ENOUGH}, *[{}] * 6)) == ["wrong_profile"]


def test_a_long_silence_does_not_hasten_it() -> None:
    """What counts is how long messages have been refused, not how long nothing came before."""
    first = {"accepted": 1}
    assert told(heard(first, *[{}] * 60, {"refused_missing": 9})) == []
    assert told(heard(first, *[{}] * 60, {"accepted": 9, "clamped": 9})) == []


def test_a_step_of_the_clock_is_no_silence() -> None:
    """Setting the clock forward by a day is not a day of silence."""
    assert told(heard({"accepted": 1}, {}, every_ms=DAY_MS)) == []
    assert told(heard({"accepted": 1}, *[{}] * 61, every_ms=MINUTE_MS)) == ["no_readings"]


def test_time_without_a_connection_is_no_silence() -> None:
    """A day without a connection is not a day without readings."""
    listening = heard({"accepted": 1})
    for minute in range(2, 1500):
        listening.update(START_MS + minute * MINUTE_MS, connected=False)
    assert told(listening) == []


def test_a_cause_is_told_instead_of_the_silence() -> None:
    """If the profile is wrong, it need not be said that no reading was accepted."""
    assert told(heard(*[{"refused_json": 1}] * 90, every_ms=MINUTE_MS)) == ["wrong_profile"]


def test_silence_waits_for_the_longest_of_what_is_usual() -> None:
    """An hour, three times the usual distance or else a slot; on change `forget`; never for a replay."""

    def limit(**keys: str) -> int | None:
        return silence_ms(config.parse(written(**keys)).stream[0])

    assert limit() == HOUR_MS
    assert limit(window='length = "1d"') == DAY_MS
    daily = 'kind = "interval_energy"\nunit = "Wh"\ninterval = "1d"'
    assert limit(source=daily, window='length = "1d"') == 3 * DAY_MS
    assert limit(source="every = '1h'") == 3 * HOUR_MS
    assert limit(source="every = '10s'", window='length = "1d"') == HOUR_MS
    assert limit(source="every = '0s'") == limit(source="dead_band = 5") == 30 * DAY_MS
    assert limit(source="every = '2h'\ndead_band = 5") == 6 * HOUR_MS
    assert limit(source="dead_band = 5", window='forget = "2d"') == 2 * DAY_MS
    month = 'length = "30d"\nforget = "2d"'
    assert limit(source="dead_band = 5", window=month, privacy='accept = ["sparse_readings"]') == 30 * DAY_MS
    assert limit(window='clock = "event"') is None
    assert told(heard(*[{}] * 5000, every_ms=MINUTE_MS, silence=None)) == []


@pytest.mark.parametrize("length", ["30min", "30d"])
def test_the_first_reading_of_a_device_that_reports_on_change_may_take_an_hour(length: str) -> None:
    """A topic that nothing matches is a problem after an hour; later, such a device may rest for `forget`."""
    window, accept = f'length = "{length}"', 'accept = ["sparse_readings"]'
    stream = config.parse(written(source="dead_band = 5", window=window, privacy=accept)).stream[0]
    counts = Counts()
    listening = IntakeHealth(counts, silence_ms(stream), START_MS, first_silence_ms(stream))
    for minute in range(1, 62):
        assert told(listening) == []
        listening.update(START_MS + minute * MINUTE_MS, connected=True)
    assert told(listening) == ["no_readings"]
    counts.add("accepted")
    for minute in range(62, 1500):
        listening.update(START_MS + minute * MINUTE_MS, connected=True)
    assert told(listening) == []


def test_what_is_told_holds_counts_and_nothing_else() -> None:
    """Reasons are names of counters; no message, meter or time of arrival is disclosed."""
    [actual] = heard(*[{"refused_json": 2, "refused_missing": 1}] * 7).problems("main")
    assert actual.cause == "none of 21 messages holds a reading: refused_json 14, refused_missing 7"
    assert set(intake_health._NO_READING) | set(intake_health._READ) <= set(COUNTERS)
