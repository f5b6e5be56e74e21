"""Whether what arrives counts: problems by their cause, of each meter, that end with their cause."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from meteragent import config
from meteragent.agent import watch
from meteragent.agent.page import view
from meteragent.agent.vitals import AgentVitals, StreamVitals, intake_limits
from meteragent.agent.watch import METERS_QUESTION
from meteragent.cli import health
from meteragent.domain.problem import Problem
from meteragent.domain.units import DAY_MS, HOUR_MS
from meteragent.service.health import ask_socket, socket_path
from tests.support.agent_world import STREAM, World, quick, reading
from tests.support.configurations import written
from tests.support.profile_fixtures.dsmr import telegram
from tests.support.vitals import agent_vitals

MINUTE_MS = 60_000
HALF_HOURS = STREAM.format("", "").replace('"1s"', '"30min"')
KILOWATTS = HALF_HOURS.replace('unit = "W"', 'unit = "kW"').replace("radius = 10", "radius = 1")


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose agent looks at its clock every 2 ms."""
    return quick(tmp_path, monkeypatch)


async def problems(world: World) -> list[Problem]:
    """Return the running agent's problems, without that of waiting records: this sink confirms none."""
    answer = await asyncio.to_thread(ask_socket, socket_path(world.store))
    assert answer is not None
    return [item for item in agent_vitals(answer).problems if item.code != "messages_wait"]


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
    [(b'{"apower":312,"t":1}', "refused_missing"), (b"\xff\x00?", "refused_encoding")],
    ids=["another device", "garbage"],
)
async def test_a_wrong_profile_is_told_within_a_minute(world: World, payload: bytes, reason: str) -> None:
    """If no message of a meter can be read, that is a problem after a minute, with the reasons."""
    async with world.running(HALF_HOURS):
        await every_ten_seconds(world, 40, lambda: payload)
        assert await codes(world) == []
        await every_ten_seconds(world, 10, lambda: payload)
        assert await codes(world) == ["none_accepted"]
        await every_ten_seconds(world, 10, lambda: payload)
        await quiet(world, 1)
        [actual] = await problems(world)
        assert (actual.code, actual.stream) == ("wrong_profile", "main")
        assert actual.cause.startswith("no message contains a reading: ")
        assert actual.cause.endswith(f"({reason})")
        assert "source.profile" in actual.cure


async def test_readings_farther_apart_than_they_stand_are_told(world: World) -> None:
    """Time without a reading counts as 0 W, so the numbers are too low; `health` says so, with the cure."""
    async with world.running(HALF_HOURS):
        for count in range(6):
            await every_ten_seconds(world, 10, lambda: reading(100, world.now_ms))
            assert await codes(world) == ["reading_gaps"] * (count > 3)
            await quiet(world, 25)
        await every_ten_seconds(world, 10, lambda: reading(100, world.now_ms))
        [actual] = await problems(world)
        assert actual.code == "reading_gaps"
        assert actual.cause.startswith("readings come up to 25 min 10 s apart")
        assert "source.hold" in actual.cure
        answer = await asyncio.to_thread(ask_socket, socket_path(world.store))
        assert answer is not None
        assert actual.cause in health.as_text(json.loads(answer))
        assert not json.loads(answer)["healthy"]


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
        assert actual.cause == "all readings are ahead of this machine's clock, by 2 h"
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
        assert actual.code == "all_late"
        assert actual.cause.endswith("their times are 2 h behind")


async def test_watts_read_as_kilowatts_are_told(world: World) -> None:
    """If every reading is outside the range, the unit is wrong; one reading inside ends the problem."""
    async with world.running(KILOWATTS):
        await every_ten_seconds(world, 40, lambda: reading(312, world.now_ms))
        assert await codes(world) == []
        await every_ten_seconds(world, 30, lambda: reading(312, world.now_ms))
        [actual] = await problems(world)
        assert actual.code == "all_clamped"
        assert actual.cause == "all of the last readings were outside window.range"
        await every_ten_seconds(world, 10, lambda: reading(1, world.now_ms))
        assert await codes(world) == []


async def test_silence_is_told_after_an_hour(world: World) -> None:
    """An hour without readings is a problem; a reading ends it, a retained message does not."""
    async with world.running(HALF_HOURS):
        await every_ten_seconds(world, 10, lambda: reading(100, world.now_ms))
        await quiet(world, 59)
        assert await codes(world) == []
        await quiet(world, 2)
        [actual] = await problems(world)
        assert (actual.code, actual.stream) == ("no_readings", "main")
        assert actual.cause == "no reading has been accepted for 1 h"
        source = world.sides["source"]
        source.on_message("meters/m/power", reading(1, world.now_ms), 0, True, None)
        await world.until(lambda: world.agent.counts["retained"] == 1)
        assert await codes(world) == ["no_readings"]
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


# How long it may be silent ---------------------------------------------------------------------------


