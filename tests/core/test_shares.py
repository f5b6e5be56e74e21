"""Windows that release shares: the sum of both parts is the energy, whatever happens in between."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meteragent import config
from meteragent.agent.link.crowd import OperatorKeys
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.shares import ShareWindow
from meteragent.crowd.helper import Helper
from meteragent.crowd.leader import Leader
from meteragent.crowd.message import Report
from meteragent.crowd.seal import PAD, SHARE, seal_info
from meteragent.crowd.share import MODULUS, to_signed_64
from meteragent.domain.codec import encode
from meteragent.domain.commit import Commit, Outgoing, Receiver, Snapshot, TimelineState
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.domain.schedule import Schedule
from meteragent.domain.shapes import Space
from meteragent.domain.terms import Terms
from meteragent.domain.units import Kind
from meteragent.privacy import SeededBits
from meteragent.store.schema import decode_state, decode_terms, encode_state
from tests.support.configurations import written
from tests.support.crowd import SLOT_S, Street, make_group
from tests.support.world import stream

SLOT_MS, STEP_MS = 1_800_000, 60_000
START_MS = 1000 * SLOT_S
WORLD = Street(make_group())


async def commit(_role: str, _serial: int, _payload: bytes) -> None:
    """Commit nothing."""


REPORTS = Receiver("main", "crowd/elm-street/report/{meter}")


def make_keys(roles: Sequence[str] = ("leader", "helper")) -> OperatorKeys:
    """Return the keys of the street's operators, as far as their lists have come."""
    return OperatorKeys(WORLD.group, {role: WORLD.lists[role] for role in roles}, commit)


def schedule(**source: str) -> Schedule:
    """Return the windows of a home in the street's group."""
    keys = "\n".join(f"{name} = {value}" for name, value in source.items())
    plain = config.parse(written(source=keys, window="lateness = '0s'")).stream[0]
    group = WORLD.group
    privacy = {
        "level": group.level,
        "radius": group.hide_wh,
        "quantum": group.quantum_wh,
        "space": Space.SHARE,
    }
    return config.schedule(plain.with_changes(group=group, privacy=privacy, window={"length": SLOT_MS}))


def home(
    windows: Schedule,
    seed: int,
    roles: Sequence[str] = ("leader", "helper"),
    snapshot: Snapshot | None = None,
) -> Pipeline:
    """Return a home's stream that begins, or continues after a snapshot."""
    known = stream(
        windows,
        receivers=(REPORTS,),
        crowd=make_keys(roles),
        ahead_ms=0,
    )
    return Pipeline(known, snapshot or Snapshot({}, {}, {}), Spending(), SeededBits(seed), Counts())


def reading(at_ms: int, power: int) -> Message:
    """Return a reading of the home's meter that arrives at its time."""
    payload = b'{"t":%d,"power":%d}' % (START_MS + at_ms, power)
    return Message("meters/h1/power", payload, False, START_MS + at_ms, None)


def restored(commits: Sequence[Commit]) -> Snapshot:
    """Return the contents of a store after some commits, through the form in which it keeps them."""
    terms: dict[str, Terms] = {}
    states: dict[str, TimelineState] = {}
    marks: dict[str, int] = {}
    for step in commits:
        terms |= {id_: decode_terms(encode(t)) for id_, t in step.terms.items()}
        states |= {m: decode_state(encode_state(s)) for m, s in step.states.items() if s is not None}
        marks |= step.marks
    return Snapshot(marks, states, terms)


def quanta(machines: tuple[Leader, Helper], row: Outgoing) -> int:
    """Open both parts of a report; return the energy in quanta."""
    report = Report.decode(WORLD.group.id, row.payload)
    parts = []
    for machine, purpose, sealed in zip(machines, (SHARE, PAD), (report.share, report.pad), strict=True):
        keys = machine.keys_of_slot(report.slot_s)
        assert keys is not None
        place = seal_info(purpose, WORLD.group.id, report.slot_s, keys.id, report.label.encode())
        parts.append(keys.unseal_number(sealed, place) or 0)
    return to_signed_64(sum(parts) % MODULUS)


powers = st.lists(st.integers(0, 20_000), min_size=30, max_size=30)


@settings(max_examples=25)
@given(powers, st.integers(0, 2**32), st.integers(1, 28))
def test_both_parts_are_the_energy(watts: list[int], seed: int, restart: int) -> None:
    """Pad and share add up to the slot's energy, rounded to a quantum, also if the home restarts in the slot.

    A reading that stood at the stop is delivered again, as it was not acknowledged.
    """
    windows = schedule(hold="'10min'")
    pipeline, commits = home(windows, seed), list[Commit]()
    for minute, power in enumerate([0, *watts, 0], start=-1):
        if minute == restart:
            pipeline = home(windows, seed + 1, snapshot=restored(commits))
            again = reading((minute - 1) * STEP_MS, watts[minute - 1])
            again = again._replace(received_ms=START_MS + minute * STEP_MS)
            effects = pipeline.feed([again], again.received_ms, again.received_ms)
            commits.append(effects.commit)
        message = reading(minute * STEP_MS, power)
        effects = pipeline.feed([message], message.received_ms, message.received_ms)
        commits.append(effects.commit)
    [row] = [row for step in commits for row in step.outgoing]
    exact = Fraction(sum(watts), 60) / WORLD.group.quantum_wh
    assert exact - 1 < quanta((WORLD.leader, WORLD.helper), row) < exact + 1
    assert row.topic == "crowd/elm-street/report/h1"
    assert row.until_ms == START_MS + SLOT_MS + 1000 * WORLD.group.deadline_s
    assert not any(step.descriptors for step in commits)


