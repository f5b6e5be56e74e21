"""`python -m simulators paper`: the numbers beside the pictures are those of the functions, from one seed."""

import csv
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from meteragent.privacy import SeededBits
from simulators.__main__ import main
from simulators.adversary import library
from simulators.adversary.attackers import ATTACKERS
from simulators.adversary.scene import Scene
from simulators.commands import paper
from simulators.papers.examples import registration_dates, smart_meter

FILES = ["fig3.csv", "fig3.png", "fig4.csv", "fig4.png", "identification.csv"]


def rows(path: Path) -> list[dict[str, str]]:
    """A file's rows by the names of its columns."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def scene() -> Scene:
    """A few programmes."""
    return library.programmes(6, paper.SLOTS, 0)


def test_the_command_writes_the_same_bytes_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures, CSVs and what is printed follow from the seed; another has other noise."""
    monkeypatch.setattr(paper, "EPSILONS", paper.EPSILONS[2:3])
    monkeypatch.setattr(paper, "DELTAS", paper.DELTAS[:2])
    said, sizes = [], ["--size", "6", "--trials", "30"]
    for name in "ab":
        assert main(["paper", "--out", str(tmp_path / name), *sizes, "--seed", "0"]) == 0
        said.append(capsys.readouterr().out)
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == FILES
    a, b = ({file: (tmp_path / name / file).read_bytes() for file in FILES} for name in "ab")
    assert a == b
    assert said[0] == said[1]
    assert "promises epsilon for one reading that changes alone" in said[0]
    assert "all 30\nreadings change, it promises 30 epsilon d_inf" in said[0]
    for name in ("draw_dates", "draw_signature"):
        monkeypatch.setattr(paper, name, lambda *_: None)
    assert main(["paper", "--out", str(tmp_path / "c"), *sizes, "--seed", "1"]) == 0
    c = {file: (tmp_path / "c" / file).read_bytes() for file in FILES if file.endswith(".csv")}
    assert [file for file in c if a[file] == c[file]] == ["fig3.csv"]
    true = [[row["true_w"] for row in rows(tmp_path / name / "fig4.csv")] for name in "ac"]
    assert true[0] != true[1]
    found = rows(tmp_path / "a" / "identification.csv")
    assert [(row["mechanism"], row["epsilon_per_w"], row["seed"]) for row in found] == [
        (name, "1/10", "0") for name in ("per-reading", "independent", "linf")
    ]
    assert [row["broken"] for row in found] == ["True", "False", "False"]


def test_the_dates_are_those_of_the_paper_s_example() -> None:
    """Fig. 3: alpha by epsilon, metric and delta; under d_h never within the span, under d_1 within days."""
    alphas, one = {row[:3]: row.alpha_days for row in paper.dates()}, Fraction(1)
    assert len(alphas) == 2 * len(paper.DATE_EPSILONS) * len(paper.DELTAS)
    assert alphas[one, "d_h", 0.05] == pytest.approx(14_978.7, abs=0.1)
    assert alphas[one, "d_1", 0.05] == registration_dates(1, 5000, 5, 0.05)["d_1"]
    assert all(alphas[e, "d_h", d] == pytest.approx(1000 * alphas[e, "d_1", d]) for e, _, d in alphas)


def test_the_signature_is_a_programme_under_three_noises(scene: Scene) -> None:
    """Fig. 4: two epsilons, three noises, 30 readings each; what is promised stands with each of them."""
    found = list(paper.signature(scene, 3))
    assert len(found) == 2 * 3 * 30
    first = smart_meter(scene.points[0, 0], "1/10", 1, 0.05, SeededBits(3))
    for at, (name, drawn) in enumerate(first.items()):
        own = found[30 * at : 30 * at + 30]
        assert {(row.noise, row.epsilon) for row in own} == {(name, paper.SIGNATURE_EPSILONS[0])}
        assert [row.true_w for row in own] == scene.points[0, 0].tolist()
        assert [row.private_w for row in own] == drawn.values.tolist()
        assert [row.start_s for row in own] == list(range(0, 300, 10))
        assert own[0].window_epsilon == drawn.window_epsilon
        assert own[0].alpha_w == drawn.alpha
    other = list(paper.signature(scene, 0))
    assert [row.private_w for row in other] != [row.private_w for row in found]
    windows = [found[at].window_epsilon / found[at].epsilon for at in range(0, 180, 30)]
    assert windows == [30, 1, 1, 30, 1, 1]


def test_per_reading_noise_gives_the_programme_away(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """At one epsilon the figure's noise is recognised far more often, and its error says why.

    The root mean square is sqrt 2/epsilon per reading and n times that with n/epsilon; l_inf lies between.
    """
    monkeypatch.setattr(paper, "EPSILONS", paper.EPSILONS[2:3])
    outcomes = [point.outcome for point in paper.identification(scene, 120, 0)]
    assert all([one.attacker for one in outcome.results] == list(ATTACKERS) for outcome in outcomes)
    per_reading, independent, ours = (outcome.error_w for outcome in outcomes)
    assert per_reading == pytest.approx(10 * math.sqrt(2), rel=0.05)
    assert independent == pytest.approx(300 * math.sqrt(2), rel=0.05)
    assert ours == pytest.approx(10 * math.sqrt(31 * 32 / 3), rel=0.1)
    rates = [outcome.worst.rate for outcome in outcomes]
    assert rates[0] > 0.9
    assert max(rates[1:]) < 0.6
    assert outcomes[0].worst.low > (outcomes[0].bound or 1)
    assert np.argmin([outcome.error_w for outcome in outcomes]) == 0


@pytest.mark.parametrize(
    "wrong", [["--size", "1"], ["--trials", "0"], ["--seed", "-1"], ["--seed", "18446744073709551616"]]
)
def test_sizes_that_cannot_be_are_refused(wrong: list[str], tmp_path: Path) -> None:
    """Two programmes at least, a trial, a seed of 64 bits."""
    with pytest.raises(SystemExit):
        main(["paper", "--out", str(tmp_path), *wrong])


def test_too_few_trials_end_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each programme is played; where that cannot be, the command says so, and so it does of a bad folder."""
    assert main(["paper", "--out", str(tmp_path), "--size", "6", "--trials", "5"]) == 2
    assert "need at least as many trials" in capsys.readouterr().err
    file = tmp_path / "file"
    file.touch()
    assert main(["paper", "--out", str(file), "--size", "6"]) == 2
    assert "paper: " in capsys.readouterr().err
