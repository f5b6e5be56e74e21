"""A fleet in a booted system, which grows from four agents to five as deploy/fleet/README.md says."""

from contextlib import ExitStack, closing
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

from tests.commands.systems import pages
from tests.commands.systems.booted import Booted
from tests.commands.systems.debian import Failed
from tests.commands.systems.services import CLONE, Service, clone, explained, script
from tests.commands.systems.trial import OK, SLOT_S, Meter, left, wait

PAGE: Final = "deploy/fleet/README.md"
METERS: Final = tuple(f"m{number}" for number in range(8))
BEFORE, AFTER = 4, 5
"""How many agents there are."""

CHANGES: Final = {
    'kind = "power"\n': 'kind = "power"\nprofile = "json"\nvalue = "power"\ntime = "t"\nevery = "1s"\n'
    'hold = "30s"\n',
    "mqtts://utility.example:8883": "mqtt://127.0.0.1:1883",
    'spread = "60s"': 'spread = "0s"',
    "[sink]\n": f'[window]\nlength = "{SLOT_S}s"\ncatch_up = "3s"\n\n[privacy]\nradius = 1\nlevel = 1\n'
    'accept = ["sparse_readings"]\n\n[sink]\n',
}
"""What an operator of the trial's fleet changes in fleet.toml."""


def attempt(place: Booted, sdist: Path) -> str:
    """Start four agents, and let five go on; return a summary.

    Raises:
        Failed: A slot left twice or is missing, or something is not as documented.

    """
    clone(place, sdist)
    file = place.path(f"{CLONE}/deploy/fleet/fleet.toml")
    text = file.read_text()
    for old, new in CHANGES.items():
        if old not in text:
            raise Failed(f"fleet.toml has no {old!r}")
        text = text.replace(old, new)
    file.write_text(text)
    _, install, *_ = pages.blocks("docs/install.md", "## Virtual environment")
    script(place, install.partition("install -D")[0])
    (start,) = pages.blocks(PAGE, "## With systemd")
    stop, ask, configure, go = pages.blocks(PAGE, "## More or fewer agents")
    first = Service(place, "meteragent@0")
    with ExitStack() as stack, explained(first):
        meters = [
            stack.enter_context(closing(Meter(first, f"private/{name}/power", name))) for name in METERS
        ]
        script(place, start)
        wait("two numbers of each meter", lambda: all(len(meter.starts()) >= 2 for meter in meters))
        script(place, stop)
        before = [left(meter.records()) for meter in meters]
        time_s = datetime.fromisoformat(script(place, f"{ask}\n{configure}").split()[-1]).timestamp()
        script(place, go)
        wait("new numbers of each meter", lambda: all(grown(meter, time_s) >= 2 for meter in meters))
        healthy(first)
        slots = [
            judged(starts, left(meter.records()), time_s)
            for starts, meter in zip(before, meters, strict=True)
        ]
        place.run("systemctl", "stop", "meteragent@*")
    return f"{sum(slots)} slots of {len(METERS)} meters, each once; {BEFORE} agents became {AFTER}"


def grown(meter: Meter, time_s: float) -> int:
    """Return how many slots of a meter left that begin at a time or later."""
    return sum(start >= time_s for start in left(meter.records()))


def healthy(service: Service) -> None:
    """Check the health of each agent. Raises Failed."""
    for number in range(AFTER):
        path = f"/etc/meteragent/fleet/{number}.toml"
        wait(f"health of agent {number}", lambda path=path: service.meteragent("health", path)[0] == OK)  # type: ignore[misc]


def judged(before: list[int], slots: list[int], time_s: float) -> int:
    """Check a meter's slots around the change, and return their number. Raises Failed."""
    after = [start for start in slots if start >= time_s]
    if [start for start in slots if start < time_s] != before:
        raise Failed("a slot from before the change left after it")
    for first, second in (*pairwise(before), *pairwise(after)):
        if second - first != SLOT_S:
            raise Failed(f"no slot between those of {first} and {second} left")
    return len(slots)
