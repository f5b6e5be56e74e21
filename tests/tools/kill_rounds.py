"""kill -9 in earnest: ``python -m tests.tools.kill_rounds --rounds 200``.

So many times each, under a burst feed and at random moments: the agent; one broker; one of two brokers.
Then every message that was ever received is judged, the noise held against its law, and the ledger
against what was released. It ends with 0 if nothing is missing, doubled or wrong, and with an
AssertionError that says what is otherwise. The tests of integration do the same with 25 rounds.
"""

import argparse
import asyncio
import logging
import tempfile
import time
from pathlib import Path

from tests.broker import Broker, mosquitto_program
from tests.integration import law
from tests.integration.agent import LOGS_SUBSCRIPTIONS
from tests.integration.judge import noise, slots
from tests.integration.ordeal import PLAN, UNLIMITED, Outcome, kill_agent, kill_brokers

AGENT_BURST = 500
BROKER_BURSTS = {1: 40, 2: 60}


async def rounds(program: Path, folder: Path, kills: int) -> None:
    """All of it, one after the other."""
    with Broker(program, _new(folder / "broker"), settings=LOGS_SUBSCRIPTIONS) as broker:
        begun_s = time.monotonic()
        outcome = await kill_agent(broker, _new(folder / "agent"), [PLAN, PLAN.noisy], kills, AGENT_BURST)
        report("the agent", kills, outcome, time.monotonic() - begun_s)
        windows = noise(PLAN.noisy, outcome.fed, outcome.receiver.messages)
        assert law.scale_passes(windows, PLAN.noisy.epsilon)
        assert law.rest_p(windows) > law.ALARM
        print(f"  the noise of {len(windows)} windows has its law", flush=True)
    for count, burst in BROKER_BURSTS.items():
        settings = LOGS_SUBSCRIPTIONS | UNLIMITED
        places = [_new(folder / f"{number}-of-{count}") for number in range(count)]
        brokers = [Broker(program, place, persistence=True, settings=settings) for place in places]
        begun_s = time.monotonic()
        try:
            running = [broker.start() for broker in brokers]
            outcome = await kill_brokers(running, _new(folder / f"at-{count}"), [PLAN], kills, burst)
        finally:
            for broker in brokers:
                broker.stop()
        report(f"one of {count} brokers", kills, outcome, time.monotonic() - begun_s)


def report(whom: str, kills: int, outcome: Outcome, seconds: float) -> None:
    """Judge, then say what there was."""
    outcome.agent.assert_kept(outcome.fed, outcome.receiver)
    fed = sum(map(len, outcome.fed.values()))
    released = sum(len(slots(PLAN, meter, outcome.receiver.messages)) for meter in outcome.fed)
    print(f"kill -9 of {whom}: {kills} times, {outcome.lives} of them after a release, in {seconds:.0f} s")
    print(
        f"  {fed} readings, {released} slots: none missing, none with two values, none wrong; "
        f"{outcome.receiver.records} records received with repetitions",
        flush=True,
    )


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main() -> None:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=200)
    kills = parser.parse_args().rounds
    program = mosquitto_program()
    if program is None:
        parser.exit(1, "NOT RUN: mosquitto is not on the path, nor in /usr/sbin\n")
    logging.getLogger("mqtt").setLevel(logging.CRITICAL)  # the feeder's client: connections that end
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(rounds(program, Path(folder), kills))


if __name__ == "__main__":
    main()
