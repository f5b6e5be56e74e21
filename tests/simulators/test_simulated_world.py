"""`python -m simulators world`: the same bytes from the same seed, and books that agree."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from meteragent.store import outbox
from simulators.__main__ import main
from simulators.commands.world import START_MS, World
from simulators.homes.account import Account, energy_u
from simulators.homes.fault import NONE, Faults, Row
from simulators.homes.meter import Readings
from simulators.invariant import InvariantViolation
from tests.support.channels import FEW

FILES = ["events.parquet", "faults.csv", "ledger.csv", "releases.jsonl", "slots.csv", "summary.json"]
SMALL = ["world", "--homes", "2", "--out"]
HOSTILE = Faults(0.05, 0.05, 0.05, 0.05, 0.8, 0.8, 0.8, 0.8)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of two homes for a day, of seed 0."""
    folder = tmp_path_factory.mktemp("world")
    assert main([*SMALL, str(folder), "--seed", "0"]) == 0
    return folder


@pytest.fixture(scope="module")
def account() -> Account:
    """What there is to check of a home with all faults at once, and of another."""
    return World(1, 2, faults=HOSTILE).run()[0]


def table(path: Path) -> list[dict[str, str]]:
    """A file's rows."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_same_bytes(out: Path, tmp_path: Path) -> None:
    """A second run writes the same files byte for byte.

    Another seed writes others, but for the ledger here: charges follow the clock and who speaks at all.
    """
    assert main([*SMALL, str(tmp_path / "again"), "--seed", "0"]) == 0
    assert main([*SMALL, str(tmp_path / "other"), "--seed", "1"]) == 0
    assert sorted(path.name for path in out.iterdir()) == FILES
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()
        same = (tmp_path / "other" / name).read_bytes() == (out / name).read_bytes()
        assert same == (name == "ledger.csv")


def test_the_files_agree(out: Path) -> None:
    """Released values are means and noise; the ledger has a window for three slots; counters add up."""
    summary = json.loads((out / "summary.json").read_text())
    lines = [json.loads(line) for line in (out / "releases.jsonl").read_text().splitlines()]
    records = [line["payload"] for line in lines if not line["retain"]]
    slots, spent = table(out / "slots.csv"), table(out / "ledger.csv")
    assert len(records) == len(slots) == summary["slots"] == 3 * sum(int(row["windows"]) for row in spent)
    assert {row["meter"] for row in spent} == {"m0", "m1"}
    assert all(Fraction(row["epsilon_per_w"]) == Fraction(int(row["windows"]), 660) for row in spent)
    assert [line["left_ms"] for line in lines] == sorted(line["left_ms"] for line in lines)
    assert summary["messages"] == summary["counts"]["received"]
    lost = summary["faults"]["drop"] + summary["faults"]["silence"] - summary["faults"]["duplicate"]
    assert summary["messages"] == 2 * 1440 - lost
    assert len(table(out / "faults.csv")) == sum(summary["faults"].values())
    assert summary["slots_exact"] > 0.7 * summary["slots"]
    assert parquet.read_table(out / "events.parquet")["home"].to_pylist()[-1] == 1
    mean_w = np.array([float(row["mean_w"]) for row in slots if row["home"] == "0"])
    noisy_w = np.array([record["value"] for record in records if record["meter"] == "m0"])
    assert abs(mean_w.mean() - noisy_w.mean()) < 5 * records[0]["sd"] / len(mean_w) ** 0.5


def test_without_faults_all_is_exact() -> None:
    """Where nothing goes wrong every reading counts, and all slots less their noise are exact means."""
    account, agent = World(2, 1, faults=NONE).run()
    assert account.check() == len(account.released)
    counts = agent.agent_counts
    assert (counts["accepted"] + counts["early"], counts["late"]) == (1440, 0)


def test_with_many_faults_the_account_agrees(account: Account) -> None:
    """However much goes wrong, the slots that no fault touched are exact."""
    assert 0 < account.check() < len(account.released)


def test_what_a_fault_may_have_touched(account: Account) -> None:
    """The slots between what a stamp says and the true time, where a reading stands, and near them."""
    noon, minute = START_MS + 43_200_000, 60_000

    def touched(what: str, sent_min: int, stamp_min: int) -> list[int]:
        row = Row(1, noon + sent_min * minute, what, noon + stamp_min * minute)
        found = replace(account, rows=[row]).touched()
        assert {slot.home for slot in found} <= {1}
        return sorted((slot.start_ms - noon) // minute for slot in found)

    assert touched("drop", 2, 2) == [0]
    assert touched("drop", 1, 1) == [-10, 0]
    assert touched("drop", 4, 4) == [0, 10]
    assert touched("jump", 2, -25) == [-30, -20, -10, 0]
    assert touched("jump", 2, 25) == [0, 10, 20, 30]
    assert touched("duplicate", 2, 2) == touched("reorder", 2, 2) == []


def lose(account: Account) -> Account:
    """A release that never left."""
    return replace(account, released=account.released[1:])


def shift(account: Account) -> Account:
    """All values a quantum off."""
    return replace(account, released=[(slot, quanta + 1) for slot, quanta in account.released])


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lose, "the slots with noise are not the released slots"),
        (shift, "not the exact mean"),
    ],
)
def test_what_does_not_hold_is_found(
    wrong: Callable[[Account], Account], text: str, account: Account
) -> None:
    """A world in which a record is lost or has another value is refused."""
    with pytest.raises(InvariantViolation, match=text):
        wrong(account).check()


def test_a_release_that_is_lost_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends with 1, and writes nothing, when a record that was committed does not leave."""
    append, lost = outbox.append_commit, list[Any]()

    def lossy(tx: Any, commit: Any) -> Any:
        rows = [row for row in commit.outgoing if not row.retain]
        if rows and not lost:
            lost.append(rows[0])
            commit.outgoing.remove(rows[0])
        return append(tx, commit)

    monkeypatch.setattr(outbox, "append_commit", lossy)
    assert main(["world", "--homes", "1", "--seed", "0", "--out", str(tmp_path)]) == 1
    assert "a slot is due but does not leave" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@FEW
@given(
    steps=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=20),
    from_ms=st.integers(-5, 100),
    lasts=st.integers(0, 100),
    hold=st.integers(1, 9),
)
def test_energy(steps: list[tuple[int, int]], from_ms: int, lasts: int, hold: int) -> None:
    """The energy between two times is the sum over its milliseconds of what stands there."""
    times = np.cumsum([gap for gap, _ in steps])
    values = np.array([value for _, value in steps], np.float64)
    stands = {t: int(v) for at, v in zip(times.tolist(), values, strict=True) for t in range(at, at + hold)}
    expected = 10**6 * sum(stands.get(t, 0) for t in range(from_ms, from_ms + lasts))
    found = energy_u(Readings(times, values), np.array([from_ms]), np.array([from_ms + lasts]), hold)
    assert found.tolist() == [expected]


@pytest.mark.parametrize("wrong", [["--homes", "0"], ["--days", "x"], ["--seed", "a"]])
def test_arguments_are_refused(wrong: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Impossible options are refused by name; the output depends on no hidden seed."""
    with pytest.raises(SystemExit, match="2"):
        main([*SMALL, str(tmp_path), "--seed", "0", *wrong])
    assert wrong[0] in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main([*SMALL, str(tmp_path)])
    assert main([*SMALL, str(tmp_path), "--seed", "-1"]) == 2
    assert "a seed is" in capsys.readouterr().err
