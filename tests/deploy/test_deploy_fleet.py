"""The recipes for fleets: files that the agent and systemd read, numbers that the agent computes."""

import re
import subprocess
from pathlib import Path

import pytest

from meteragent import config
from meteragent.config.model import Source
from meteragent.config.source import fleet_share
from meteragent.domain.identity import fnv1a
from tests.support.configurations import written
from tests.support.not_run import ROOT

FLEET = ROOT / "deploy" / "fleet"
README = (FLEET / "README.md").read_text()
UNIT = FLEET / "meteragent@.service"


def source(topic: str, shard: str) -> Source:
    """The source of an agent of a fleet."""
    return config.parse(written(source=f'topic = "{topic}"\nshard = "{shard}"')).stream[0].source


@pytest.mark.parametrize("number", [0, 7])
def test_the_template_is_a_configuration(number: int) -> None:
    """With its two words replaced it is that of one agent of eight: all else is the same."""
    text = (FLEET / "fleet.toml").read_text()
    stream = config.parse(text.replace("@SHARD@", str(number)).replace("@COUNT@", "8")).stream[0]
    assert fleet_share(stream.source) == f"{number}/8 by name"
    assert text.count("@SHARD@/@COUNT@") == 1


def test_the_store_is_found_from_any_folder() -> None:
    """It is named in full, in the state directory that the unit gives to the instance of the same number."""
    text = (FLEET / "fleet.toml").read_text().replace("@SHARD@", "2").replace("@COUNT@", "8")
    [state] = re.findall(r"^StateDirectory=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert config.parse(text).store.path.parent == Path("/var/lib") / state.replace("%i", "2")


def test_the_branches_are_those_that_nats_maps_to() -> None:
    """What nats.conf makes of a meter's topic is on the branch that the agent of its number reads."""
    [(before, after)] = re.findall(r'"([^"]*power)": "([^"]*)"', (FLEET / "nats.conf").read_text())
    [topic] = re.findall(r'source\.topic = "([^"]*)"', (FLEET / "nats.conf").read_text())
    assert before == "meters.*.power"
    [count] = re.findall(r"{{partition\((\d+),1\)}}", after)
    subject = re.sub("{{partition.*?}}", str(fnv1a(b"m1") % int(count)), after)
    subject = subject.replace("{{wildcard(1)}}", "m1").replace(".", "/")
    shard = f"{fnv1a(b'm1') % int(count)}/{count}"
    assert config.topic_of(source(topic, shard)).meter_of(subject) == "m1"


def test_the_known_answers_are_right() -> None:
    """Of each meter in the table, its hash and its shard."""
    rows = re.findall(r"^\| `(\S+)` \| 0x([0-9A-F]{8}) \| (\d) \| (\d) \|$", README, re.MULTILINE)
    assert len(rows) == 4
    for name, number, of_4, of_8 in rows:
        found = fnv1a(name.encode())
        assert (f"{found:08X}", found % 4, found % 8) == (number, int(of_4), int(of_8))


@pytest.mark.parametrize("topic", re.findall(r"^\| `([^`]*\{meter\}[^`]*)` \|", README, re.MULTILINE))
def test_the_topics_that_are_named_are_topics(topic: str) -> None:
    """The agent reads them."""
    read = config.topic_of(source(topic, "2/8"))
    assert read.filter == topic.replace("{meter}", "+").replace("{shard}", "2")


def test_the_unit_is_that_of_one_agent() -> None:
    """It differs only in what is specific to an instance; the sandbox is the same."""
    item = (ROOT / "deploy" / "systemd" / "meteragent.service").read_text().splitlines()
    each = UNIT.read_text().splitlines()
    differ = [line for before, line in zip(item, each, strict=True) if before != line]
    assert all("%i" in line for line in differ)
    assert {line.partition("=")[0] for line in differ if not line.startswith("#")} == {
        "Description",
        "ExecStart",
        "StateDirectory",
        "WorkingDirectory",
    }


def test_systemd_understands_the_template(systemd_analyze: Path, tmp_path: Path) -> None:
    """It has nothing to remark on an instance."""
    here = tmp_path / UNIT.name
    here.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text()))
    instance = tmp_path / "meteragent@2.service"
    instance.symlink_to(here)
    command = [str(systemd_analyze), "verify", "--recursive-errors=no", str(instance)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (result.returncode, "meteragent" in result.stdout + result.stderr) == (0, False)
