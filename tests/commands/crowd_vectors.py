"""Write the test vectors of docs/crowd.md from fixed seeds.

    python -m tests.commands.crowd_vectors          # writes tests/crowd/vectors.json

Sealed numbers are those of an implementation of RFC 9180 apart from the library's, with fixed ephemeral keys.
"""

import json
from pathlib import Path
from typing import Any

from meteragent.crowd import message, share
from meteragent.crowd.draw import draw_noise
from meteragent.crowd.message import Answer, Batch, Chunk, KeyList, Refusal, Report
from meteragent.crowd.seal import PAD, SHARE, TOTAL, DayKeys, seal_info
from meteragent.crowd.total import TotalFormat
from tests.support.crowd import HELPER, LATTICE, LEADER, SLOT_S, group_text, make_group, secret
from tests.support.hpke_reference import seal

PATH = Path(__file__).parents[1] / "crowd" / "vectors.json"
HOMES = {"a": 606 * LATTICE + 1_234_567, "b": -12 * LATTICE - 1, "c-3.x_y": 0}
"""The energies of three homes, in the accumulator's units: the dither rounds the first up to 607 quanta."""
REJECTED = 1
"""The place of the home whose pad is sealed for another slot, so that the helper does not count it."""


def ephemeral(name: str) -> bytes:
    """Return the ephemeral private key of a name."""
    return secret("ephemeral " + name)


def sealed(name: str, value: int, public: bytes, place: bytes) -> bytes:
    """Seal a number with the ephemeral key of a name."""
    return seal(ephemeral(name), public, place, value.to_bytes(8, "big"))


GROUP = make_group(smallest_crowd="2")
DAY = SLOT_S // 86_400
DAY_SECRETS = {"leader": secret("leader's day"), "helper": secret("helper's day")}
IDENTITIES = {"leader": LEADER, "helper": HELPER}
KEYS = {role: DayKeys(day_secret, role, GROUP.id) for role, day_secret in DAY_SECRETS.items()}


def home(place: int, label: str, energy: int) -> dict[str, Any]:
    """Return a home's numbers and its report."""
    leader, helper = KEYS["leader"], KEYS["helper"]
    pad = int.from_bytes(secret("pad " + label)[:8], "big")
    dither = int.from_bytes(secret("dither " + label)[:8], "big") % LATTICE
    opened = share.open_accumulator(pad, dither, LATTICE)
    closed = share.add_energy(opened, energy, LATTICE)
    part = share.close_accumulator(closed, LATTICE)
    pad_slot_s = SLOT_S + 1800 * (place == REJECTED)
    pad_info = seal_info(PAD, GROUP.id, pad_slot_s, helper.id, label.encode())
    share_info = seal_info(SHARE, GROUP.id, SLOT_S, leader.id, label.encode())
    sealed_pad = sealed("pad " + label, pad, helper.public, pad_info)
    sealed_share = sealed("share " + label, part, leader.public, share_info)
    report = Report(SLOT_S, label, helper.id, leader.id, sealed_pad, sealed_share)
    return {
        "label": label,
        "energy": energy,
        "quanta": (dither + energy) // LATTICE,
        "lattice": LATTICE,
        "pad": str(pad),
        "dither": dither,
        "opened": str(opened),
        "closed": str(closed),
        "share": str(part),
        "pad_info": pad_info.hex(),
        "pad_ephemeral": ephemeral("pad " + label).hex(),
        "share_info": share_info.hex(),
        "share_ephemeral": ephemeral("share " + label).hex(),
        "report": report.encode(GROUP.id).hex(),
    }


def totals(homes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the request of all homes, the helper's answer and the published total."""
    payloads = [bytes.fromhex(home["report"]) for home in homes]
    entries = [Report.decode(GROUP.id, payload).entry for payload in payloads]
    leader, helper = KEYS["leader"], KEYS["helper"]
    batch = Batch(SLOT_S, message.batch_digest(GROUP.id, SLOT_S, entries), leader.public, len(entries), 2)
    chunks = [Chunk(batch, 0, tuple(entries[:2])), Chunk(batch, 1, tuple(entries[2:]))]
    del homes[REJECTED : REJECTED + 1], payloads[REJECTED], entries[REJECTED]
    counted_digest = message.batch_digest(GROUP.id, SLOT_S, entries)
    reports_digest = message.reports_digest(GROUP.id, SLOT_S, payloads)
    helper_noise = draw_noise(helper.noise, GROUP.id, SLOT_S, counted_digest, GROUP.loss_per_quantum)
    leader_noise = draw_noise(leader.noise, GROUP.id, SLOT_S, reports_digest, GROUP.loss_per_quantum)
    total = share.sum_modulo([helper_noise, *(int(home["pad"]) for home in homes)])
    total_info = seal_info(TOTAL, GROUP.id, SLOT_S, leader.id, counted_digest)
    sealed_total = sealed("total", total, leader.public, total_info)
    answer = Answer(SLOT_S, batch.digest, batch.homes, (REJECTED,), leader.id, sealed_total)
    quanta = sum(home["quanta"] for home in homes) + helper_noise + leader_noise
    return {
        "request": [chunk.encode(GROUP.id, LEADER.sign).hex() for chunk in chunks],
        "batch_digest": batch.digest.hex(),
        "counted_digest": counted_digest.hex(),
        "reports_digest": reports_digest.hex(),
        "noise": {"helper": helper_noise, "leader": leader_noise},
        "helper_total": str(total),
        "total_info": total_info.hex(),
        "total_ephemeral": ephemeral("total").hex(),
        "answer": answer.encode(GROUP.id, HELPER.sign).hex(),
        "refusal": Refusal(SLOT_S, batch.digest, "early").encode(GROUP.id, HELPER.sign).hex(),
        "total": TotalFormat(GROUP).encode_record(SLOT_S, quanta, len(homes)).decode(),
        "descriptor": TotalFormat(GROUP).encode_descriptor().decode(),
    }


def vectors() -> dict[str, Any]:
    """Return all vectors; bytes are in hex, numbers below 2^64 are decimal strings."""
    homes = [home(place, label, energy) for place, (label, energy) in enumerate(HOMES.items())]
    keys = {
        role: {
            "identity_secret": secret(role).hex(),
            "day": DAY,
            "day_secret": DAY_SECRETS[role].hex(),
            "public": of_day.public.hex(),
            "key_id": of_day.id.hex(),
            "noise_key": of_day.noise.hex(),
            "serial": SLOT_S,
            "list": KeyList(role, SLOT_S, ((DAY, of_day.public),))
            .encode(GROUP.id, IDENTITIES[role].sign)
            .hex(),
        }
        for role, of_day in KEYS.items()
    }
    file = group_text(smallest_crowd="2")
    return {
        "group": {"file": file, "canonical": GROUP.canonical_bytes.decode(), "id": GROUP.id.hex()},
        "slot_s": SLOT_S,
        "keys": keys,
        "homes": homes,
        **totals(list(homes)),
    }


def text() -> str:
    """Return the file of the vectors."""
    return json.dumps(vectors(), indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
