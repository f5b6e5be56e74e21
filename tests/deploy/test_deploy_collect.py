"""What deploy/collect ships is accepted, and docs/collect.md says what there is."""

import re

from meteragent.collect import configuration, source_table
from meteragent.collect.core import REASONS, Limits
from tests.support.not_run import ROOT

FOLDER = ROOT / "deploy" / "collect"
DOCUMENT = (ROOT / "docs" / "collect.md").read_text()


def test_the_configuration_is_accepted() -> None:
    """The shipped file is valid with its comments removed, and has every key."""
    text = (FOLDER / "collect.toml").read_text()
    text = re.sub(r"^password_file.*$", "", text, flags=re.MULTILINE)
    settings = configuration.parse(text)
    assert settings.stream[0].topic == "private/{meter}/power"
    written = set(re.findall(r"^(?:# )?(\w+) = ", (FOLDER / "collect.toml").read_text(), re.MULTILINE))
    tables = (
        source_table.Source,
        configuration.Stream,
        configuration.Database,
        configuration.Dataset,
        configuration.Accept,
        configuration.Health,
    )
    assert written == {key for table in tables for key in table.model_fields}


def test_the_defaults_are_those_of_the_code() -> None:
    """A commented line of the shipped file that has a default shows it."""
    for line in (
        'partition = "month"',
        'oldest = "400d"',
        'ahead = "1d"',
        "max_meters = 100000",
        "max_per_day = 1440",
        'wait = "30d"',
        'protocol = "auto"',
        'sasl = "SCRAM-SHA-512"',
    ):
        assert f"# {line}" in (FOLDER / "collect.toml").read_text()
    accept = configuration.Accept()
    assert accept == configuration.Accept(
        oldest="400d", ahead="1d", max_meters=100_000, max_per_day=1_440, wait="30d"
    )
    assert Limits() == Limits(accept.oldest, accept.ahead, None, accept.max_meters, accept.max_per_day)
    assert configuration.Database(url="").partition == "month"
    assert source_table.Source().sasl == "SCRAM-SHA-512"


def test_a_dataset_is_where_the_unit_may_write() -> None:
    """The folder that the shipped file proposes is below the unit's state directory."""
    unit = (FOLDER / "meteragent-collect.service").read_text()
    [name] = re.findall(r"^StateDirectory=(\S+)$", unit, re.MULTILINE)
    [folder] = re.findall(r'^# folder = "([^"]+)"', (FOLDER / "collect.toml").read_text(), re.MULTILINE)
    assert folder.startswith(f"/var/lib/{name}/")
    assert folder in DOCUMENT


def test_every_reason_is_documented() -> None:
    """Each reason of a refusal is in the table."""
    table = DOCUMENT.partition("## What is refused")[2].partition("\n## ")[0]
    documented = {
        name for cell in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE) for name in cell.split("`")
    }
    assert set(REASONS) <= documented
