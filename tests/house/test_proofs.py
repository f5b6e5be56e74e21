"""What proofs/README.md says of the theorems is what its files and docs/theory.md say; Coq is not needed."""

import re
import shutil
from itertools import pairwise

import pytest

from meteragent.core import register_judgement
from meteragent.domain.units import HOUR_MS
from tests.commands import proofs
from tests.house.test_theory import NUMBERS, SECTIONS
from tests.support.not_run import ROOT

FILES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "proofs").glob("*.v"))}
TABLE = proofs.theorems((ROOT / "proofs" / "README.md").read_text(encoding="utf-8"))
ASSUMED = re.compile(
    r"\b(?:Admitted|admit|give_up|Axioms?|Parameters?|Conjectures?|Abort|bypass_check|Unset\s+\w+ Checking)\b"
)
WORDS_MAX = 500


def without_comments(text: str) -> str:
    """Return the text of a Coq file without its comments, which are not nested here."""
    return re.sub(r"\(\*.*?\*\)", "", text, flags=re.DOTALL)


def proved(text: str) -> list[str]:
    """Return the names of the theorems in a Coq file."""
    return re.findall(r"^\s*Theorem (\w+)", without_comments(text), re.MULTILINE)


def test_the_table_has_every_theorem_and_no_other() -> None:
    """Each theorem in the files has its place in the table, and what the table names is a theorem there."""
    in_files = {(name, theorem) for name, text in FILES.items() for theorem in proved(text)}
    assert {(row.file, row.name) for row in TABLE} == in_files
    assert len(TABLE) == len(in_files) >= 35


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_assumed(name: str) -> None:
    """No proof is left open, and variables and hypotheses stand inside sections, where they are premises."""
    text = without_comments(FILES[name])
    assert not ASSUMED.search(text)
    depth = 0
    for word in re.findall(r"^\s*(Section|End|Variables?|Hypothes[ie]s|Context)\b", text, re.MULTILINE):
        depth += {"Section": 1, "End": -1}.get(word, 0)
        assert depth > 0 or word == "End", word
    assert depth == 0
    assert text.count("Qed.") + text.count("Defined.") >= text.count("Theorem ") + text.count("Lemma ")


def test_only_the_standard_library_is_imported() -> None:
    """The files import Coq's own library and each other."""
    for text in FILES.values():
        modules = set(re.findall(r"^From (\w+) Require Import", text, re.MULTILINE))
        assert modules <= {"Coq", "Proofs"}
        assert len(re.findall(r"\bRequire\b", text)) == len(
            re.findall(r"^From \w+ Require", text, re.MULTILINE)
        )


def test_sections_are_those_of_the_theory_and_back() -> None:
    """The sections in the table are those that the theory calls machine-checked, and no others."""
    marked = re.compile(r"^Machine-checked[.,]", re.MULTILINE)
    in_theory = {number for number, text in SECTIONS.items() if marked.search(text)}
    assert in_theory == {section for row in TABLE for section in row.sections}


def test_a_theorem_s_comment_has_its_number() -> None:
    """The numbers in the files' comments are sections that the table has for the file."""
    for name, text in FILES.items():
        comments = re.findall(r"\(\* THEORY ((?:[\dAT][\d.]*\d)(?:(?:,| and) [\dAT][\d.]*\d)*)", text)
        numbers = {number for comment in comments for number in re.split(r",? (?:and )?", comment)}
        sections = {section for row in TABLE if row.file == name for section in row.sections}
        assert numbers <= sections


def test_the_register_s_rule_has_the_constants_of_the_code() -> None:
    """A possible change and one within the range are weighed by the same numbers in Coq and in Python."""
    text = " ".join(without_comments(FILES["Register.v"]).split())
    second, excess, hour = register_judgement._SECOND_MS, register_judgement._EXCESS, HOUR_MS
    assert f"span a b + {second} + {excess} * Z.min (span a b) {hour}" in text
    assert text.count(f"* {second} ") == 2


def test_the_page_is_short_and_names_the_axioms() -> None:
    """The page has at most 500 words and says what each letter of the table stands for."""
    text = (ROOT / "proofs" / "README.md").read_text(encoding="utf-8")
    assert sum(any(map(str.isalnum, word)) for word in text.split()) <= WORDS_MAX
    for letter, axiom in proofs.AXIOMS.items():
        assert re.search(rf"\b{letter}\s+(?:is )?`{axiom}`", text)


def test_axioms_are_read() -> None:
    """Names of axioms are read without modules, also where their type begins on the next line."""
    printed = (
        "Axioms:\nM.sig_not_dec : forall P : Prop, {~ ~ P} + {~ P}\nM.N.funext\n  : forall x : A,\n    x = x"
        "\nClosed under the global context\nAxioms:\nclassic : forall P : Prop, P \\/ ~ P\n"
    )
    assert proofs.axioms(printed) == [{"sig_not_dec", "funext"}, set(), {"classic"}]


def test_without_coq_it_is_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where Coq is missing, `make proofs` says so and how to install it, and does not fail."""
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert proofs.main() == 0
    assert re.match("NOT RUN: the proofs: coqc is missing .*apt-get install", capsys.readouterr().out)


def test_the_table_is_in_order() -> None:
    """The rows are in the order of the theory."""
    places = [NUMBERS.index(row.sections[0]) for row in TABLE]
    assert all(first <= second for first, second in pairwise(places))