@given(st.integers(0, 20_000_000_000), st.integers(1, SLOT_MS))
def test_an_accumulator_is_stored_modulo_2_64_quanta(value_u: int, duration_ms: int) -> None:
    """Energy that passes 2^64 quanta begins again at 0: a larger number would show that it did."""
    terms = schedule(hold="'10min'").usual
    size = MODULUS * terms.steps_per_quantum[0]
    window = ShareWindow(START_MS, terms, terms.id, (), "h1", None, 1, {0: size - 1})
    window.add_to_slot(0, START_MS, START_MS + duration_ms, value_u)
    [slot] = window.stored_state().slots
    assert slot.accumulator == (size - 1 + value_u * duration_ms) % size


def test_a_silent_meter_delivers_its_gap_value() -> None:
    """A slot without a reading is reported like any other."""
    pipeline = home(schedule(hold="'10min'"), 1)
    pipeline.feed([reading(-1, 0)], START_MS - 1, START_MS - 1)
    pipeline.feed([], START_MS, START_MS)
    end_ms = START_MS + 2 * SLOT_MS
    rows = [r for at in (START_MS + SLOT_MS, end_ms) for r in pipeline.feed([], at, at).commit.outgoing]
    assert [quanta((WORLD.leader, WORLD.helper), row) for row in rows] == [0, 0]


@pytest.mark.parametrize("roles", [(), ("leader",), ("helper",)])
def test_without_both_keys_no_slot_opens_and_none_is_charged(roles: Sequence[str]) -> None:
    """A slot whose pad or share could not be sealed costs nothing; the next one may open."""
    pipeline = home(schedule(hold="'10min'"), 1, roles)
    pipeline.feed([reading(-1, 0)], START_MS - 1, START_MS - 1)
    effects = pipeline.feed([], START_MS, START_MS)
    assert not effects.commit.charges
    assert effects.commit.marks == {"h1": START_MS + SLOT_MS}
    later_ms = START_MS + SLOT_MS
    assert not pipeline.feed([], later_ms, later_ms).commit.outgoing


def test_the_charge_is_that_of_the_group() -> None:
    """A window costs level / hide for each Wh of its slot, as epsilon in 1/W."""
    pipeline = home(schedule(hold="'10min'"), 1)
    pipeline.feed([reading(-1, 0)], START_MS - 1, START_MS - 1)
    [charge] = pipeline.feed([], START_MS, START_MS).commit.charges
    assert charge.epsilon_per_w == Fraction(1, 110) / 2  # 1 W for half an hour is 0.5 Wh


@pytest.mark.parametrize(
    ("source", "lattice"),
    [
        ({"kind": "'power'", "unit": "'W'"}, 1_800_000_000_000),
        ({"kind": "'power'", "unit": "'kW'"}, 1_800_000_000),
        ({"kind": "'register'", "unit": "'kWh'"}, 1_800_000_000),
        ({"kind": "'interval_energy'", "unit": "'Wh'", "interval": "'1min'"}, 30_000_000_000),
    ],
)
def test_a_quantum_in_the_units_of_any_reading(source: dict[str, str], lattice: int) -> None:
    """Half a Wh is the same energy whatever the meter sends: millionths of its unit times milliseconds."""
    terms = schedule(**source).usual
    assert terms.steps_per_quantum[0] == lattice
    assert (terms.value_unit, terms.hides_wh, terms.n) == ("Wh", Fraction(110), 1)
    assert terms.readings.kind is Kind(source["kind"].strip("'"))


def stopped_in_a_slot() -> Snapshot:
    """Return the store of a home that was stopped while a slot was open."""
    pipeline = home(schedule(hold="'10min'"), 1)
    steps = [([reading(-1, 600)], START_MS - 1), ([], START_MS), ([reading(STEP_MS, 0)], START_MS + STEP_MS)]
    return restored([pipeline.feed(batch, now_ms, now_ms).commit for batch, now_ms in steps])


def test_a_slot_closes_for_the_group_with_which_it_opened() -> None:
    """A home that pins another group in a slot still sends the slot's report to the first, and opens it."""
    other = Street(make_group(level="2"))
    keys = OperatorKeys(other.group, other.lists, commit)
    known = stream(
        schedule(hold="'10min'"),
        receivers=(Receiver("main", "crowd/other/{meter}"),),
        crowd=keys,
        ahead_ms=0,
    )
    pipeline = Pipeline(known, stopped_in_a_slot(), Spending(), SeededBits(2), Counts())
    end_ms = START_MS + SLOT_MS
    [row] = pipeline.feed([], end_ms, end_ms).commit.outgoing
    assert row.topic == "crowd/elm-street/report/h1"
    assert quanta((WORLD.leader, WORLD.helper), row) == pytest.approx(
        20, abs=1
    )  # 600 W for a minute is 10 Wh


def test_a_stream_that_leaves_its_group_drops_the_open_slot() -> None:
    """Without the group's cryptography a share could only leave in clear, so it does not leave at all."""
    pipeline = Pipeline(stream(ahead_ms=0), stopped_in_a_slot(), Spending(), SeededBits(2), Counts())
    end_ms = START_MS + SLOT_MS
    assert [row for row in pipeline.feed([], end_ms, end_ms).commit.outgoing if not row.retain] == []
