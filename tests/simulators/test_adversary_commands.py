"""`python -m simulators attack` and `frontier`: what they print, write and return."""

import csv
import json
import re
import subprocess
import sys
import tomllib
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from meteragent.extras import SIMULATORS, hint
from meteragent.privacy import LInfLaplace
from simulators.__main__ import COMMANDS, main
from simulators.adversary import curve, hidden, library
from simulators.adversary.measure import measure
from simulators.adversary.mechanism import rival
from simulators.adversary.named import Unusable
from simulators.adversary.scene import Floats, Integers, with_or_without
from simulators.commands import option
from simulators.extras import PACKAGES
from tests.support.not_run import ROOT

SMALL = ["--size", "8", "--slots", "6", "--trials", "80"]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints when all goes well."""
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


# Attack -------------------------------------------------------------------------------------------


def test_the_table_has_raw_and_private(capsys: pytest.CaptureFixture[str]) -> None:
    """Attackers down, raw and private across, with the worst, the bound, the odds and the error below."""
    table = said(capsys, "attack", "programmes", *SMALL, "--mechanism", "linf epsilon=1/20")
    lines = table.splitlines()
    assert "| attacker | none | linf epsilon=1/20 |" in lines
    assert lines[0] == "Which of 8 simulated programmes was on? 6 slots of 10 s"
    for name in ("bayes", "correlation", "averaging", "edges", "features", "neighbours", "**worst**"):
        assert sum(line.startswith(f"| {name} |") for line in lines) == 1
    (worst,) = (line for line in lines if line.startswith("| **worst**"))
    assert "**100.0**" in worst
    assert any(line.startswith("| nobody beats") and line.split("|")[2].strip() == "-" for line in lines)


def test_figures_repeat_from_a_seed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The same seed gives the same bytes, another one does not; 0 is a seed; a file holds the same."""
    arguments = ["attack", "programmes", *SMALL, "--json"]
    file = tmp_path / "found.json"
    first = said(capsys, *arguments, "--seed", "0", "--out", str(file))
    assert first == said(capsys, *arguments) == file.read_text(encoding="utf-8")
    assert first != said(capsys, *arguments, "--seed", "1")
    found = json.loads(first)
    assert found["seed"] == 0
    raw, private = found["mechanisms"]
    assert (raw["mechanism"], raw["bound"], private["is_broken"]) == ("none", None, False)
    assert len(private["found"]) == 6
    top = max(private["found"], key=lambda one: one["rate"])
    assert private["worst"] == top["attacker"]
    assert top["low"] < top["rate"] < top["high"]


def test_a_broken_promise_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Noise of scale 1/epsilon per reading that is called epsilon d_inf-private: the run ends with 3."""
    arguments = ["attack", "programmes", *SMALL, "--mechanism", "per-reading epsilon=1/20"]
    assert main(arguments) == 3
    assert "**broken**" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["mechanisms"][1]["is_broken"] is True


def test_presence_has_areas_and_f1(capsys: pytest.CaptureFixture[str]) -> None:
    """With or without an event, the area under the ROC curve stands beside its bound, and F1."""
    arguments = ["attack", "presence", *SMALL, "--event", "TV evening", "--mechanism", "linf epsilon=1/300"]
    table = said(capsys, *arguments)
    (area,) = (line for line in table.splitlines() if line.startswith("| area under the ROC curve"))
    assert re.search(r"0\.\d{3} \(0\.\d{3} to [01]\.\d{3}\); at most 0\.\d{3} \|$", area)
    assert "F1" in table


@pytest.mark.parametrize("scene", ["programmes", "presence"])
def test_real_traces_can_be_attacked(scene: str, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Windows of tracebase, and half hours of real homes."""
    arguments = ["attack", scene, *SMALL, "--data", str(data), "--attack", "bayes"]
    assert "real" in said(capsys, *arguments)


