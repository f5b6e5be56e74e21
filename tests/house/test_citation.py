"""CITATION.cff says how to cite the software, in the Citation File Format 1.2.0."""

import re

import meteragent
from tests.support.not_run import ROOT

TEXT = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
FIELDS = dict(re.findall(r"^([a-z-]+):[ \n]*(.*(?:\n +.*)*)", TEXT, re.MULTILINE))
"""The fields of the first level with their text; a plain reading of what is written here, no YAML."""


def test_it_has_what_the_format_asks_for_and_no_field_twice() -> None:
    """The version of the format, a message, a title and authors; each field is one that the format knows."""
    names = re.findall(r"^([^ #\n][^:\n]*):", TEXT, re.MULTILINE)
    assert sorted(names) == sorted(FIELDS)
    needed = {"cff-version", "message", "title", "authors"}
    assert needed <= FIELDS.keys() <= needed | {"abstract", "keywords", "license", "type", "version"}
    assert FIELDS["cff-version"] == "1.2.0"
    assert FIELDS["type"] == "software"


def test_every_line_is_a_field_an_item_or_the_rest_of_one() -> None:
    """No tabs, nothing that ends in blanks; a colon inside a text of one line stands in quotes."""
    for line in TEXT.splitlines():
        assert re.fullmatch(r'[a-z-]+:( >-| "[^"]*"| [^"#:]*)?|  - (name: )?[^"#:]+|  [^"#:]+', line), line
        assert line == line.rstrip()


def test_it_names_this_version_and_its_license() -> None:
    """The version is that of the package, the license that of LICENSE, by its SPDX name."""
    assert FIELDS["version"] == meteragent.__version__
    assert FIELDS["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_the_authors_are_an_entity() -> None:
    """The only author is an entity, so no person is named without consent."""
    assert FIELDS["authors"].split("\n") == ["- name: The meteragent authors"]
