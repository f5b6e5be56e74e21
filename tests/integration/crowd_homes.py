"""Homes of a crowd that are killed, by a wall clock that runs fast; their reports, opened by both operators.

A quantum is so fine that a total without its noise is exact.
"""

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from itertools import chain, takewhile
from pathlib import Path
from typing import NamedTuple

from meteragent.crowd.draw import draw_noise
from meteragent.crowd.machine import Machine
from meteragent.crowd.message import Report, batch_digest, reports_digest
from meteragent.crowd.seal import PAD, SHARE, seal_info
from meteragent.domain.grid import parse_time
from meteragent.store import read_only
from simulators.commands.replay import connect
from tests.integration.hurried import FastClock, make_clock
from tests.integration.plan import HOLD_MS, Curve, Reading
from tests.integration.service import count_in_log, end_tasks, service, stream, subscribed, until
from tests.integration.wire import feed, publication
from tests.support.broker import Broker
from tests.support.crowd import Street, fixed_entropy, group_text, make_group
from tests.support.stores import stored_states

HOUR_MS, HOUR_S = 3_600_000, 3600
BEGIN_MS = parse_time("2033-05-16T20:10:00Z")
FIRST_MS = parse_time("2033-05-16T21:00:00Z")
HOMES = ("h0", "h1", "h2")
CHANGES = {
    "slot_s": "3600",
    "quantum_wh": '"0.000001"',
    "lowest_wh": "-5000",
    "highest_wh": "20000",
    "smallest_crowd": str(len(HOMES)),
    "deadline_s": str(24 * HOUR_S),
}
"""A quantum of a millionth of a watt hour; a deadline that even a slow start on a loaded machine keeps."""
KEYS_SUBSCRIBED = r"Sending SUBACK to meteragent-\w+-sink"
LATTICE = 3_600_000
"""One quantum in the accumulator's units, uW ms."""


class Arrival(NamedTuple):
    """A report as it arrived: the label of its topic, its bytes, and when."""

    label: str
    payload: bytes
    at_s: int


def readings(hours: int) -> Iterator[tuple[str, Reading]]:
    """Yield the readings of all homes, from before the first slot until after the last."""
    rng = random.Random(7)
    for home in HOMES:
        time_ms = BEGIN_MS + HOUR_MS // 3
        while time_ms < FIRST_MS + (hours + 2) * HOUR_MS:
            yield home, Reading(time_ms, f"{rng.randrange(6_000_000) / 1000}")
            time_ms += rng.randrange(60_000, 400_000)


async def publish(url: str, clock: FastClock, hours: int) -> None:
    """Publish every reading at its time."""
    messages = ((reading.time_ms, publication(home, reading)) for home, reading in readings(hours))
    waiting = sorted(messages, key=lambda item: item[0])
    while waiting:
        due = [message for at_ms, message in waiting if at_ms <= clock()]
        waiting = waiting[len(due) :]
        await feed(url, due)
        await asyncio.sleep(0.05)


def configuration(
    url: str,
    folder: Path,
    *,
    changes: Mapping[str, str] = CHANGES,
    lateness: str = "1h",
    sink_url: str | None = None,
) -> str:
    """Return the agent's stream, in the group whose file is in its folder."""
    (folder / "group.toml").write_text(group_text(**changes))
    window = f'lateness = "{lateness}"\ncatch_up = "{lateness}"'
    text = stream(url, sink_url, source=f'hold = "{HOLD_MS}ms"', window=f"length\n{window}", privacy="")
    text = text.replace("[stream.window]\nlength\n", "[stream.window]\n")
    sink = f'[stream.sink.crowd]\ngroup = "{folder / "group.toml"}"\nid = "{make_group(**changes).id.hex()}"'
    return text.replace('topic = "private/main/{meter}"', sink)


