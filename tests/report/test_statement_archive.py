"""The page and the JSON of an archive's configuration: what `sanitise` does, and nothing of brokers."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from meteragent import config
from meteragent.cli import main
from meteragent.report import markdown
from tests.report.test_statement import section
from tests.support.archives import (
    DAY_MS,
    LONG,
    QUARTERS,
    SPRING_MS,
    Place,
    long_rows,
    manifest_of,
    save,
    text,
    wide_rows,
)
from tests.support.configurations import written

AGENTS = (
    "broker",
    "TLS",
    "no key can remove it",
    "operating system",
    "retained",
    "topic",
    "silence",
    "meteragent ledger",
    "store",
    "whatever computing power",
)
"""What is true of the agent alone."""
SUMMER_MS = SPRING_MS + 10 * DAY_MS - 3_600_000
"""A local day of 24 hours begins."""
MEAN_DAY = "timezone = 'UTC'\nlength = '1mo'\nbands = ['00-07', '07:30-22']"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a key."""
    return Place.make(tmp_path / "place")


def keys(window: str) -> dict[str, str]:
    """Return the sections that a window needs."""
    return {"window": window} | ({"privacy": "preset = 'typical-day'"} if window == MEAN_DAY else {})


def configured(place: Place, window: str = QUARTERS, **sections: str) -> Path:
    """Write a configuration with an [archive]."""
    path = place.folder / "archive.toml"
    path.write_text(text(place.folder / "archive.key", **keys(window), **sections))
    return path


def page(path: Path) -> str:
    """Return the page of a configuration, its lines joined."""
    return " ".join(markdown.statement_text(config.load(path)).split())


@pytest.mark.parametrize("window", [QUARTERS, MEAN_DAY])
def test_the_page_of_an_archive_is_about_an_archive(place: Place, window: str) -> None:
    """It says that the noise comes from a key and who can remove it, and nothing about the agent's noise."""
    told = page(configured(place, window=window))
    for part in (
        "The noise is derived from a key (AES-256)",
        "Anyone who has the key can remove the noise from",
        "writes them nowhere",
        "To a folder of Parquet files",
        "does not have the key and cannot break AES-256 or SHA-256",
        "the meter's own name, as in the input",
        '"noise": "prf"',
        '"schedule": "archive"',
    ):
        assert part in told
    assert not [part for part in AGENTS if part in told]
    assert '"noise":"os"' not in told
    assert '"schedule":"wall"' not in told


def test_the_page_of_an_agent_says_nothing_of_keys() -> None:
    """Without [archive] all that is said of the agent stays."""
    told = " ".join(markdown.statement_text(config.parse(written())).split())
    assert not [part for part in AGENTS if part not in told]
    assert "AES" not in told


def test_pseudonyms_are_named(place: Place) -> None:
    """The column of meters is a pseudonym where the configuration says so."""
    sink = f"pseudonym_key_file = '{place.folder}/archive.key'"
    assert "a keyed pseudonym of the meter's name" in page(configured(place, sink=sink))


@pytest.mark.parametrize("window", [QUARTERS, "length = '1h'", MEAN_DAY])
def test_columns_are_those_that_leave(place: Place, window: str) -> None:
    """The table has the columns of both forms of output, and one of them is private."""
    path, columns = configured(place, window=window), set[str]()
    table = section(markdown.statement_text(config.load(path)), "What leaves")
    rows = long_rows(1, 40)
    place.sanitise(save(place.folder / "long.parquet", rows, LONG), "long", **keys(window))
    columns |= set(pq.read_table(place.folder / "long").column_names)
    if window == QUARTERS:
        place.sanitise(
            save(place.folder / "wide.parquet", wide_rows(1, 1, first_ms=SPRING_MS - 90 * DAY_MS)),
            "wide",
            window=window,
        )
        columns |= set(pq.read_table(place.folder / "wide").column_names)
    named = re.findall(r"^\| `([a-z, ]+)` \| (.*) \|$", table, re.MULTILINE)
    assert columns <= {name for names, _ in named for name in names.split(", ")}
    assert ("band" in columns) == ("`band`" in table)
    assert [names for names, meaning in named if "**private**" in meaning] == ["values, value"]


@pytest.mark.parametrize("window", [QUARTERS, "length = '1d'\ntimezone = 'Europe/Amsterdam'"])
def test_check_says_the_descriptor_of_the_manifest(
    place: Place, window: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check --json` has the id, the noise, the schedule and the errors of what `sanitise` writes."""
    path = configured(place, window=window)
    place.sanitise(
        save(place.folder / "in.parquet", long_rows(1, 1, first_ms=SUMMER_MS), LONG), **keys(window)
    )
    manifest = manifest_of(place.folder / "out.parquet")
    (descriptor,) = manifest["descriptors"]
    assert main(["check", str(path), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["streams"]
    assert (told["noise"], told["schedule"]) == ("prf", "archive")
    differing = {name for name in descriptor if descriptor[name] != told.get(name)}
    assert differing <= {"meter", "valid_from"}
    assert main(["check", str(path)]) == 0
    assert "The noise is derived from a key" in capsys.readouterr().out
    assert main(["check", str(path), "--statement"]) == 0
    assert f'"id": "{descriptor["id"]}"' in capsys.readouterr().out
