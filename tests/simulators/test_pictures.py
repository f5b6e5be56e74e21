"""`python -m simulators pictures`: all pictures of the READMEs, from one seed."""

import re
from pathlib import Path

import numpy as np

from simulators import __main__ as simulators
from simulators.commands.pictures import street
from tests.support.not_run import ROOT

SHOWN = {
    path.name
    for page in [ROOT / "README.md", *ROOT.glob("simulators/**/README.md")]
    for path in map(Path, re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text()))
    if path.name not in {"page.png", "homes.png", "utility.png"}  # of a browser, and of other commands
}


def test_one_command_draws_all_pictures_of_the_readmes(tmp_path: Path) -> None:
    """Every picture that a README shows is among those drawn, and each is a PNG."""
    assert simulators.main(["pictures", "--seed", "3", "--trials", "100", "--out", str(tmp_path)]) == 0
    drawn = {path.name: path.read_bytes() for path in tmp_path.glob("*.png")}
    assert set(drawn) >= SHOWN == {"demo.png", "frontier.png", "fig3.png", "fig4.png"}
    assert all(content.startswith(b"\x89PNG") for content in drawn.values())


def test_the_street_follows_from_the_seed() -> None:
    """The same seed gives the same private numbers, another seed others; their noise is the promise's."""
    one, same, other = street(3, 20), street(3, 20), street(4, 20)
    assert np.array_equal(one.private_w, same.private_w)
    assert not np.array_equal(one.private_w, other.private_w)
    # 960 Laplace numbers of deviation 311: that of their deviation is 11 (kurtosis 6); five of it either way.
    assert abs(float(np.std(one.private_w - one.true_w)) - 311) < 56
