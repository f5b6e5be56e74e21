"""The `crowd` command: identities, configurations, what `health` and `ledger` print."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from meteragent.cli import health, main
from meteragent.crowd.machine import RowKey
from meteragent.domain.errors import ConfigError
from meteragent.operators import configuration, identity, vitals
from meteragent.operators.desk import LedgerLine
from meteragent.operators.store import Store
from meteragent.operators.vitals import OperatorVitals
from meteragent.service.vitals import as_json, as_metrics
from tests.support.crowd import group_text

VITALS = OperatorVitals(
    version="1",
    service="leader",
    group="elm-street",
    group_id="00",
    running_s=60,
    is_connected=True,
    waiting=2,
    unanswered_s=0,
    ahead_s=0,
    published_s=0,
    loaded_s=None,
    refused_topics=(),
    silent_slot_s=None,
    counts={"reports": 5, "slots_total": 1},
    refusals={"late": 1},
    slots=((1_795_000_200, "total", 100),),
)


def folder(path: Path, **changes: str) -> Path:
    """Write a group and the configuration of its leader, whose identity is new; return the latter's path."""
    public = identity.create(path / "leader.key").public.hex()
    text = group_text(**changes)
    start = text.index("[leader]")
    before = text[start:].partition('identity = "')[2][:64]
    (path / "group.toml").write_text(text.replace(before, public))
    config = path / "leader.toml"
    config.write_text(
        f'group_file = "{path}/group.toml"\nidentity_file = "{path}/leader.key"\n'
        f'[broker]\nurl = "mqtt://127.0.0.1"\n[store]\npath = "{path}/leader.db"\n'
    )
    return config


def test_an_identity_is_made_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`key new` shows the public key, which `key show` shows again; an existing file is kept."""
    path = str(tmp_path / "leader.key")
    assert main(["crowd", "key", "new", path]) == 0
    first = capsys.readouterr().out
    assert main(["crowd", "key", "show", path]) == 0
    assert capsys.readouterr().out == first
    assert first == f'identity = "{identity.load(Path(path)).public.hex()}"\n'
    assert main(["crowd", "key", "new", path]) == 1
    assert "file exists" in capsys.readouterr().err
    assert Path(path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("text", "mode"), [("no key", 0o600), (None, 0o604)])
def test_a_file_without_an_identity(
    text: str | None, mode: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of something else, or one that everybody can read, is refused; nothing of it is shown."""
    path = tmp_path / "leader.key"
    identity.create(path)
    if text is not None:
        path.write_text(text)
    path.chmod(mode)
    assert main(["crowd", "key", "show", str(path)]) == 78
    error = capsys.readouterr().err
    assert "leader.key" in error
    assert "no key" not in error


