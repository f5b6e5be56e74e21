"""The Debian package in a booted system: installed, started, upgraded, removed and purged."""

import shutil
from pathlib import Path
from typing import Final

from tests.commands.systems import package, pages
from tests.commands.systems.booted import Booted
from tests.commands.systems.debian import Failed, output
from tests.commands.systems.services import (
    CLONE,
    CONFIG_PATH,
    Service,
    clone,
    confined,
    explained,
    login,
    more,
    restore,
    script,
    with_login,
)
from tests.commands.systems.trial import OK, Meter, charged, configuration, expect, wait

NEWER: Final = "1000.0-1"
UPGRADE: Final = "DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Options::=--force-confold install"
"""How a machine that nobody watches upgrades: a configuration that was changed is kept."""


def newer(built: Path) -> Path:
    """Return a package like `built`, with a higher version and another default configuration."""
    folder = built.parent / "newer"
    output(["dpkg-deb", "--raw-extract", str(built), str(folder)])
    control = folder / "DEBIAN" / "control"
    lines = control.read_text().splitlines()
    lines = [f"Version: {NEWER}" if line.startswith("Version: ") else line for line in lines]
    control.write_text("\n".join([*lines, ""]))
    with folder.joinpath(CONFIG_PATH[1:]).open("a") as file:
        file.write("# from the newer package\n")
    result = built.parent / f"meteragent_{NEWER}_all.deb"
    output(["dpkg-deb", "--root-owner-group", "--build", str(folder), str(result)])
    return result


def attempt(place: Booted, sdist: Path) -> str:
    """Build the package, install it as docs/install.md says, and try its unit; return a summary.

    Raises:
        Failed: Something is not as documented.
        Missing: There is no system that can build the package.

    """
    clone(place, sdist)
    folder = sdist.parent / "packages"
    folder.mkdir()
    built = package.build_once(sdist, folder)
    for file in (built, newer(built)):
        shutil.copy(file, place.path(CLONE))
    service = Service(place)
    install, checks = pages.blocks("docs/install.md", "## Debian package")
    before, after = pages.EDITOR.split(install)
    script(place, before)
    states = [place.ended("systemctl", word, "meteragent")[1].strip() for word in ("is-enabled", "is-active")]
    if states != ["disabled", "inactive"]:
        raise Failed(f"before it is configured the service is {' and '.join(states)}")
    login(place)
    text = with_login(configuration(f"{package.STATE}/meteragent.db"))
    place.path(CONFIG_PATH).write_text(text)
    meter = Meter(service, "private/+/power")
    try:
        with explained(service):
            script(place, after)
            wait("the first number", lambda: bool(meter.starts()))
            confined(service)
            service.kill()
            more(meter, "a kill -9")
            upgrade(service, text)
            more(meter, "an upgrade")
            slots = meter.starts()
            charged(service, CONFIG_PATH, len(slots))
            script(place, checks)
            restore(service, pages.blocks("docs/operate.md", "## Back up and restore")[1])
            expect("the agent that is stopped", service.stop(), OK)
    finally:
        meter.close()
    package.removal(place)
    if "meteragent.service" in place.run("systemctl", "list-unit-files", "--no-pager"):
        raise Failed("a purged package leaves its unit")
    return f"{len(slots)} slots, each once, through a kill -9 and an upgrade; purged, and the ledger kept"


def upgrade(service: Service, text: str) -> None:
    """Upgrade the package: the agent starts again, and the configuration stays. Raises Failed."""
    before = service.process_id
    script(service.place, f"{UPGRADE} ./meteragent_{NEWER}_all.deb")
    wait("a start after the upgrade", lambda: service.is_ready() and service.process_id not in {before, "0"})
    version = service.place.run("dpkg-query", "--show", "--showformat=${Version}", "meteragent")
    if version != NEWER or service.place.path(CONFIG_PATH).read_text() != text:
        raise Failed(f"after the upgrade: version {version}, or another configuration")
    service.stop()
    script(service.place, f"{UPGRADE} --reinstall ./meteragent_{NEWER}_all.deb")
    if service.is_ready():
        raise Failed("a package that is installed starts an agent that was stopped")
    service.start()
    if not service.place.path(f"{CONFIG_PATH}.dpkg-dist").exists():
        raise Failed("the newer default configuration is not beside the one that is kept")