def test_check_is_confirmed_by_a_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of `check` beside what was measured, on simulated homes."""
    flat = np.full((2, 31, 1440), 300.0)
    monkeypatch.setattr(library, "simulated_days", lambda homes, days, seed: flat[:homes, :days])
    arguments = ["attack", "check", "--size", "2", "--trials", "40", "--attack", "bayes", "--preset", "day"]
    assert "| a kettle | 14 | 75 | bayes |" in said(capsys, *arguments)
    found = json.loads(said(capsys, *arguments, "--json"))
    assert found["homes"] == "2 simulated homes"
    assert all(row["is_confirmed"] for row in found["events"])


def test_a_false_saying_of_check_ends_with_3(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One refuted row among others that are confirmed is enough."""
    rows = [hidden.Row.of("a kettle", 1, said, {"bayes": 800}, 1000) for said in (80, 70)]
    monkeypatch.setattr(hidden, "confirm", lambda *_: rows)
    monkeypatch.setattr(library, "simulated_days", lambda *_: np.zeros((1, 31, 1440)))
    assert main(["attack", "check"]) == 3
    assert capsys.readouterr().out.count("more than claimed") == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["attack", "programmes", *SMALL, "--mechanism", "laplace"], "laplace is none of linf"),
        (["attack", "programmes", *SMALL, "--mechanism", "linf epsilon='1"], "No closing quotation"),
        (["attack", "programmes", *SMALL, "--attack", "clairvoyance"], "clairvoyance is none of bayes"),
        (["attack", "programmes", *SMALL, "--trials", "7"], "8 points need at least as many trials"),
        (["attack", "programmes", *SMALL, "--attack", "pathlib:Path"], "cannot attack"),
        (["attack", "programmes", "--slots", "2161"], "at most 2160 slots"),
        (["attack", "presence", *SMALL, "--event", "sauna"], "no event is named sauna"),
        (["attack", "check", "--preset", "bill"], "divide a day"),
        (["attack", "programmes", *SMALL, "--data", "/nowhere"], "0 windows of television"),
        (["frontier", *SMALL, "--mechanism", "mine:Mine"], "mine"),
    ],
)
def test_what_cannot_be_used_is_named(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names and numbers that are wrong end the run with 2 and one line that says why."""
    assert main(arguments) == 2
    assert why in capsys.readouterr().err


def test_a_mechanism_without_its_law_needs_other_attackers() -> None:
    """Bayes needs `log_mass`; without it the text says what is missing, and the others attack."""
    scene = library.programmes(4, 6, 0)
    mine = rival("tests.simulators.test_adversary_mechanism:Mine", scene, epsilon=1)
    with pytest.raises(Unusable, match="log_mass"):
        measure(scene, mine, ["bayes"], 40, 0)
    found = measure(scene, mine, ["correlation"], 40, 0)
    assert found.worst.rate == 1
    assert found.odds is None
    assert found.is_broken  # by how often it was right alone


class Shy:
    """Is never sure enough to say yes, and is right in every comparison."""

    def fit(self, windows: Integers, labels: Integers) -> object:
        """Learn nothing."""
        return self

    def predict_proba(self, windows: Integers) -> Floats:
        """Less than half for the event, the more the larger the values."""
        yes = 0.4 / (1 + np.exp(-windows.mean(axis=1)))
        return np.stack([1 - yes, yes], axis=1)


def test_an_area_alone_refutes_a_promise() -> None:
    """An attacker that orders all trials rightly is above the bound of the area, though it guesses."""
    scene = with_or_without("?", np.zeros((1, 1, 6), int), np.full((1, 1, 6), 3), Fraction(1))
    mine = rival("tests.simulators.test_adversary_mechanism:Mine", scene, epsilon=1)
    found = measure(scene, mine, ["tests.simulators.test_adversary_commands:Shy"], 2000, 0)
    assert (found.worst.rate, found.worst.auc) == (0.5, 1)
    assert found.bound is not None
    assert found.worst.high < found.bound
    assert found.is_broken


@pytest.mark.parametrize("seed", ["-1", "1.5", str(1 << 64)])
def test_a_seed_is_a_whole_number(seed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Anything else is refused, and the largest one named."""
    with pytest.raises(SystemExit):
        main(["attack", "programmes", f"--seed={seed}"])
    assert "from 0 to 2**64 - 1" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["attack", "frontier"])
def test_help_names_the_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every option is in the help, with the seed's default."""
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert all(
        option in text for option in ("--mechanism", "--attack", "--seed", "--trials", "--data", "--out")
    )


# Frontier -----------------------------------------------------------------------------------------


