"""The agent's image under podman, as the service that deploy/quadlet describes, in a booted system.

The image is built in the system without a network, on the system's own files instead of Python's image. Two
limits are not tried, because the machine's control groups may lack the controllers of version 2: those of
memory and of processes.
"""

import shutil
from pathlib import Path
from typing import Final

from tests.commands.systems import booted, pages
from tests.commands.systems.booted import OFFLINE, Booted
from tests.commands.systems.services import CLONE, CONFIG_PATH, Service, clone, explained, more, script
from tests.commands.systems.trial import OK, Meter, charged, configuration, expect, wait

NAME: Final = "systemd-meteragent"
PROGRAM: Final = "/opt/meteragent/bin/meteragent"
LIMITS: Final = '"nofile=4096:4096", "nproc=4096:4096"'
CONTAINERS: Final = f"[containers]\npids_limit = 0\ndefault_ulimits = [{LIMITS}]\n"
"""What podman must not do where root may not raise limits, and control groups have no controllers."""

OPTIONS: Final = "--isolation=chroot --network=host --ulimit=nofile=4096:4096 --ulimit=nproc=4096:4096"
DROP_IN: Final = """
[Container]
PodmanArgs=
PodmanArgs=--stop-timeout=30
Network=host
HealthInterval=5s
HealthStartPeriod=0s
"""
"""What differs from the unit that is shipped: no limit of memory, the broker's network, a quicker check."""

ENVIRONMENT: Final = " ".join(f"--change 'ENV {name}={value}'" for name, value in OFFLINE.items())
STAND_IN: Final = f"""
printf 'FROM localhost/raw\\nRUN ln -s python3 /usr/bin/python\\n' > /srv/Dockerfile
podman import {ENVIRONMENT} /srv/base.tar localhost/raw
podman build {OPTIONS} -t localhost/python -f /srv/Dockerfile {CLONE}
"""


def attempt(place: Booted, sdist: Path) -> str:
    """Build the image, start the service as docs/install.md says, and kill it; return a summary.

    Raises:
        Failed: Something is not as documented.

    """
    clone(place, sdist)
    shutil.copy(booted.base(), place.path("/srv/base.tar"))
    folder = place.path("/etc/containers/systemd/meteragent.container.d")
    folder.mkdir(parents=True)
    (folder / "trial.conf").write_text(DROP_IN)
    place.path("/etc/containers/containers.conf").write_text(CONTAINERS)
    install, _ = pages.blocks("docs/install.md", "## Podman")
    script(place, STAND_IN)
    place.path(CONFIG_PATH).parent.mkdir()
    place.path(CONFIG_PATH).write_text(configuration("/var/lib/meteragent/meteragent.db"))
    service = Container(place)
    meter = Meter(service)
    try:
        script(
            place,
            install.replace("podman build", f"podman build {OPTIONS} --build-arg PYTHON=localhost/python"),
        )
        with explained(service):
            wait("the first number", lambda: bool(meter.starts()))
            wait("healthy in podman", lambda: service.health() == "healthy")
            service.kill()
            more(meter, "a kill -9")
            slots = meter.starts()
            charged(service, CONFIG_PATH, len(slots))
            expect("health", service.meteragent("health", CONFIG_PATH)[0], OK)
            expect("the agent that is stopped", service.stop(), OK)
    finally:
        meter.close()
    return f"{len(slots)} slots, each once, through a kill -9; healthy; its limit of memory was NOT RUN"


class Container(Service):
    """The service that Quadlet makes of the file."""

    def meteragent(self, *words: str) -> tuple[int, str]:
        """Run a command of meteragent in the agent's container."""
        return self.place.ended("podman", "exec", NAME, PROGRAM, *words)

    def health(self) -> str:
        """Return what podman's check says."""
        return self.place.ended("podman", "inspect", "--format={{.State.Health.Status}}", NAME)[1].strip()

    def kill(self) -> None:
        """Kill the agent's process with SIGKILL; systemd starts the container again."""
        before = self.agent()
        self.place.run("kill", "-KILL", before)
        wait("a restart", lambda: self.agent() not in {before, "0", ""})

    def agent(self) -> str:
        """Return the id of the agent's process, 0 if it does not run."""
        code, text = self.place.ended("podman", "inspect", "--format={{.State.Pid}}", NAME)
        return text.strip() if code == OK else "0"
