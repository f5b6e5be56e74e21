"""The corpus of payloads: every statement of its manifest, and that its entries are whole and allowed."""

import re
from datetime import date

import pytest

from meteragent.decode.profiles import PROFILES
from meteragent.domain.counters import REFUSALS
from tests.support.payloads import FOLDER, Payload, payloads

ENTRIES = payloads()
KEPT = ("MIT", "ISC", "Apache-2.0", "BSD-3-Clause (IETF code component)")
"""Licences under which a captured payload may be kept, with the notice in NOTICE."""
_NUMBER = re.compile(r"-?\d+(\.\d+)? Wh?")


@pytest.mark.parametrize("payload", ENTRIES, ids=str)
def test_a_payload_is_read_as_its_manifest_states(payload: Payload) -> None:
    """Each quantity has the stated value and time, or is refused for the stated reason."""
    assert [statement for statement in payload.statements() if not statement.is_right] == []


@pytest.mark.parametrize("payload", ENTRIES, ids=str)
def test_an_entry_says_where_it_is_from(payload: Payload) -> None:
    """Source, licence, date and origin are stated; what is captured may be kept."""
    facts = payload.facts
    assert isinstance(facts["date"], date)
    assert facts["source"].startswith("https://")
    assert facts["origin"] in ("captured", "rebuilt")
    assert facts["origin"] == "rebuilt" or facts["licence"] in KEPT
    assert payload.reads
    assert all(_NUMBER.fullmatch(one) or one in {"other", *REFUSALS} for one in payload.reads.values())


def test_every_payload_has_an_entry() -> None:
    """Each file below the folder is an entry, once, and each of these is a file."""
    files = {str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*")}
    assert files == {payload.file for payload in ENTRIES}
    assert len(files) == len(ENTRIES)


def test_licences_have_their_notices() -> None:
    """Every licence under which a captured payload is kept has its text or its notice in NOTICE."""
    notice = (FOLDER / "NOTICE").read_text()
    captured = [payload for payload in ENTRIES if payload.facts["origin"] == "captured"]
    for payload in captured:
        owner = "/".join(payload.facts["source"].split("/")[3:5])
        assert owner in notice or "rfc-editor.org" in payload.facts["source"]
        assert payload.facts["licence"].partition(" ")[0] in notice


def test_serials_are_invented() -> None:
    """No telegram has a serial number other than digits of pi or zeros."""
    pi = 3 * b"3141592653589793238462643383279502884197"
    for payload in ENTRIES:
        if payload.facts["origin"] == "captured" and payload.profile == "dsmr-p1":
            equipment = re.findall(rb"96\.1\.[0-35-9](?:\*255)?\(([^)]+)\)", payload.bytes)
            assert all(serial in pi or not serial.strip(b"0") for serial in equipment), payload


def test_every_family_has_payloads() -> None:
    """There are at least 200 payloads, of at least 25 profiles of which one is read."""
    read = {payload.profile for payload in ENTRIES if any(" " in one for one in payload.reads.values())}
    assert len(ENTRIES) >= 200
    assert len(read) >= 25
    assert read <= set(PROFILES)
