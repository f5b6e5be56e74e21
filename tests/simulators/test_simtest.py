"""The agent under seeded crashes and faults (simulators.simtest): nothing breaks, and mistakes are found."""

import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from inspect import isfunction
from pathlib import Path

import pytest

from meteragent.agent.store_thread import StoreThread
from meteragent.config.refuse import all_refusals
from meteragent.domain.shapes import Space
from simulators.__main__ import main
from simulators.invariant import InvariantViolation
from simulators.simtest import runs
from simulators.simtest.configuration import parse
from simulators.simtest.generator import generate
from simulators.simtest.judge import crowd
from simulators.simtest.judge.ending import EPILOGUE_S, epilogue_s
from simulators.simtest.model.setting import PACES, Setting, counter_of, kind_of, phases_of
from simulators.simtest.schedule import (
    Clock,
    Crash,
    Drop,
    Fail,
    Foreign,
    Read,
    Schedule,
    Slow,
    Stop,
    read,
    write,
)
from simulators.simtest.shrink import invariant, shrink
from simulators.simtest.store.disk import Disk
from simulators.simtest.world import World
from tests.simulators.receiver_mutants import goes_on_through_a_pause, sends_what_is_due_before_a_pause
from tests.simulators.simtest_mutants import (
    MUTANTS,
    Mutant,
    acknowledges_before_the_commit,
    believes_every_row,
    forgets_the_marks,
)
from tests.support.not_run import not_run

SEEDS = 200
"""`make faults` runs a hundred thousand."""
BLOCKS = 10
FRESH = 40
"""Schedules that no earlier commit has tried."""
SCHEDULES = sorted((Path(__file__).parent / "schedules").glob("*.txt"))

SMALL = Schedule(
    7,
    "fast",
    ((Setting(lateness=3), Setting(name="other", kind="interval_energy", clock="event")), (Setting(key=1),)),
    (
        Read(500, 1, 480, 250_000_000),
        Crash(900, 50, 1, "commit-torn", 300, "damaged"),
        Drop(1200, "source", 100, 0, 1),
        Stop(2500, 0, 0),
    ),
    3000,
)


