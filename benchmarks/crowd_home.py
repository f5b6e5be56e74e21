"""Measure what a crowd's slot costs a home: `python -m benchmarks.crowd_home`.

The agent runs without its connections, with a store on the project's disk and one meter. The clock closes a
slot and opens the next one in the same step, so there is one commit for each slot. For comparison, the same
stream is measured with noise of its own. CPU times are those of the process, and medians over the rounds.
Finally, new processes measure the memory that the modules of the extra `crowd` add.
"""

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.harness import ROOT, ROUNDS
from benchmarks.line import folder, open_store
from meteragent import config
from meteragent.agent.link.crowd import OperatorKeys
from meteragent.agent.parts import core_of
from meteragent.core.charges import Spending
from meteragent.core.pipeline import Pipeline
from meteragent.core.stream import Stream
from meteragent.crowd import group as groups
from meteragent.crowd import home
from meteragent.crowd.machine import Machine
from meteragent.crowd.seal import Identity
from meteragent.domain.commit import Outgoing, Receiver
from meteragent.domain.counters import Counts
from meteragent.domain.reading import Message
from meteragent.privacy.bits import SystemBits
from meteragent.store import transaction

NOW_MS, SLOT_MS = 1_800_000_000_000, 1_800_000
SLOTS = 40
"""The number of slots in a round; the operators' keys for all of their days are known."""
TEXT = """
[source]
topic = "m/power"
meter = "home-17"
profile = "json"
time = "t"
kind = "power"
unit = "W"
[window]
length = "30min"
range = [0, 10000]
forget = "30d"
[sink]
topic = "private/{meter}/power"
"""
GROUP = """
version = 1
name = "elm-street"
slot_s = 1800
quantum_wh = "0.5"
level = 1
hide_wh = 110
lowest_wh = -5000
highest_wh = 10000
smallest_crowd = 10
deadline_s = 1200
answer_s = 86400
"""
IMPORTS = """
from pathlib import Path
import meteragent.agent.runner
def rss_kb():
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])
before = rss_kb()
import meteragent.agent.link.crowd
from meteragent.crowd.seal import is_usable
is_usable(bytes([9]) + bytes(31))
print(rss_kb() - before)
"""


class Operator(Machine):
    """An operator that only publishes keys."""

    def is_closed(self, _slot_s: int, _now_s: int) -> bool:
        """Return False, because this operator never closes a slot."""
        return False


def street() -> tuple[groups.Group, OperatorKeys]:
    """Return a group, and its operators' public keys as a home stores them."""
    identities = {role: Identity(bytes([number]) * 32) for number, role in enumerate(groups.ROLES, start=1)}
    tables = [
        f'[{role}]\nname = "{role}"\nidentity = "{key.public.hex()}"' for role, key in identities.items()
    ]
    group, lists = groups.parse_group("\n".join([GROUP, *tables])), {}
    for role, identity in identities.items():
        operator = type(role, (Operator,), {"role": role})(group, identity, {})
        payload = operator.renew_keys(NOW_MS // 1000, os.urandom).messages[0].payload
        lists[role] = home.decode_key_list(group, role, payload, 0)

    async def commit(_role: str, _serial: int, _payload: bytes) -> None:
        """Do nothing, because no new list of keys arrives."""
        await asyncio.sleep(0)

    return group, OperatorKeys(group, lists, commit)


def streams() -> dict[str, Stream]:
    """Return, by name, a stream with noise of its own and the same stream in a crowd."""
    [plain] = config.parse(TEXT).stream
    local = core_of(plain, config.other_charges_per_day(config.parse(TEXT), plain), None, bytes(32))
    group, keys = street()
    terms = {"level": group.level, "radius": group.hide_wh, "quantum": group.quantum_wh}
    member = plain.with_changes(group=group, privacy=terms)
    leader = Receiver(local.name, f"crowd/{group.name}/report/{{meter}}")
    crowd = replace(local, schedule=config.schedule(member), receivers=(leader,), crowd=keys)
    return {"noise of its own": local, "in a crowd": crowd}


def run(stream: Stream, path: Path, slots: int) -> tuple[float, list[Outgoing]]:
    """Run a home for `slots` slots; return the CPU seconds per slot, and the records or reports released."""
    rows: list[Outgoing] = []
    with open_store(path) as store:
        pipeline = Pipeline(stream, store.snapshot(stream.name), Spending(), SystemBits(), Counts())
        reading = b'{"power":500,"t":%d}' % (NOW_MS - 1)
        steps = [[Message("m/power", reading, False, NOW_MS - 1, None)], *([] for _ in range(slots + 1))]
        start_s = 0.0
        for number, messages in enumerate(steps):
            now_ms = NOW_MS - 1 if messages else NOW_MS + (number - 1) * SLOT_MS
            if number == 2:
                start_s = time.process_time()
            effects = pipeline.feed(messages, now_ms, now_ms)
            transaction.commit(store, effects.commit, [], None, 0)
            store.erase_log()
            rows += effects.commit.outgoing
        return (time.process_time() - start_s) / slots, [row for row in rows if not row.retain]


def main() -> None:
    """Measure, and print the figures."""
    for name, stream in streams().items():
        with folder() as path:
            results = [run(stream, path / f"{number}", SLOTS) for number in range(ROUNDS)]
        cpu_us = 1e6 * median(cpu_s for cpu_s, _ in results)
        [row, *_] = results[0][1]
        size = len(row.payload) + len(row.topic)
        print(
            f"{name}: {cpu_us:.0f} us of CPU time per slot, {len(row.payload)} bytes, {size} with the topic"
        )
    command = [sys.executable, "-c", IMPORTS]
    memory = [int(subprocess.check_output(command, cwd=ROOT, text=True)) for _ in range(ROUNDS)]
    print(f"memory of the extra `crowd`: {median(memory) / 1000:.1f} MB")


if __name__ == "__main__":
    main()
