"""Agent, collector and both operators of a group in one booted system, with the units that are shipped.

Each service is killed and must come back, and each must be healthy in the figures that the one file of alerts
reads. The collector must have each slot of the agent once.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.commands.systems.booted import Booted
from tests.commands.systems.debian import Failed
from tests.commands.systems.services import CLONE, Service, clone, confined, explained, script
from tests.commands.systems.trial import OK, Meter, configuration, expect, wait

FOLDER: Final = "/etc/meteragent"
ROLES: Final = ("leader", "helper")
UNITS: Final = {
    "meteragent": f"{FOLDER}/meteragent.toml",
    "meteragent-collect": f"{FOLDER}/collect.toml",
    **{f"meteragent-crowd@{role}": f"{FOLDER}/crowd-{role}.toml" for role in ROLES},
}
"""The units of the services, and their configurations."""
READY_S: Final = 180.0

INSTALL: Final = f"""
python3 -m venv /opt/meteragent
/opt/meteragent/bin/pip install '.[page,collect,crowd]'
ln -sfn /opt/meteragent/bin/meteragent /usr/local/bin/
install -d {FOLDER}
cp deploy/systemd/*.service deploy/collect/*.service deploy/crowd/*.service /etc/systemd/system/
for role in leader helper; do meteragent crowd key new {FOLDER}/crowd-$role.key; done
install -m 600 /dev/null {FOLDER}/collect.mqtt
install -m 600 /dev/stdin {FOLDER}/collect.postgres <<< 'a password'
su postgres -c "psql -c \\"CREATE ROLE collect LOGIN PASSWORD 'a password'\\""
su postgres -c "createdb --owner=collect --encoding=UTF8 --template=template0 utility"
for role in leader helper; do install -m 600 /dev/null {FOLDER}/crowd-$role.mqtt; done
systemctl daemon-reload
"""
COLLECT: Final = """
[source]
url = "mqtt://127.0.0.1:1883"
client_id = "collect"

[[stream]]
name = "main"
topic = "private/{meter}/power"

[database]
url = "postgresql://collect@127.0.0.1/utility"
password_file = "/run/credentials/meteragent-collect.service/postgres"

[accept]
max_per_day = 17280

[health]
socket = "/run/meteragent-collect/health"
"""
OPERATOR: Final = """
group_file = "{folder}/group.toml"
identity_file = "/run/credentials/meteragent-crowd@{role}.service/identity"
broker.url = "mqtt://127.0.0.1:1883"
store.path = "/var/lib/meteragent-crowd-{role}/operator.db"
"""
ROWS: Final = "SELECT extract(epoch FROM t)::bigint FROM meteragent.record ORDER BY t"
"""The start of each record that the collector has written."""


def attempt(place: Booted, sdist: Path) -> str:
    """Install and start all services, kill each, and compare what was collected; return a summary.

    Raises:
        Failed: A service does not come back, is not well, or lacks a slot.

    """
    clone(place, sdist)
    script(place, INSTALL)
    for path, text in configurations(place):
        place.path(path).write_text(text)
    services = [Service(place, unit) for unit in UNITS]
    agent, collector = services[:2]
    with explained(collector), closing(Meter(agent)) as meter:
        for service in services:
            service.start()
        wait("the first number", lambda: bool(meter.starts()), seconds=READY_S)
        for service in services:
            with explained(service):
                service.kill()
                healthy(service)
                confined(service)
        count = len(meter.starts())
        wait("numbers after the kills", lambda: len(meter.starts()) >= count + 2)
        for service in services:
            has_figures(service)
        slots = meter.starts()
        wait("all slots at the collector", lambda: set(slots) <= set(collected(place)))
        rows = collected(place)
        if len(rows) != len(set(rows)):
            raise Failed(f"the collector has a slot twice: {rows}")
        for service in services:
            expect(f"{service.unit} that is stopped", service.stop(), OK)
    return f"{len(slots)} slots, each collected once, through a kill -9 of {len(services)} services"


def configurations(place: Booted) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each service's configuration, and of the group's file."""
    agent, collector, *operators = UNITS.values()
    yield agent, configuration("/var/lib/meteragent/meteragent.db")
    yield collector, COLLECT
    group = (place.path(f"{CLONE}/deploy/crowd/group.toml")).read_text()
    for role, path in zip(ROLES, operators, strict=True):
        yield path, OPERATOR.format(role=role, folder=FOLDER)
        line = place.run("meteragent", "crowd", "key", "show", f"{FOLDER}/crowd-{role}.key").strip()
        group = re.sub(rf'(\[{role}\]\n.*\n)identity = "\w+"', rf"\1{line}", group)
    yield f"{FOLDER}/group.toml", group


def healthy(service: Service) -> None:
    """Check that a service says that it is well. Raises Failed."""
    path = UNITS[service.unit]
    wait(f"health of {service.unit}", lambda: service.meteragent("health", path)[0] == OK, seconds=READY_S)


def has_figures(service: Service) -> None:
    """Check the figures that the file of alerts reads: the same of each service. Raises Failed."""
    code, text = service.meteragent("health", UNITS[service.unit], "--metrics")
    expect(f"figures of {service.unit}", code, OK)
    # An operator's figures have labels with its group and role.
    if (
        not re.search(r"^meteragent_healthy(\{.*\})? 1$", text, re.MULTILINE)
        or "\nmeteragent_problem{" in text
    ):
        raise Failed(f"{service.unit} has problems, or does not say that it is well: {text}")


def collected(place: Booted) -> list[int]:
    """Return the starts of the slots that the collector has written."""
    return [int(line) for line in place.run("su", "postgres", "-c", f'psql -At -c "{ROWS}" utility').split()]
