"""The commands of docs/install.md for containers and locks are those that `make image` and the images use."""

import re

import yaml

from tests.commands import lock
from tests.commands.systems import chain, containers, images, pages
from tests.support.not_run import ROOT

SHUT = {
    ("--read-only",),
    ("--cap-drop", "ALL"),
    ("--security-opt", "no-new-privileges"),
    ("--ulimit", "core=0"),
}
SHUT |= {("--memory", "256m"), ("--memory-swap", "256m"), ("--stop-timeout", "30")}
"""The options that keep the agent's container apart, and readings off the disk."""


def test_the_page_s_docker_commands_are_those_that_are_tried() -> None:
    """`make image` shuts the agent in with the printed options, and mounts and asks what the page does."""
    options = containers.printed()
    assert {option for option in options if option[0] not in containers.OF_THE_TRIAL} == SHUT
    mounts = {option[1].strip('"') for option in options if option[0] == "-v"}
    paths = f"$PWD/meteragent.toml:{containers.CONFIG_PATH}:ro", "meteragent:/var/lib/meteragent"
    assert mounts == set(paths)
    for words in ("check", "health"):
        line = pages.command(
            "docs/install.md", "## Docker", f"docker exec meteragent {containers.PROGRAM} {words}"
        )
        assert line.endswith(f" {containers.CONFIG_PATH}")
    line = pages.command("docs/install.md", "## Docker", "docker build")
    assert line == f"docker build -f {images.DOCKERFILE} -t meteragent ."


def test_the_page_s_compose_commands_are_of_the_chain() -> None:
    """They name the file that `make image` runs, and services of it."""
    file = chain.COMPOSE.relative_to(ROOT).as_posix()
    lines = "".join(pages.blocks("docs/install.md", "## Compose")).splitlines()
    assert all(line.startswith(f"docker compose -f {file} ") for line in lines)
    services = [line.split(" exec ")[1].split()[0] for line in lines if " exec " in line]
    assert services == ["agent", "agent", "utility"]
    assert set(services) <= set(yaml.safe_load(chain.COMPOSE.read_text())["services"])


def test_the_page_installs_the_locked_packages() -> None:
    """The locks that it names exist, and pip checks each package by its hash; nothing else has an index."""
    (block,) = pages.blocks("docs/install.md", "## Packages by hash")
    installs = [line for line in block.splitlines() if "/pip " in line]
    for line in installs:
        assert "--require-hashes -r deploy/container/" in line or "--no-deps" in line
    assert {ROOT / name for name in re.findall(r"-r (\S+)", block)} == {
        lock.CONTAINER / "build.lock.txt",
        lock.CONTAINER / "agent.lock.txt",
    }
    assert f"Python {lock.python_version()}" in (ROOT / "docs" / "install.md").read_text()