def test_a_configuration_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` shows the group's id, and needs neither the broker nor the store."""
    config = folder(tmp_path)
    assert main(["crowd", "leader", str(config), "--check"]) == 0
    output = capsys.readouterr().out
    assert configuration.load(config, "leader").group.id.hex() in output
    assert not (tmp_path / "leader.db").exists()


def test_the_other_role_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An identity serves the role that the group gives it."""
    assert main(["crowd", "helper", str(folder(tmp_path)), "--check"]) == 78
    assert "leader.toml:2: identity_file: its public key is" in capsys.readouterr().err


def test_all_errors_come_at_once(tmp_path: Path) -> None:
    """Each error has its file, line, value and what would be right."""
    config = folder(tmp_path, smallest_crowd="1", level="-1")
    config.write_text(config.read_text().replace("mqtt://127.0.0.1", "http://x"))
    (tmp_path / "leader.key").unlink()
    with pytest.raises(ConfigError) as caught:
        configuration.load(config, "leader")
    text = str(caught.value)
    for part in ("broker.url", "group.toml", "smallest_crowd: found 1", "level: found", "crowd key new"):
        assert part in text
    assert "http://x" not in text


def test_errors_of_form_hide_no_others(tmp_path: Path) -> None:
    """Wrong keys, address, identity and group come together, first those of the configuration."""
    config = folder(tmp_path, smallest_crowd="1", level="-1")
    text = (
        config.read_text().replace("mqtt://127.0.0.1", "http://x").replace("[store]", "stor = [1.5]\n[store]")
    )
    config.write_text(f"grup = 1\n{text}")
    (tmp_path / "leader.key").unlink()
    with pytest.raises(ConfigError) as caught:
        configuration.load(config, "leader")
    keys = [(error.key, error.file is None) for error in caught.value.errors]
    own = ["grup", "identity_file", "broker.url", "broker.stor"]
    assert keys == [*((key, True) for key in own), *((key, False) for key in ("level", "smallest_crowd"))]


@pytest.mark.parametrize("text", ['name = "', "a = [", "= 3", "\n\nname"])
def test_a_group_that_is_not_toml_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is that of a configuration, and the text names the group's file."""
    config = folder(tmp_path)
    (tmp_path / "group.toml").write_text(text)
    assert main(["crowd", "leader", str(config), "--check"]) == 78
    error = capsys.readouterr().err
    assert f"{tmp_path}/group.toml: found text that is not TOML" in error


def test_numbers_are_shown_as_written(tmp_path: Path) -> None:
    """No text has the name of Python's type for decimals."""
    config = folder(tmp_path)
    config.write_text(f"group_file = [1.5, 2]\n{config.read_text().partition(chr(10))[2]}")
    with pytest.raises(ConfigError, match=r"group_file: found .*") as caught:
        configuration.load(config, "leader")
    assert "Decimal" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "group_file: found nothing; expected the file of the group"),
        ('group_fil = "x"', "group_fil: found an unknown key; did you mean 'group_file'?"),
        ("store.pat = 1", "store.pat: found an unknown key"),
        ("broker = 1", "broker: found 1; expected a table"),
        ("=", "text that is not TOML"),
    ],
)
def test_a_wrong_file_is_refused(text: str, expected: str) -> None:
    """The text names the key, the value and what would be right."""
    with pytest.raises(ConfigError) as caught:
        configuration.parse(text)
    assert expected in str(caught.value)


def test_the_ledger_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each slot, for people or as JSON."""
    config = folder(tmp_path)
    assert main(["crowd", "ledger", str(config)]) == 1
    operation = configuration.load(config, "leader")
    with Store.open(operation.store, "leader", operation.group.id) as store:
        lines = [
            LedgerLine(1_795_000_200, 1_795_003_301, "total", 1000),
            LedgerLine(1_795_002_000, 1_795_005_101, "too_few", 2),
            LedgerLine(1_795_003_800, 1_795_006_901, "malformed", 0),
        ]
        store.commit_step({RowKey("report", 0, "h"): b""}, lines)
    capsys.readouterr()
    assert main(["crowd", "ledger", str(config)]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith("2026-11-18T11:10:00Z  total            1,000 homes")
    assert second.startswith("2026-11-18T11:40:00Z  too_few              2 homes")
    assert third.startswith("2026-11-18T12:10:00Z  malformed            - homes")
    assert main(["crowd", "ledger", str(config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["homes"] == 1000


def test_health_without_an_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody answers: the code is 1, and the text names the store and how an operator is started."""
    path = folder(tmp_path)
    assert main(["health", str(path)]) == 1
    err = capsys.readouterr().err
    assert "no operator answers at" in err
    assert f"Start the operator: meteragent crowd ROLE {path}" in err


def text(state: OperatorVitals) -> str:
    """Return what `health` prints."""
    return health.as_text(json.loads(as_json(state)))


def test_vitals_are_told_whole() -> None:
    """JSON holds all of them; without problems the text says that all is well."""
    document = json.loads(as_json(VITALS))
    assert document["slots"] == [list(slot) for slot in VITALS.slots]
    assert (document["group"], document["service"], document["healthy"]) == ("elm-street", "leader", True)
    assert VITALS.problems == ()
    assert "All is well." in text(VITALS)
    assert "total, homes: 100" in text(VITALS)


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("broker_down", {"is_connected": False}),
        ("messages_refused", {"refused_topics": ("total",)}),
        ("unanswered", {"unanswered_s": 901}),
        ("clock_ahead", {"ahead_s": 301}),
        ("keys_ahead", {"published_s": 60, "is_connected": False}),
        ("overloaded", {"loaded_s": 10.0}),
        ("no_reports", {"silent_slot_s": 1_795_000_200}),
        ("no_requests", {"silent_slot_s": 1_795_000_200, "service": "helper"}),
        ("no_total", {"slots": ((1_795_000_200, "too_few", 0),)}),
    ],
)
def test_each_problem_is_named(code: str, changes: dict[str, Any]) -> None:
    """A problem has a code, a text and a cure, in the text and in the metrics."""
    wrong = replace(VITALS, **changes)
    assert [problem.code for problem in wrong.problems] == [code]
    assert f"({code})" in text(wrong)
    sample = f'meteragent_problem{{group="elm-street",role="{wrong.service}",code="{code}",stream=""}} 1'
    assert sample in as_metrics(wrong)


@pytest.mark.parametrize(("field", "code"), [("ahead_s", "clock_ahead"), ("published_s", "keys_ahead")])
def test_a_wrong_clock_explains_silence(field: str, code: str) -> None:
    """While the clock is ahead, a slot without reports is no problem of its own."""
    changes: dict[str, Any] = {field: 400, "silent_slot_s": 1_795_000_200}
    assert [problem.code for problem in replace(VITALS, **changes).problems] == [code]


def test_prometheus_reads_the_metrics() -> None:
    """Every counter is a metric of this operator; results of slots and refusals have labels of their own."""
    samples = {
        (sample.name.removeprefix("meteragent_"), *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(as_metrics(VITALS))
        for sample in family.samples
    }
    owner = ("group", "elm-street"), ("role", "leader")
    assert samples["healthy", *owner] == samples["crowd_connected", *owner] == 1
    for name in vitals.COUNTERS:
        assert samples[f"crowd_{name}_total", *owner] == VITALS.counts.get(name, 0)
    slots = ("group", "elm-street"), ("result", "total"), ("role", "leader")
    assert samples["crowd_slots_total", *slots] == 1
    refusals = ("group", "elm-street"), ("reason", "late"), ("role", "leader")
    assert samples["crowd_refusals_total", *refusals] == 1
