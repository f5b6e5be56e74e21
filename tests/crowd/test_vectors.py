"""The test vectors of docs/crowd.md: whoever computes the same speaks the same protocol."""

import hashlib
import json

from meteragent.crowd import group as groups
from meteragent.crowd import message
from meteragent.crowd.helper import Helper
from meteragent.crowd.leader import Leader
from meteragent.crowd.machine import RowKey
from meteragent.crowd.message import Answer, KeyList, Report
from meteragent.crowd.seal import DayKeys, Identity
from meteragent.crowd.total import TotalFormat
from tests.commands import crowd_vectors
from tests.support import hpke_reference
from tests.support.crowd import secret

VECTORS = json.loads(crowd_vectors.PATH.read_text(encoding="utf-8"))
GROUP = groups.parse_group(VECTORS["group"]["file"])
SLOT_S = VECTORS["slot_s"]


def rows(role: str) -> dict[RowKey, bytes]:
    """Return the row of an operator's day secret."""
    keys = VECTORS["keys"][role]
    return {RowKey("secret", keys["day"]): bytes.fromhex(keys["day_secret"])}


def identity(role: str) -> Identity:
    """Return an operator's identity."""
    return Identity(bytes.fromhex(VECTORS["keys"][role]["identity_secret"]))


def test_the_command_writes_the_file() -> None:
    """The vectors follow from the seeds."""
    assert crowd_vectors.text() == crowd_vectors.PATH.read_text(encoding="utf-8")


def test_the_reference_of_hpke_agrees_with_rfc_9180() -> None:
    """The RFC's vector for X25519, HKDF-SHA256 and ChaCha20-Poly1305, base mode, sequence number 0."""
    sealed = hpke_reference.seal(
        ephemeral=bytes.fromhex("f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600"),
        public=bytes.fromhex("4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a"),
        info=bytes.fromhex("4f6465206f6e2061204772656369616e2055726e"),
        plaintext=b"Beauty is truth, truth beauty",
        aad=b"Count-0",
    )
    assert sealed[:32].hex() == "1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a"
    assert sealed[32:].hex().startswith("1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db")


def test_the_group_and_its_keys() -> None:
    """Canonical bytes, id, keys of the day and signed lists."""
    assert GROUP.canonical_bytes.decode() == VECTORS["group"]["canonical"]
    assert GROUP.id.hex() == VECTORS["group"]["id"]
    assert hashlib.sha256(VECTORS["group"]["canonical"].encode()).hexdigest() == VECTORS["group"]["id"]
    for role, keys in VECTORS["keys"].items():
        derived = DayKeys(bytes.fromhex(keys["day_secret"]), role, GROUP.id)
        assert [derived.public.hex(), derived.id.hex()] == [keys["public"], keys["key_id"]]
        assert derived.noise.hex() == keys["noise_key"]
        assert identity(role).public == GROUP.public_keys[role]
        key_list = KeyList(role, keys["serial"], ((keys["day"], derived.public),))
        assert key_list.encode(GROUP.id, identity(role).sign).hex() == keys["list"]


def test_both_operators_compute_the_total() -> None:
    """From reports to the published bytes; only the sealing of the answer is fresh."""
    leader = Leader(GROUP, identity("leader"), rows("leader"))
    helper = Helper(GROUP, identity("helper"), rows("helper"))
    for home in VECTORS["homes"]:
        payload = bytes.fromhex(home["report"])
        assert leader.take_report(home["label"], payload, GROUP.end_s(SLOT_S)).refusals == []
    deadline_s = GROUP.closing_s(SLOT_S) + 1
    leader.tick(deadline_s)
    batch, entries = leader._batch(SLOT_S)
    assert batch is not None
    assert batch.digest.hex() == VECTORS["batch_digest"]
    answers = []
    for chunk in VECTORS["request"]:
        answers += helper.take_request(bytes.fromhex(chunk), deadline_s).messages
    [sent] = answers
    fresh, fixed = sent.payload, bytes.fromhex(VECTORS["answer"])
    assert fresh[:-120] == fixed[:-120]
    keys = DayKeys(bytes.fromhex(VECTORS["keys"]["leader"]["day_secret"]), "leader", GROUP.id)
    place = bytes.fromhex(VECTORS["total_info"])
    for payload in (fresh, fixed):
        answer = Answer.decode(GROUP.id, payload).message
        assert keys.unseal_number(answer.total, place) == int(VECTORS["helper_total"])
    counted = [entry for place, entry in enumerate(entries) if place not in answer.rejected]
    assert message.batch_digest(GROUP.id, SLOT_S, counted).hex() == VECTORS["counted_digest"]
    [total] = leader.take_answer(fixed, deadline_s).messages
    assert total.payload.decode() == VECTORS["total"]
    assert TotalFormat(GROUP).encode_descriptor().decode() == VECTORS["descriptor"]


def test_sealed_numbers_follow_from_the_ephemeral_keys() -> None:
    """Pads, shares and the helper's total, sealed anew."""
    total = Answer.decode(GROUP.id, bytes.fromhex(VECTORS["answer"])).message.total
    numbers = [(VECTORS, "total", "leader", VECTORS["helper_total"], total)]
    for home in VECTORS["homes"]:
        report = Report.decode(GROUP.id, bytes.fromhex(home["report"]))
        numbers.append((home, "pad", "helper", home["pad"], report.pad))
        numbers.append((home, "share", "leader", home["share"], report.share))
    for fields, part, role, number, sealed in numbers:
        key, place = (bytes.fromhex(fields[f"{part}_{name}"]) for name in ("ephemeral", "info"))
        public = bytes.fromhex(VECTORS["keys"][role]["public"])
        assert hpke_reference.seal(key, public, place, int(number).to_bytes(8, "big")) == sealed


def test_the_shares_of_homes() -> None:
    """The reports open to the shares."""
    keys = DayKeys(secret("leader's day"), "leader", GROUP.id)
    for home in VECTORS["homes"]:
        report = Report.decode(GROUP.id, bytes.fromhex(home["report"]))
        opened = keys.unseal_number(report.share, bytes.fromhex(home["share_info"]))
        assert opened == int(home["share"]) == (home["quanta"] - int(home["pad"])) % 2**64