async def note(url: str, clock: FastClock, arrivals: list[Arrival], ready: asyncio.Event) -> None:
    """Note every report that arrives."""
    async with connect(url) as client:
        await client.subscribe("crowd/elm-street/report/+", qos=1)
        ready.set()
        async for message in client.messages:
            label = str(message.topic).rpartition("/")[2]
            arrivals.append(Arrival(label, bytes(message.payload), clock() // 1000))


async def publish_lists(url: str, world: Street) -> None:
    """Publish both operators' lists of keys, retained."""
    async with connect(url) as client:
        for machine in (world.leader, world.helper):
            payload = machine.renew_keys(BEGIN_MS // 1000, fixed_entropy(machine.role)).messages[0].payload
            await client.publish(f"crowd/elm-street/keys/{machine.role}", payload, qos=1, retain=True)


async def live(
    broker: Broker, folder: Path, world: Street, kills: int, seed: int, *, is_stopped: bool
) -> tuple[list[Arrival], int]:
    """Run homes that are killed or stopped again and again, half of the times when a report has just left.

    Return what arrived, and how many windows were charged, without those that were still open.
    """
    arrivals, ready, rng = list[Arrival](), asyncio.Event(), random.Random(seed)
    await publish_lists(broker.url, world)
    with service(folder, "", program=("tests.integration.hurried",)) as agent:
        agent.path.write_text(agent.path.read_text() + configuration(broker.url, folder))
        clock = make_clock(folder, BEGIN_MS, stands=True)
        noting = asyncio.create_task(note(broker.url, clock, arrivals, ready))
        await ready.wait()
        agent.start()
        await subscribed(broker, 1)
        await until(lambda: count_in_log(broker, KEYS_SUBSCRIBED) >= 2)
        clock.start()
        publishing = asyncio.create_task(publish(broker.url, clock, kills + 2))
        for life in range(kills):
            if life % 2:
                count = len(arrivals)
                await until(lambda count=count: len(arrivals) > count)  # type: ignore[misc]
            else:
                at_ms = FIRST_MS + (life + 1 + rng.random()) * HOUR_MS
                await until(lambda at_ms=at_ms: clock() >= at_ms)  # type: ignore[misc]
            await (agent.interrupt(rng) if is_stopped else agent.kill())
            agent.start()
        await publishing
        last_s = (FIRST_MS + (kills + 1) * HOUR_MS) // 1000
        group_id = world.group.id
        await until(
            lambda: (
                {a.label for a in arrivals if Report.decode(group_id, a.payload).slot_s >= last_s} == {*HOMES}
            )
        )
        await agent.stop()
        spent = json.loads(agent.command("ledger", "--json").stdout)["spent"]
        charged = sum(row["windows"] for row in spent) - unfinished(agent.store)
        with suppress(TimeoutError):
            await until(lambda: len({arrival.payload for arrival in arrivals}) >= charged)
        await end_tasks(noting)
    return arrivals, charged


def unfinished(store: Path) -> int:
    """Return how many windows of a store are open, and how many of its reports have not left."""
    with read_only(store) as connection:
        [(reports,)] = connection.execute("SELECT count(*) FROM outbox")
    return sum(len(state.windows) for _, _, state in stored_states(store)) + int(reports)


def opened(machine: Machine, purpose: int, report: Report) -> int:
    """Open the operator's part of a report."""
    keys = machine.keys_of_slot(report.slot_s)
    assert keys is not None
    place = seal_info(purpose, machine.group.id, report.slot_s, keys.id, report.label.encode())
    value = keys.unseal_number(report.pad if purpose == PAD else report.share, place)
    assert value is not None
    return value


def noise(world: Street, reports: list[bytes]) -> int:
    """Return the sum of both operators' draws for a batch, in the order of its labels."""
    group, decoded = world.group, [Report.decode(world.group.id, payload) for payload in reports]
    slot_s = decoded[0].slot_s
    digests = (
        reports_digest(group.id, slot_s, reports),
        batch_digest(group.id, slot_s, [report.entry for report in decoded]),
    )
    keys = [machine.keys_of_slot(slot_s) for machine in (world.leader, world.helper)]
    return sum(
        draw_noise(key.noise, group.id, slot_s, digest, group.loss_per_quantum)
        for key, digest in zip(keys, digests, strict=True)
        if key is not None
    )


def traces(number: int) -> list[bytes]:
    """Return the texts and bytes in which a number of 64 bits would be found in a file."""
    return [str(number).encode(), b"%x" % number, number.to_bytes(8, "big"), number.to_bytes(8, "little")]


def accumulators(share: int) -> bytes:
    """Return the digits with which every accumulator of a complete slot with this share begins."""
    first, last = str(share * LATTICE), str((share + 1) * LATTICE - 1)
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(digit for digit, _ in equal).encode()


async def kill(
    folder: Path, broker: Broker, *, rounds: int, seed: int = 0, is_stopped: bool = False
) -> dict[str, int]:
    """Kill the agent of all homes `rounds` times, or stop it; return counts of what its reports add up to.

    missing   charged slots without a report, or reports without a charge
    unopened  slots that were not charged, because the agent was away for too long

    Raises AssertionError if a report was refused or a secret of a report is in a file.
    """
    world = Street(make_group(**CHANGES))
    forms: dict[tuple[int, str], set[bytes]] = defaultdict(set)
    arrivals, charged = await live(broker, folder, world, rounds, seed, is_stopped=is_stopped)
    for arrival in arrivals:
        report = Report.decode(world.group.id, arrival.payload)
        assert report.label == arrival.label
        forms[report.slot_s, report.label].add(arrival.payload)
        refusals = world.leader.take_report(arrival.label, arrival.payload, arrival.at_s).refusals
        assert refusals in ([], ["repeated"], ["second_report"])
    hours = rounds + 2
    starts_s = [(FIRST_MS + hour * HOUR_MS) // 1000 for hour in range(hours)]
    reports = [[forms.get((start_s, home), set()) for home in HOMES] for start_s in starts_s]
    curves = [Curve(reading for name, reading in readings(hours) if name == home) for home in HOMES]
    hours_complete = [hour for hour, slot in enumerate(reports) if all(slot)]
    errors = [
        error_quanta(world, curves, hour, [min(form) for form in reports[hour]]) for hour in hours_complete
    ]
    assert_not_stored(world, forms, folder)
    return {
        "reports": sum(map(bool, chain.from_iterable(reports))),
        "unopened": sum(not form for form in chain.from_iterable(reports)),
        "missing": abs(charged - len(forms)),
        "doubled": sum(len(form) > 1 for form in chain.from_iterable(reports)),
        # A dither moves a home by less than a quantum.
        "wrong": sum(abs(error) >= len(HOMES) for error in errors),
    }


def error_quanta(world: Street, curves: list[Curve], hour: int, reports: list[bytes]) -> Fraction:
    """Return how far a total without the operators' draws is from what the homes used, in quanta."""
    start_ms = FIRST_MS + hour * HOUR_MS
    record = total(world, start_ms // 1000)
    assert record["homes"] == len(HOMES)
    quanta = Fraction(str(record["value"])) * 10**6 - noise(world, reports)
    energies = [curve.energy(start_ms + HOUR_MS) - curve.energy(start_ms) for curve in curves]
    return quanta - Fraction(sum(energies), LATTICE)


def assert_not_stored(world: Street, forms: dict[tuple[int, str], set[bytes]], folder: Path) -> None:
    """Fail if a file of the agent holds the share, pad, accumulator or report of a slot that has left."""
    files = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for (slot_s, label), payloads in forms.items():
        report = Report.decode(world.group.id, next(iter(payloads)))
        share, pad = opened(world.leader, SHARE, report), opened(world.helper, PAD, report)
        assert len(accumulators(share)) > 10
        for path, content in files.items():
            assert not any(trace in content for trace in [*traces(share), *traces(pad)]), (
                path,
                slot_s,
                label,
            )
            assert accumulators(share) not in content, (path, slot_s, label)
            assert next(iter(payloads)) not in content, path  # deleted on delivery


def total(world: Street, slot_s: int) -> dict[str, object]:
    """Run the operators' part for a slot; return the published total."""
    now_s = world.deadline_s(slot_s)
    request = [m.payload for m in world.leader.tick(now_s).messages if m.topic == "request"]
    answers = [m for payload in request for m in world.helper.take_request(payload, now_s).messages]
    records = [r for answer in answers for r in world.leader.take_answer(answer.payload, now_s).messages]
    [record] = [json.loads(r.payload, parse_float=str) for r in records if r.topic == "total"]
    return dict(record)