def test_silence_waits_for_the_longest_of_what_is_usual() -> None:
    """Two usual times; then an hour, three of them or else a slot; on change `forget`; never in a replay."""

    def limits(**keys: str) -> tuple[int | None, int | None, int | None]:
        return intake_limits(config.parse(written(**keys)).stream[0])[:3]

    def meter_ms(**keys: str) -> int | None:
        return limits(**keys)[1]

    assert limits() == (HOUR_MS, HOUR_MS, HOUR_MS)
    assert limits(source="every = '10s'") == (MINUTE_MS, HOUR_MS, MINUTE_MS)
    assert limits(source="every = '1h'") == (2 * HOUR_MS, 3 * HOUR_MS, 2 * HOUR_MS)
    assert limits(source="every = '0s'") == (HOUR_MS, 30 * DAY_MS, None)
    on_change = config.parse(written(source="every = '0s'\nhold = '3min'")).stream[0]
    assert intake_limits(on_change).stands_ms == 3 * MINUTE_MS
    assert limits(window='clock = "event"') == (None, None, None)
    assert meter_ms(window='length = "1d"') == DAY_MS
    month = 'length = "30d"'
    assert meter_ms(window=month, privacy='accept = ["sparse_readings"]') == DAY_MS
    daily = 'kind = "interval_energy"\nunit = "Wh"\ninterval = "1d"'
    assert meter_ms(source=daily, window='length = "1d"') == 3 * DAY_MS
    assert meter_ms(source="every = '10s'", window='length = "1d"') == HOUR_MS
    assert meter_ms(source="dead_band = 5") == 30 * DAY_MS
    assert meter_ms(source="every = '2h'\ndead_band = 5") == 6 * HOUR_MS
    assert meter_ms(source="dead_band = 5", window='forget = "2d"') == 2 * DAY_MS


async def test_a_device_that_reports_on_change_may_rest(world: World) -> None:
    """A topic that nothing matches is a problem after an hour; later, such a device may rest for `forget`."""
    async with world.running(HALF_HOURS.replace("[source]", "[source]\ndead_band = 5")):
        await quiet(world, 60)
        assert await codes(world) == []
        await quiet(world, 1)
        assert await codes(world) == ["no_message"]
        await every_ten_seconds(world, 10, lambda: reading(100, world.now_ms))
        await quiet(world, 600)
        assert await codes(world) == []


# Each meter by itself ---------------------------------------------------------------------------


async def test_a_good_meter_hides_no_other(world: World) -> None:
    """One of three sends decimal commas, and one is an hour behind: each is told, and only by number."""
    async with world.running(HALF_HOURS):
        await quiet(world, 31)
        source = world.sides["source"]
        for _ in range(30):
            source.session.send(source, reading(100, world.now_ms), "meters/good/power")
            source.session.send(source, b'{"power": 1,5}', "meters/comma/power")
            source.session.send(source, reading(100, world.now_ms - HOUR_MS), "meters/behind/power")
            await quiet(world, 2)
        found = {item.code: item for item in await problems(world)}
        assert set(found) == {"wrong_profile", "all_late"}
        assert found["all_late"].text == (
            "stream main: 1 of 3 meters: all readings arrive too late: their times are 1 h behind"
        )
        assert "refused_comma" in found["wrong_profile"].text
        assert not any(name in repr(found) for name in ("good", "comma/", "behind/"))
        answer = await asyncio.to_thread(ask_socket, socket_path(world.store), METERS_QUESTION)
        assert answer is not None
        [stream] = agent_vitals(answer).streams
        assert {row.meter: row.code for row in stream.arrivals} == {
            "behind": "all_late",
            "comma": "wrong_profile",
            "good": None,
        }


async def test_a_phase_that_never_comes_is_told(world: World) -> None:
    """Two of three phases send: nothing counts, and that is a problem when two usual times have passed."""
    text = HALF_HOURS.replace("meters/{meter}/power", "meters/{meter}/{phase}/power").replace(
        "[source]", "[source]\nphases = ['a', 'b', 'c']\nevery = '10s'"
    )
    async with world.running(text):
        source = world.sides["source"]
        for _ in range(8):
            for phase in "ab":
                source.session.send(source, reading(100, world.now_ms), f"meters/m/{phase}/power")
            await world.settle()
            world.now_ms += 10_000
            await world.settle()
        [found] = await problems(world)
        assert (found.code, found.fields["phases"]) == ("phase_silent", 3)


async def test_a_stream_waits_for_its_first_message(world: World) -> None:
    """Until then it is neither well nor a problem."""
    async with world.running(HALF_HOURS):
        await quiet(world, 2)
        answer = await asyncio.to_thread(ask_socket, socket_path(world.store))
        assert answer is not None
        vitals = agent_vitals(answer)
        assert (vitals.state, vitals.problems) == ("waiting", ())
        assert "Waiting for the first message of: main." in health.as_text(json.loads(answer))
        assert "All is well." not in health.as_text(json.loads(answer))
        await every_ten_seconds(world, 10, lambda: reading(100, world.now_ms))
        answer = await asyncio.to_thread(ask_socket, socket_path(world.store))
        assert answer is not None
        assert agent_vitals(answer).state == "well"


@pytest.mark.parametrize(
    ("codes", "waiting", "live", "ready"),
    [
        ((), False, 200, 200),
        ((), True, 200, 503),
        (("phase_silent", "register_jump"), False, 200, 503),
        (("store_full",), False, 503, 503),
    ],
)
async def test_liveness_ignores_what_arrives(
    codes: tuple[str, ...], waiting: bool, live: int, ready: int
) -> None:
    """A restart cures no meter, and whoever gets the numbers sees it; readiness counts everything."""

    class Watched:
        async def vitals(self) -> AgentVitals:
            """Return vitals with the problems of this case."""
            stream = StreamVitals("main", True, True, 0, 0.0, 1, {}, is_waiting=waiting)
            raised = tuple(Problem(code, "cause", "cure", "main") for code in codes)
            return AgentVitals(
                service="agent",
                running_s=1.0,
                counts={},
                store_bytes=1,
                stands=None,
                streams=(stream,),
                raised=raised,
            )

    routes = {route.path: route.answer for route in view.local_routes(cast(watch.Watch, Watched()))}
    assert (await routes["/healthz"]())[0] == live
    assert (await routes["/readyz"]())[0] == ready