@pytest.fixture
def where() -> Iterator[Path]:
    """A folder for worlds."""
    with runs.place() as folder:
        yield folder


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS // BLOCKS))
def test_everything_holds_whatever_happens(first: int) -> None:
    """Schedules of crashes, outages, bad disks and bad clocks break no invariant."""
    seeds = range(first, first + SEEDS // BLOCKS)
    outcome = runs.block(seeds)
    assert outcome.violation is None, (
        f"{outcome.violation}: python -m simulators simtest --seed {outcome.seed}"
    )
    assert outcome.counts["schedules"] == len(seeds)


@pytest.mark.parametrize("block", range(FRESH // BLOCKS))
def test_what_was_never_tried_holds(block: int) -> None:
    """Schedules that follow from the commit break no invariant; one that does is to be kept (`SCHEDULES`)."""
    first = runs.fresh_seed() + BLOCKS * block
    outcome = runs.block(range(first, first + BLOCKS))
    assert outcome.violation is None, (
        f"{outcome.violation}: python -m simulators simtest --seed {outcome.seed}"
    )


@pytest.mark.parametrize("path", SCHEDULES, ids=lambda path: path.stem)
def test_what_failed_once_holds(path: Path, where: Path) -> None:
    """Schedules that have broken an invariant break none any more."""
    assert runs.run(read(path.read_text()), where)["processes"] > 0


@pytest.mark.parametrize("block", range(4))
def test_amounts_are_those_of_the_prices_that_came_in_time(block: int) -> None:
    """Prices that come late, early, again, beyond the bound or not at all, beside every other trouble.

    Every amount that leaves is the sum of energy times price with the prices that were committed before their
    time, also after crashes.
    """
    seeds = [seed for seed in range(200 * block, 200 * (block + 1)) if _has_prices(generate(seed))]
    outcomes = [runs.block([seed]) for seed in seeds]
    assert [outcome.violation for outcome in outcomes] == [None] * len(seeds)
    counts = sum((outcome.counts for outcome in outcomes), Counter[str]())
    assert counts["schedules"] == len(seeds) > 10
    for name in ("", "_repeated", "_late", "_conflict", "_times", "_clamped", "_messages_refused"):
        assert counts[f"price{name}" if name else "prices"] > 0, name


def _has_prices(plan: Schedule) -> bool:
    """Whether a stream of a schedule releases amounts."""
    return any(setting.bound for configuration in plan.configurations for setting in configuration)


def test_each_receiver_gets_its_slots_and_nothing_after_its_revocation() -> None:
    """Receivers that begin, end, pause, move and come back, by the file or a person, beside every trouble.

    Each slot reaches whoever gets it, once and with the same bytes; a window is charged once, and only if
    somebody gets it; whoever is revoked gets nothing more, and its descriptors are withdrawn.
    """
    seeds = [seed for seed in range(200, 450) if _has_receivers(generate(seed))]
    outcomes = [runs.block([seed]) for seed in seeds]
    assert [outcome.violation for outcome in outcomes] == [None] * len(seeds)
    counts = sum((outcome.counts for outcome in outcomes), Counter[str]())
    assert counts["schedules"] == len(seeds) > 10
    for name in ("receivers", "receivers revoked", "crash settle", "records", "actions"):
        assert counts[name] > 10, name


def _has_receivers(plan: Schedule) -> bool:
    """Whether receivers share a stream of a schedule."""
    return any(setting.receivers for configuration in plan.configurations for setting in configuration)


def test_a_receiver_gets_no_interval_that_another_store_released() -> None:
    """Another store's descriptor comes and goes on a receiver's topic, beside every other trouble.

    Windows that open meanwhile are never this receiver's, not even later; all other receivers get theirs.
    """
    seeds = [seed for seed in range(200, 500) if any(isinstance(e, Foreign) for e in generate(seed).events)]
    outcomes = [runs.block([seed]) for seed in seeds]
    assert [outcome.violation for outcome in outcomes] == [None] * len(seeds)
    counts = sum((outcome.counts for outcome in outcomes), Counter[str]())
    for name in ("other stores", "schedules", "receivers", "windows"):
        assert counts[name] > 10, name


def test_phases_are_summed_whatever_happens() -> None:
    """Phases of power and registers, some subtracted, late, silent, reset and doubted, beside every trouble.

    Each slot holds what the phases use together, and no reading is acknowledged that a sum still needs.
    """
    seeds = [seed for seed in range(200, 450) if _has_phases(generate(seed))]
    outcomes = [runs.block([seed]) for seed in seeds]
    assert [outcome.violation for outcome in outcomes] == [None] * len(seeds)
    counts = sum((outcome.counts for outcome in outcomes), Counter[str]())
    for name in ("schedules", "windows", "records", "redelivered"):
        assert counts[name] > 10, name


def _has_phases(plan: Schedule) -> bool:
    """Whether a stream of a schedule sums phases."""
    return any(phases_of(setting).signs for configuration in plan.configurations for setting in configuration)


def test_share_and_pad_are_the_energy_of_each_slot() -> None:
    """Streams that count in a crowd, whose operators' lists of keys come late, forged, too old and short.

    Each slot has one pad, sealed before anything of it leaves, and one report, with the same bytes whenever
    it is sent; what is delivered or too late is deleted, and its charge stays.
    """
    _need_crowd()
    seeds = [seed for seed in range(200, 600) if _has_crowd(generate(seed))]
    outcomes = [runs.block([seed]) for seed in seeds]
    assert [outcome.violation for outcome in outcomes] == [None] * len(seeds)
    counts = sum((outcome.counts for outcome in outcomes), Counter[str]())
    assert counts["schedules"] == len(seeds) > 10
    for name in ("lists of keys", "reports too late"):
        assert counts[name] > 10, name


def _need_crowd() -> None:
    """End the test as not run without the cryptography of crowds."""
    if not crowd.is_available():
        not_run("crowd", "a simulated crowd: install the extra `crowd`")


def _has_crowd(plan: Schedule) -> bool:
    """Whether a stream of a schedule counts in a crowd."""
    return any(setting.crowd for configuration in plan.configurations for setting in configuration)


@pytest.mark.parametrize("seed", [100_473, 105_636, 300_900, 301_193, 301_784, 4_000_114])
def test_the_judge_errs_on_nobody(seed: int) -> None:
    """Behaviour that looks wrong but is right is not reported.

    An end between commit and acknowledgement; a crash just after a copy was taken in; a stop that a second
    signal cuts short; a copy whose clock is set right and wrong again before it looks; a stop that lasts
    until the end of the schedule; a stop that comes after the device has failed, and before the agent knows.
    """
    assert runs.block([seed]).violation is None


@pytest.mark.parametrize("seed", [61, 313_035, 506, 501_885, 805_994, 500_002_091])
def test_what_was_found_stays_mended(seed: int) -> None:
    """Schedules that broke an invariant.

    Prices of time before a meter's first window were dropped, though a new meter's window may be earlier. A
    window that was to open on a day of which the budget had not been read: the ledger refused it for ever. A
    receiver that came back before its descriptors were withdrawn, and kept them for ever. A receiver whose
    end was moved after it had passed, and who got a record under terms that it had not been told. A report
    to a crowd that became too late while it waited for a busy broker, and was sent. Descriptors without the
    flag to retain them, after connections were lost to a broker that had confirmed them with it.
    """
    assert runs.block([seed]).violation is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=[one.name for one in MUTANTS])
def test_a_mistake_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each agent with a mistake in it breaks an invariant within few schedules."""
    if mutant.patch.__module__.endswith("crowd_mutants"):
        _need_crowd()
    mutant.patch(monkeypatch)
    outcome = runs.block(range(mutant.first, mutant.first + 50))
    assert outcome.violation is not None
    assert mutant.breaks in outcome.violation.invariant


WINDOW = Setting(grid="40/10")
RETURNS = Schedule(
    1,
    "fast",
    ((WINDOW,), (replace(WINDOW, name="main2"),), (replace(WINDOW, grid="10/10"),)),
    (
        *[Read(at_ms, 1, at_ms - 20, 250_000_000) for at_ms in range(100, 2400, 150)],
        *(Stop(2400, 0, 1), Stop(2600, 0, 2)),
        *[Read(at_ms, 1, at_ms - 20, 250_000_000) for at_ms in range(2700, 6000, 150)],
    ),
    6000,
)
"""A stream comes back with shorter windows before the end of the last window that it had opened."""


def test_rows_that_are_all_believed_are_found(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message with a flipped bit is found if nobody holds it; a bit in a message that waits is rare."""
    [path] = [path for path in SCHEDULES if path.stem == "damaged-messages-that-are-held-late"]
    believes_every_row(monkeypatch)
    with pytest.raises(InvariantViolation, match="the store does not hold the commits"):
        runs.run(read(path.read_text()), where)


PAUSED_WITHOUT_A_BROKER = """
seed=1 pace=minutes end_ms=9000
configuration 0: grid=10/10 catch_up=5 receivers=app,utility@outside
at 0.100 s: read meter=1 time_ms=6000 value_u=1000000
at 2.100 s: read meter=1 time_ms=126000 value_u=1000000
at 3.300 s: read meter=1 time_ms=198000 value_u=1000000
at 3.850 s: drop side=sink down_ms=1500
at 5.100 s: act verb=pause name=app
"""
"""Records wait for a broker that is away when a person pauses their receiver."""
[PAUSED_WITHOUT_THE_AGENT] = (path for path in SCHEDULES if path.stem == "a-pause-while-the-agent-is-stopped")


@pytest.mark.parametrize(
    ("text", "mistake", "breaks"),
    [
        (PAUSED_WITHOUT_A_BROKER, sends_what_is_due_before_a_pause, "a record leaves to a receiver"),
        (PAUSED_WITHOUT_THE_AGENT.read_text(), goes_on_through_a_pause, "does not hold the commits"),
    ],
    ids=["sends what is due", "goes on"],
)
def test_what_a_paused_receiver_gets_is_found(
    where: Path, monkeypatch: pytest.MonkeyPatch, text: str, mistake: Callable[..., None], breaks: str
) -> None:
    """A pause takes effect at once, and for all windows until it ends; seeds seldom draw the moments."""
    assert runs.run(read(text), where)["records"] > 0
    mistake(monkeypatch)
    with pytest.raises(InvariantViolation, match=breaks):
        runs.run(read(text), where)


def test_forgotten_marks_are_found(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the mark keeps a stream that `RETURNS` from opening time a second time; no seed draws this."""
    runs.run(RETURNS, where)
    forgets_the_marks(monkeypatch)
    with pytest.raises(InvariantViolation):
        runs.run(RETURNS, where)


def test_the_seeds_exercise_everything() -> None:
    """A hundred schedules crash at every place, and meet every trouble and every kind of stream."""
    _need_crowd()
    plans = [generate(seed) for seed in range(100)]
    places = {event.where for plan in plans for event in plan.events if isinstance(event, Crash)}
    kinds = {type(event).__name__ for plan in plans for event in plan.events}
    settings = [one for plan in plans for configuration in plan.configurations for one in configuration]
    assert len(places) == 16
    assert kinds == {
        *("Read", "Junk", "Price", "PriceJunk", "Keys", "Drop", "Stall", "Refuse"),
        *("Foreign", "Act", "Clock", "Resume", "Slow", "Full", "Stop", "Fail", "Crash", "Second", "Hesitate"),
    }
    events = [event for plan in plans for event in plan.events]
    assert {event.in_call for event in events if isinstance(event, Fail)} == {0, 1}
    assert {event.forgets for event in events if isinstance(event, Drop)} == {0, 1, 2}
    networks = [plan.network for plan in plans]
    assert {network.level for network in networks} == {4, 5}
    for name in ("pieces", "late_ms", "keepalive_s", "maximum", "refuses", "silent"):
        assert {bool(getattr(network, name)) for network in networks} == {False, True}
    assert {bool(one.receivers) for one in settings} == {bool(one.crowd) for one in settings} == {False, True}
    assert {kind_of(one) for one in settings} == {"power", "interval_energy", "register"}
    assert {counter_of(one).is_on_change for one in settings} == {False, True}
    assert {phases_of(one).has_parts for one in settings if phases_of(one).signs} == {False, True}
    assert {one.space for one in settings} == {str(space) for space in Space}
    assert {one.clock for one in settings} == {"wall", "event"}
    assert {one.grid.partition(":")[0] for one in settings} >= {"1d", "1d/4", "60/15"}
    assert {event.store for plan in plans for event in plan.events if isinstance(event, Crash)} == {
        *("", "damaged", "flipped", "restored")
    }


def test_the_agent_takes_these_configurations(tmp_path: Path) -> None:
    """What schedules set streams to is what the agent accepts, budgets and calendars among it."""
    for plan in map(generate, range(4)):
        for settings in plan.configurations:
            known = parse(settings, PACES[plan.pace], tmp_path, tmp_path / "db")
            assert len(known.stream) == len(settings)
            assert not [*all_refusals(known)]


def test_a_schedule_is_its_text() -> None:
    """What is printed is read back as it was; a line that is none is named."""
    for plan in (SMALL, *map(generate, range(50))):
        assert read(write(plan)) == plan
    with pytest.raises(ValueError, match="at 1 s: quake"):
        read(f"{write(SMALL)}at 1 s: quake strength=7\n")
    with pytest.raises(ValueError, match="not a line of a schedule: 'at: stop'"):
        read(f"{write(SMALL)}at: stop\n")


def test_a_seed_replays_exactly(where: Path) -> None:
    """The same schedule gives the same bytes at the same times, whatever ran before it."""

    def published() -> list[tuple[float, str, bytes, bool]]:
        with runs.place() as folder:
            (folder / "own").mkdir()
            world = World(generate(10), folder, folder / "own")
            world.run()
            return world.log

    first = published()
    runs.run(SMALL, where)
    assert first
    assert published() == first


@pytest.mark.parametrize("seed", [710_001_110, 800_000_271, 800_000_878, 800_001_305])
def test_what_the_judge_once_got_wrong_passes(where: Path, seed: int) -> None:
    """Twins of a register with a shared budget, a copy after a jump, an event clock, late prices."""
    runs.run(generate(seed), where, has_twin=runs.has_twin(seed))


def test_what_breaks_is_shrunk(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a schedule that breaks something what remains breaks the same, and every event of it is needed."""
    acknowledges_before_the_commit(monkeypatch)
    events = Slow(0, 30), Read(500, 1, 480, 7), Stop(900, 0, 1), Clock(1000, 50), Read(1200, 1, 1200, 8)
    plan = Schedule(1, "fast", ((Setting(lateness=3),), (Setting(),)), events, 1500)
    small = shrink(plan, where, has_twin=False)
    right = invariant(plan, where, has_twin=False)
    assert right is not None
    assert 0 < len(small.events) < 3
    assert small.configurations == ((Setting(),),)
    assert invariant(small, where, has_twin=False) == right
    for at in range(len(small.events)):
        fewer = replace(small, events=(*small.events[:at], *small.events[at + 1 :]))
        assert invariant(fewer, where, has_twin=False) != right


def test_the_network_does_what_it_is_told(where: Path) -> None:
    """Connections are refused and lost without a word, publications refused, pings asked for: all counted."""
    counts = sum((runs.run(generate(seed), where) for seed in range(30)), Counter[str]())
    for name in ("pings", "refused connections", "silent outages", "refused publications", "redelivered"):
        assert counts[name] > 0, name
    assert counts["connections"] > 2 * counts["processes"]


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Many schedules on all cores: 0, and what was exercised."""
    assert main(["simtest", "--seeds", "4", "--from", "50", "--jobs", "1"]) == 0
    assert "4  schedules" in capsys.readouterr().out


def test_command_replays(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One seed is printed and run; what was printed runs again from a file, or from the input."""
    assert main(["simtest", "--seed", "3"]) == 0
    text = capsys.readouterr().out.partition("\n\n")[0]
    (tmp_path / "plan").write_text(text)
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["simtest", "--replay", str(tmp_path / "plan")]) == 0
    assert main(["simtest", "--replay", "-"]) == 0
    (tmp_path / "plan").write_text("seed=1 pace=fast end_ms=1000\nat noon: read\n")
    assert main(["simtest", "--replay", str(tmp_path / "plan")]) == 2
    assert "at noon" in capsys.readouterr().err


def test_command_finds(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule that violates an invariant: 1, and which."""
    acknowledges_before_the_commit(monkeypatch)
    assert main(["simtest", "--seed", "0"]) == 1
    printed = capsys.readouterr().out
    assert "INVARIANT VIOLATED: a reading is acknowledged before its effects are committed" in printed


FOUND = """
seed=305 pace=fast end_ms=8377
configuration 0:
configuration 0: name=other
at 3.435 s: read meter=1 time_ms=3435 value_u=1339471709
at 4.380 s: crash down_ms=2500 then=0 where=now
at 6.078 s: crash down_ms=2500 then=0 where=commit-moved
"""
"""A schedule that found a mistake: catch_up was counted from a time before the subscription, taken
while the store was asked for room."""


RELEASED_DURING_A_STOP = """
seed=1 pace=fast end_ms=6000
configuration 0: grid=10/10
at 0.100 s: foreign topic=private/main/m1 lasts_ms=3100
at 0.300 s: read meter=1 time_ms=300 value_u=1000000
at 0.900 s: read meter=1 time_ms=900 value_u=1000000
at 1.000 s: slow takes_ms=1200
at 1.100 s: stop down_ms=3000 then=0
"""
"""A schedule that found a mistake: an agent that was catching up, on a slow disk, opened a window from before
the topic was clear."""


def test_a_window_from_before_the_topic_was_clear_is_not_the_receivers(where: Path) -> None:
    """What another store released during a stop is not opened for the receiver afterwards."""
    assert runs.run(read(RELEASED_DURING_A_STOP), where)["windows"] > 0


WITHOUT_A_CLOCK = """
seed=504121 pace=fast end_ms=1317
configuration 0: stamped=1
at 0.295 s: clock jump_ms=-700
at 0.316 s: read meter=1 time_ms=296 value_u=906393574 qos=1 retain=0
at 1.299 s: read meter=1 time_ms=1299 value_u=1271004458 qos=1 retain=0
at 1.316 s: read meter=1 time_ms=296 value_u=906393575 qos=1 retain=0
"""
"""A schedule that found a mistake: what arrived while the clock was behind counted as newer
than what arrived after it."""


WITHDRAWN_WITHOUT_A_CLOCK = """
seed=79 pace=slow end_ms=15474
configuration 0: name=main
configuration 0: name=other-shared receivers=landlord@outside
configuration 1: name=main
at 6.133 s: read meter=1 time_ms=44121600 value_u=0
at 9.200 s: clock jump_ms=-21600000
at 10.011 s: stop down_ms=0 then=1
"""
"""A schedule that found a mistake: while a withdrawal could not leave, because the clock was behind,
the store was written again and again without a pause."""


def test_a_withdrawal_waits_for_a_clock(where: Path) -> None:
    """It leaves once the clock has caught up."""
    assert runs.run(read(WITHDRAWN_WITHOUT_A_CLOCK), where)["receivers revoked"] == 1


STOPPED_AFTER_A_JUMP = """
seed=400041 pace=slow end_ms=13998
configuration 0:
at 10.024 s: slow takes_ms=1200
at 12.574 s: read meter=1 time_ms=90532800 value_u=2300420501
at 12.835 s: resume jump_ms=108000000
at 13.997 s: stop down_ms=0 then=0
"""
"""A schedule that found a mistake: a stop while the store was being closed after a jump of the clock
left it open, so that it could not be treated as a copy."""


def test_a_stop_waits_until_the_store_is_closed(where: Path) -> None:
    """A machine resumed from a snapshot marks its store as a copy, also if it is stopped meanwhile."""
    assert runs.run(read(STOPPED_AFTER_A_JUMP), where)["clock jumped"] == 1


def test_what_came_without_a_clock_is_not_the_newest(where: Path) -> None:
    """A reading without a time that arrives while there is no clock keeps its place in the order."""
    assert runs.run(read(WITHOUT_A_CLOCK), where)["clock"] == 1


def test_what_was_found_stays_found_out(where: Path) -> None:
    """What fell due during a stop waits for catch_up, counted from the subscription and no earlier."""
    assert runs.run(read(FOUND), where)["crash commit-moved"] == 1


FAILS_AT_ANOTHER_COMMIT = """
seed=500000600 pace=fast end_ms=7664
configuration 0: kind=register
at 2.129 s: read meter=1 time_ms=2129 value_u=1340026413 qos=1 retain=0
at 2.497 s: read meter=1 time_ms=2497 value_u=2002786575 qos=1 retain=0
at 2.512 s: fail down_ms=0 then=0 steps=353
at 2.602 s: read meter=1 time_ms=2375 value_u=1340026413 qos=1 retain=0
"""
"""A schedule on which the judge erred: with other values the last reading is committed when it comes, so the
failure of the device meets that commit, and not the next."""


def test_a_device_fails_at_a_commit_that_depends_on_what_is_doubted(where: Path) -> None:
    """With other values, a schedule of registers is not run again if a failure waits for a commit."""
    assert runs.run(read(FAILS_AT_ANOTHER_COMMIT), where, has_twin=True)["twins"] == 0


SKIPPED = """
seed=500003101 pace=fast end_ms=6010
configuration 0: grid=10/10 catch_up=30
configuration 0: name=other grid=40/40 catch_up=5
at 0.407 s: read meter=1 time_ms=407 value_u=302249
at 0.965 s: stop down_ms=4700 then=0
at 3.561 s: slow takes_ms=1200
at 4.324 s: resume jump_ms=330000
"""
"""A schedule on which the judge erred: it ended while the agent was still closing the windows that the clock
had skipped while the agent did not run. It stops before it knows of its clock, so this is no jump to it."""


ADMITS_AT_THE_END = """
seed=820001443 pace=minutes end_ms=5591
configuration 0: grid=40/40 receivers=app+58,utility+20
at 2.070 s: fail down_ms=0 then=0 steps=6
at 4.354 s: drop side=sink down_ms=1500 forgets=0 shuffles=0
at 4.374 s: read meter=3 time_ms=262440 value_u=35063633 qos=1 retain=0
at 5.272 s: read meter=1 time_ms=316320 value_u=2232831013 qos=1 retain=0
at 5.590 s: resume jump_ms=600000
"""
"""A schedule on which the judge erred: at its end, the agent was stopping for ten seconds to admit a
receiver, and could send nothing because its clock had jumped meanwhile."""


def test_the_end_waits_for_an_agent_that_admits_a_receiver(where: Path) -> None:
    """What waits then is sent by the next start, and the schedule ends after it."""
    assert runs.run(read(ADMITS_AT_THE_END), where)["receivers"] == 2


def test_the_end_waits_for_skipped_windows(where: Path) -> None:
    """The agent gets the time to open and close each of them; other schedules end as soon as ever."""
    assert runs.run(read(SKIPPED), where)["windows"] > 400
    assert epilogue_s(read(SKIPPED)) == pytest.approx(EPILOGUE_S + 4 * (330 + 82) / 1000)
    assert epilogue_s(SMALL) == EPILOGUE_S


SEALED = """
seed=600000422 pace=autumn end_ms=11272
configuration 0: kind=interval_energy grid=1d stands=40 bound=30
configuration 1: bound=30
at 1.994 s: read meter=1 time_ms=3319200 value_u=-5000000 qos=1 retain=0
at 3.642 s: price from_ms=45900000 to_ms=49500000 price_u=113487 rows=1 retain=0
at 4.290 s: fail down_ms=0 then=1 steps=48
at 10.881 s: crash down_ms=0 then=0 where=commit-done part=0 store=
at 11.242 s: price from_ms=118800000 to_ms=122400000 price_u=-56946 rows=1 retain=0
at 11.271 s: read meter=1 time_ms=65700000 value_u=500000 qos=1 retain=0
"""
"""A day is sealed because readings are of power now. The agent crashed before that was on disk, and had
dropped a price of the day, which counts again when readings are of energy as before."""


def test_a_price_is_dropped_no_sooner_than_the_seal_is_on_disk(where: Path) -> None:
    """Every hour counts at the price that was committed for it."""
    assert runs.run(read(SEALED), where, has_twin=True)["prices"] == 2


def test_the_disk_replaces_methods_that_the_store_thread_has() -> None:
    """A method that the agent's store thread no longer calls would leave the oracle without news."""
    public = {name for name, item in vars(Disk).items() if isfunction(item) and not name.startswith("_")}
    assert public == {"has_space", "persist"}
    assert {*public, "_submit"} <= vars(StoreThread).keys()