def test_the_frontier_is_at_equal_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Rows of all mechanisms; noises of one level have one error; the picture and the rows repeat."""
    rows = []
    for run in ("a", "b"):
        arguments = ["frontier", *SMALL, "--attack", "bayes", "--level", "1:4:2", "--radius", "38"]
        paths = [tmp_path / f"{run}.{kind}" for kind in ("csv", "png")]
        said(capsys, *arguments, "--out", str(paths[0]), "--plot", str(paths[1]))
        rows.append([path.read_bytes() for path in paths])
    assert rows[0] == rows[1]
    found = list(csv.DictReader((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["mechanism"] for row in found] == [
        *("linf", "linf", "independent", "independent", "per-reading", "per-reading", "telegraf", "telegraf"),
        *["average"] * 3,
    ]
    error = [float(row["error_w"]) for row in found]
    # 80 windows of 6 slots: the errors of heavy-tailed noise are within a quarter of each other.
    for at in (0, 1):
        assert error[2 + at :: 2][:3] == pytest.approx([error[at]] * 3, rel=0.25)
    assert (found[0]["epsilon_per_w"], found[1]["epsilon_per_w"]) == ("1/38", "2/19")
    assert [row["certificate"] == "" for row in found] == [False] * 6 + [True] * 5
    assert all(row["broken"] == str(row["mechanism"] == "per-reading") for row in found)


def test_independent_noise_pays_for_its_promise() -> None:
    """At one error, independent noise promises epsilon = n/b, and per reading 1/b is said of the same b."""
    scene = library.programmes(4, 6, 0)
    (level,) = option.levels("2:2:1")
    promises = {}
    for name in ("linf", "independent", "per-reading"):
        ((text, _),) = curve.mechanisms(name, [level], Fraction(40), scene)
        one = rival(text, scene).promise
        assert isinstance(one, LInfLaplace)
        promises[name] = float(one.epsilon)
    assert promises["linf"] == 1 / 20
    assert promises["independent"] == pytest.approx(6 * promises["per-reading"])
    # sd: sqrt((n+1)(n+2)/3)/epsilon = sqrt 2 n/epsilon'
    assert promises["independent"] / promises["linf"] == pytest.approx(
        np.sqrt(2) * 6 / np.sqrt(56 / 3), rel=1e-3
    )


def test_levels_are_so_many_times_apart() -> None:
    """lo:hi:k, of three digits; anything else is refused with an example."""
    assert [float(level) for level in option.levels("0.1:10:3")] == [0.1, 1, 10]
    for wrong in ("1:2", "2:1:3", "0:1:3", "1:2:1", "1:2:0", "a:b:c", "1:inf:2", "nan:1:2"):
        with pytest.raises(ValueError, match="lo:hi:k"):
            option.levels(wrong)


@pytest.mark.parametrize(
    ("needs", "module", "arguments", "extra"),
    [
        ("matplotlib.figure", "simulators.adversary.picture", ["frontier", "--level", "1:1:1"], "analysis"),
        ("pyarrow", "simulators.traces.trace", ["attack", "programmes", "--data"], "sim"),
    ],
)
def test_what_is_not_installed_is_named(
    needs: str,
    module: str,
    arguments: list[str],
    extra: str,
    *,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Plots need matplotlib and real traces pyarrow: without, the run ends with 2 and the extra's name."""
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, needs, None)
    (tmp_path / "tracebase").mkdir()
    (tmp_path / "tracebase" / "TV-LCD.parquet").touch()  # what would be read
    last = [str(tmp_path)] if arguments[-1] == "--data" else ["--mechanism", "linf", "--plot", "f.png"]
    assert main([*arguments, *last, *SMALL, "--attack", "edges"]) == 2
    assert f"pip install . './simulators[{extra}]' in a clone" in capsys.readouterr().err


def test_plots_are_pdf_or_png(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A PDF is drawn, also of an event; another kind of file is refused."""
    arguments = ["frontier", *SMALL, "--scene", "presence", "--attack", "bayes", "--mechanism", "linf"]
    arguments += ["--level", "1:1:1"]
    said(capsys, *arguments, "--plot", str(tmp_path / "f.pdf"))
    assert (tmp_path / "f.pdf").read_bytes().startswith(b"%PDF")
    assert main([*arguments, "--plot", str(tmp_path / "f.jpg")]) == 2
    assert "f.jpg" in capsys.readouterr().err


BLOCKED = (
    "import sys; sys.modules.update(dict.fromkeys({packages!r}));"
    " from simulators.__main__ import main; sys.exit(main({arguments!r}))"
)
"""A program without some packages."""


def without(packages: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command as if some packages were not installed."""
    code = BLOCKED.format(packages=packages, arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_usage_is_a_command_and_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    """There is no comma or other mark between the two."""
    with pytest.raises(SystemExit):
        main(["--help"])
    assert capsys.readouterr().out.startswith("usage: python -m simulators [-h] COMMAND ...\n")
    with pytest.raises(SystemExit):
        main([])
    assert "the following arguments are required: COMMAND\n" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_needs_no_extra(command: str) -> None:
    """`--help` of each command works without any extra, and describes it."""
    packages = sorted(set().union(*PACKAGES.values()) - {"scikit-learn"} | {"sklearn"})
    done = without(packages, command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"usage: python -m simulators {command}" in done.stdout
    documentation = import_module(f"simulators.commands.{command}").__doc__ or ""
    if command == "simtest":  # its docstring is a theory of operation
        documentation = "Run the agent under seeded faults"
    first = documentation.split(".")[0].split(":")[0]
    assert first in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("scipy", ["attack", "programmes"], "analysis"),
        ("scipy", ["frontier"], "analysis"),
        ("matplotlib", ["paper"], "analysis"),
        ("scipy", ["utility"], "analysis"),
        ("matplotlib", ["pictures", "--out", "nowhere"], "analysis"),
        ("aiomqtt", ["pictures", "--out", "nowhere"], "demo"),
    ],
)
def test_the_hint_names_the_extra_that_has_the_package(
    package: str, arguments: list[str], extra: str
) -> None:
    """Without a package the run ends with 1 and names the package, and an extra that installs it."""
    done = without([package], *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    first, _, command = done.stderr.partition(" is missing: ")
    assert re.fullmatch(rf"{arguments[0]}: {package}[.\w]*", first)
    assert command.strip() == hint(extra, SIMULATORS)


def test_extras_are_those_of_the_distribution() -> None:
    """The hints name extras that exist, with the packages that pyproject.toml has."""
    project = tomllib.loads((ROOT / "simulators" / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for name, packages in PACKAGES.items():
        wanted = {re.split(r"[<>=\[]", one)[0] for one in extras[name]}
        assert packages == ({"pyspark"} if name == "spark" else wanted)
    assert {extra for extra, _ in COMMANDS.values()} <= PACKAGES.keys() == extras.keys()
